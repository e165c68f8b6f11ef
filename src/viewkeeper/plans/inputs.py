"""Which parts of what it reads a part of a view over streams is made of, as far as its plan alone says."""

from __future__ import annotations

from viewkeeper.catalog.model import PartView
from viewkeeper.plans.references import Input, Subscript
from viewkeeper.plans.viewdf import QueryPlan
from viewkeeper.plans.window import BLOCKS, CUMULATIVE, RUNNING, Cumulated, Halves, Window, WindowPiece

HERE = Subscript(1, 0)
"""The same part."""


def inputs(view: PartView, initial: bool = False) -> tuple[Input, ...]:
    """What a part of `view` (the initial one, or a later one) reads, as far as it must be there."""
    match view.plan:
        case QueryPlan() as plan:
            return plan.initialize.inputs if initial else plan.update.inputs
        case Halves() as plan:
            return (Input(plan.below, Subscript(2, 0), Subscript(2, 1)),)
        case Cumulated() as plan:
            return (Input(plan.below, Subscript(1, -plan.window), HERE),)
        case Window() as plan:
            return tuple(dict.fromkeys(each for piece in plan.pieces for each in _required(piece, plan.window)))
    (source,) = view.reads  # by patterns, and what a window is made of: the same part of one source
    return (Input(source, HERE, HERE),)


def optional_inputs(plan: Window) -> tuple[Input, ...]:
    """What a part of a window view reads if it is there."""
    return tuple(dict.fromkeys(each for piece in plan.pieces for each in _optional(piece, plan.window)))


def level_input(object_: int, level: int, window: int) -> Input:
    """The blocks of a level that lie within the window of part j."""
    size = 2**level
    return Input(object_, Subscript(1, size - window, size), Subscript(1, 1 - size, size))


def _required(piece: WindowPiece, window: int) -> list[Input]:
    """What a piece reads, as far as it must be there: it also says which windows are whole."""
    whole = Input(piece.object, Subscript(1, 1 - window), HERE)
    if piece.strategy == BLOCKS:
        return [whole, *(level_input(o, k, window) for k, o in enumerate(piece.levels, 1))]
    return [whole]


def _optional(piece: WindowPiece, window: int) -> list[Input]:
    """What a piece reads if it is there."""
    before = Subscript(1, -window)
    if piece.strategy == RUNNING:
        return [Input(piece.object, before, before)]
    if piece.strategy == CUMULATIVE:
        assert piece.since is not None
        return [Input(piece.since, HERE, HERE), Input(piece.since, before, before)]
    return []

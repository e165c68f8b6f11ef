"""The programs of window views and their helpers (streams/part_program.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Catalog, Column, PartView
from viewkeeper.catalog.types import BIGINT, BINARY, physical_type
from viewkeeper.plans import window as plans
from viewkeeper.plans.inputs import HERE, inputs, optional_inputs
from viewkeeper.plans.references import Input, Subscript, parts_text
from viewkeeper.plans.text import expression_text, outputs_text
from viewkeeper.plans.window import BLOCKS, CUMULATIVE, GREATEST, LEAST, MERGE, RUNNING, Layout, Slot, WindowPiece
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.part_program import Carry, OfRows, Output, PartProgram, Past, Shuffled, Wanted
from viewkeeper.streams.query_rows import computed, rows_of
from viewkeeper.streams.shown import ShownParts
from viewkeeper.streams.windows.cost import Sizes, candidates_text
from viewkeeper.streams.windows.finish import finish
from viewkeeper.streams.windows.states import combine, lift, reduce
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.keys import canonical, numbered

SINCE = Column("since", BIGINT, False)


def cumulated_layout(layout: Layout) -> Layout:
    """What a cumulated helper keeps: sums since a group began, and behind them the part in which it did."""
    return Layout(layout.keys, layout.values, (*layout.slots, Slot(LEAST, -2, BIGINT)))


@dataclass
class PreAggregation(OfRows, Shuffled):
    """A helper's part: the groups of the source's part."""

    plan: plans.PartAggregate
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    dimensions: tuple[int, ...]
    optional: tuple[Input, ...] = ()
    carry: Carry = "none"

    def prepared_columns(self) -> tuple[Column, ...]:
        """As the helper's own: groups of a slice, which `advance` puts together."""
        return self.plan.layout.columns

    def prepare(self, part: int, rows: Block, dimensions: Mapping[int, Block]) -> Block:
        """The groups of a slice; raises ViewBroken, which names the place, where an expression raises."""
        return self.prepare_some(part, rows, dimensions, lambda hashes: np.ones(len(hashes), np.bool_))

    def prepare_some(self, part: int, rows: Block, dimensions: Mapping[int, Block], wanted: Wanted) -> Block:
        """Only the rows of wanted groups are sorted and put together."""
        plan = self.plan
        columns, length = rows_of(plan.input, {plan.source: rows, **dimensions}, plan.zone)
        keys, values = ([numbered(canonical(column)) for column in computed(each, columns, length, plan.zone)]
                        for each in (plan.keys, plan.values))  # fmt: skip
        measures = computed(plan.measures, columns, length, plan.zone)
        hashes = hash_columns(keys, length)
        keep = wanted(hashes)
        if not keep.all():
            places = np.flatnonzero(keep)
            hashes, index = hashes[places], pa.array(places)
            keys, values, measures = ([column.take(index) for column in each] for each in (keys, values, measures))
        return lift(plan.layout, hashes, keys, values, measures)

    def advance(self, part: int, rows: Block, past: Past) -> Mapping[int, Block]:
        """The groups of the part."""
        return {self.outputs[0].object: reduce(self.plan.layout, rows)}

    def text(self, shown: ShownParts) -> Iterator[str]:
        """Of which rows, by what."""
        yield f"pre-aggregates {self.plan.text()}"


@dataclass
class Halving(OfRows):
    """A helper's part: two neighbouring parts of the helper below put together."""

    plan: plans.Halves
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    dimensions: tuple[int, ...] = ()
    optional: tuple[Input, ...] = ()
    carry: Carry = "none"

    def advance(self, part: int, rows: Block, past: Past) -> Mapping[int, Block]:
        """Both halves together."""
        halves = [_picked(past.read(self.plan.below, 2 * part + i), self.plan.pick) for i in (0, 1)]
        return {self.outputs[0].object: combine(self.plan.layout, halves)}

    def text(self, shown: ShownParts) -> Iterator[str]:
        """Which two."""
        yield f"puts {shown.parts(self.inputs[0])} together"


@dataclass
class Cumulation(OfRows):
    """A helper's part: its last one and the newest part of the helper below.

    It ends, and begins anew, where the source has no row for longer than the window.
    """

    plan: plans.Cumulated
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    dimensions: tuple[int, ...] = ()
    optional: tuple[Input, ...] = ()
    carry: Carry = "part"

    def advance(self, part: int, rows: Block, past: Past) -> Mapping[int, Block]:
        """All up to here, with the part in which each group began."""
        own, below, window = self.outputs[0].object, self.plan.below, self.plan.window
        before = past.read(own, part - 1)
        new = combine(
            self.plan.summed, _parts(past, below, part if len(before) else part - window, part, self.plan.pick)
        )
        marked = Block([*new.columns, pa.array([part] * len(new), pa.int64())], new.hashes)
        return {own: combine(self.plan.layout, [before, marked])}

    def text(self, shown: ShownParts) -> Iterator[str]:
        """Of what, and what that means."""
        own, below = shown.name(self.outputs[0].object), shown.name(self.plan.below)
        yield f"puts {own}[j-1] and {below}[j] together: a late row touches every later part"
        yield f"begins anew behind {self.plan.window} parts without rows"


@dataclass
class Sliding:
    """A window view's part, from its pieces."""

    plan: plans.Window
    inputs: tuple[Input, ...]
    optional: tuple[Input, ...]
    outputs: tuple[Output, ...]
    carry: Carry
    dimensions: tuple[int, ...] = ()
    is_timed = False

    def advance(self, part: int, rows: Block, past: Past) -> Mapping[int, Block]:
        """The view's rows, and what running pieces keep for the next part."""
        made: dict[int, Block] = {}
        merged = []
        once = _Once(past)
        for piece in self.plan.pieces:
            block = _STRATEGIES[piece.strategy](piece, self.plan.window, part, once)
            if piece.own is not None:
                made[piece.own] = block
            merged.append(block)
        made[self.outputs[0].object] = finish(self.plan, merged)
        return made

    def text(self, shown: ShownParts) -> Iterator[str]:
        """How each piece of the window is had, and at what cost; what is made of them."""
        plan = self.plan
        yield f"over {plan.window} parts of {shown.name(plan.source)}, sliding by part"
        groups = f"by ({', '.join(key.name for key in plan.keys)})" if plan.keys else "as one group"
        source, grouped = shown.sizes(plan.source, []), shown.sizes(plan.pieces[0].object, [])
        sizes = Sizes() if source is None or grouped is None else Sizes(source[0], grouped[0])
        for piece in plan.pieces:
            of = ", ".join(column.name for column in piece.layout.values) or ", ".join(
                dict.fromkeys(slot.kind for slot in piece.layout.slots)
            )
            yield f"{of} {groups}: {_piece_text(piece, plan.window, shown)}"
            measured = shown.measured.get(self.outputs[0].object)
            yield from candidates_text(plan, piece, level_count(plan.window), sizes, measured)
        having = f" HAVING {expression_text(plan.having)}" if plan.having is not None else ""
        yield f"outputs: {outputs_text(plan.outputs, [column.name for column in plan.columns])}{having}"

    def empty_rows(self) -> Block | None:
        """The rows of a part whose window is empty, if there are any: without GROUP BY there is always one group."""
        if self.plan.keys:
            return None
        return finish(self.plan, [_nothing(piece) for piece in self.plan.pieces])


class _Once:
    """A past in which what several pieces read is read once."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._known: dict[tuple[int, int], Block] = {}

    def read(self, object_: int, part: int) -> Block:
        if (object_, part) not in self._known:
            self._known[object_, part] = self._past.read(object_, part)
        return self._known[object_, part]

    def filled(self, object_: int, low: int, high: int) -> Sequence[int]:
        return self._past.filled(object_, low, high)

    def last(self, object_: int) -> Block:
        return self._past.last(object_)


def window_program(catalog: Catalog, view: PartView) -> PartProgram:
    """How the parts of a window view, or of a helper of one, are computed."""
    plan = view.plan
    outputs = (Output(view.id, view.columns), *(Output(helper.id, helper.columns) for helper in view.helpers))
    if isinstance(plan, plans.PartAggregate):
        return PreAggregation(plan, inputs(view), outputs, view.dimensions)
    if isinstance(plan, plans.Halves):
        return Halving(plan, inputs(view), outputs)
    if isinstance(plan, plans.Cumulated):
        return Cumulation(plan, inputs(view), outputs)
    if not isinstance(plan, plans.Window):
        raise TypeError(f"{view.name} is no window view")
    return Sliding(plan, inputs(view), optional_inputs(plan), outputs, "part" if view.helpers else "none")


def _nothing(piece: WindowPiece) -> Block:
    """The one group of no rows."""
    columns = [pa.nulls(1, physical_type(column.type)) for column in piece.layout.values]
    for slot in piece.layout.slots:
        for type_ in slot.types:
            nothing = None if slot.kind in (LEAST, GREATEST) else b"" if type_ == BINARY else 0
            columns.append(pa.array([nothing], physical_type(type_)))
    return Block(columns, hash_columns((), 1))


def _merged(piece: WindowPiece, window: int, part: int, past: Past) -> Block:
    return combine(piece.layout, _parts(past, piece.object, part - window + 1, part, piece.pick))


def _parts(past: Past, object_: int, low: int, high: int, pick: Sequence[int]) -> list[Block]:
    """What is picked of the parts from `low` to `high` that have rows; of one where none has."""
    return [_picked(past.read(object_, i), pick) for i in past.filled(object_, low, high) or [high]]


def _running(piece: WindowPiece, window: int, part: int, past: Past) -> Block:
    """What was, and the part that comes, without the part that leaves.

    Where there was nothing the window before this one was empty, or this is the first: then all its parts are merged.
    """
    assert piece.own is not None
    before = past.read(piece.own, part - 1)
    if not len(before):
        return _merged(piece, window, part, past)
    came, left = (_picked(past.read(piece.object, i), piece.pick) for i in (part, part - window))
    return combine(piece.layout, [before, came, left], [1, 1, -1])


def _difference(piece: WindowPiece, window: int, part: int, past: Past) -> Block:
    """The sums up to here less those up to the part that leaves, of the groups that have not begun anew since.

    Where either is not there, all parts are merged.
    """
    assert piece.since is not None
    layout, slots = piece.layout, len(piece.layout.columns)
    marked = Layout(layout.keys, (SINCE,), layout.slots)
    order = (*range(layout.key), slots, *range(layout.key, slots))
    now, then = (past.read(piece.since, i) for i in (part, part - window))
    if not len(now) or not len(then):
        return _merged(piece, window, part, past)
    difference = combine(marked, [_picked(now, order), _picked(then, order)], [1, -1])
    return _picked(difference, [i for i in range(slots + 1) if i != layout.key])


def _blocks(piece: WindowPiece, window: int, part: int, past: Past) -> Block:
    blocks = []
    for level, i in cover(part - window + 1, part, len(piece.levels)):
        if level == 0:
            blocks.append(_picked(past.read(piece.object, i), piece.pick))
        else:
            blocks.append(past.read(piece.levels[level - 1], i))
    return combine(piece.layout, blocks)


_STRATEGIES: dict[str, Callable[[WindowPiece, int, int, Past], Block]] = {
    MERGE: _merged, RUNNING: _running, CUMULATIVE: _difference, BLOCKS: _blocks,
}  # fmt: skip


def _piece_text(piece: WindowPiece, window: int, shown: ShownParts) -> str:
    helper = shown.name(piece.object)
    whole = parts_text(helper, Subscript(1, 1 - window), HERE)
    if piece.own is not None:
        return f"{shown.name(piece.own)}[j-1] + {helper}[j] - {helper}[j-{window}]"
    if piece.since is not None:
        since = shown.name(piece.since)
        return f"{since}[j] - {since}[j-{window}]"
    if piece.levels:
        blocks = ", ".join(map(shown.name, (piece.object, *piece.levels)))
        return f"{whole}, from the fewest blocks of {blocks}"
    return f"{whole}, put together"


def cover(low: int, high: int, levels: int) -> list[tuple[int, int]]:
    """The fewest blocks that make up the parts `low` to `high`: (level, which), a block of level k being the parts
    which * 2**k to (which + 1) * 2**k - 1."""
    found: list[tuple[int, int]] = []
    for level in range(levels):
        if low > high:
            return found
        if low % 2:
            found.append((level, low))
            low += 1
        if low <= high and high % 2 == 0:
            found.append((level, high))
            high -= 1
        low, high = low // 2, (high + 1) // 2 - 1
    return [*found, *((levels, i) for i in range(low, high + 1))]


def level_count(window: int) -> int:
    """How many levels of blocks are of use: every window of that many parts then has one of the highest."""
    levels = 0
    while 2 ** (levels + 2) - 1 <= window:
        levels += 1
    return levels


def _picked(block: Block, pick: Sequence[int]) -> Block:
    return Block([block.columns[i] for i in pick], block.hashes)

"""From the running numbers of a window to the rows of the view: aggregates read off, HAVING, outputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.errors import ViewBroken
from viewkeeper.evaluation import exact_product
from viewkeeper.evaluation.error_codes import format_error
from viewkeeper.maintenance.totals import sum_or_average
from viewkeeper.plans.window import Layout, Window, WindowCall, WindowPiece
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.query_rows import computed, filtered
from viewkeeper.streams.windows.distinct_values import result, values_of
from viewkeeper.streams.windows.states import align
from viewkeeper.trace.keys import numbers

FinishedColumn = tuple[pa.Array, np.ndarray | None]
"""The values of a call, and their packed errors, 0 for none."""


def finish(plan: Window, merged: Sequence[Block]) -> Block:
    """The view's part; `merged` has for each piece its groups (and values) over the window.

    Raises ViewBroken where a sum or average does not fit its type, or an expression over the groups raises.
    """
    key = len(plan.keys)
    groups: Block | None = None
    found: dict[int, pa.Array] = {}
    for i, (piece, block) in enumerate(zip(plan.pieces, merged, strict=True)):
        places = [n for n, call in enumerate(plan.calls) if call.piece == i]
        own = _read(piece, block, [plan.calls[n] for n in places], key)
        if groups is None:
            groups = own
        elif places:
            own = align(key, own, groups)
        found.update(zip(places, own.columns[key:], strict=True))
    assert groups is not None
    columns = [*groups.columns[:key], *(found[n] for n in range(len(plan.calls)))]
    hashes, length = groups.hashes, len(groups)
    if plan.having is not None:
        numbered, left = filtered(plan.having, [*columns, pa.array(np.arange(length))], length, plan.zone)
        if left < length:
            hashes = hashes[numbers(numbered[-1])]
        columns, length = numbered[:-1], left
    return Block(computed(plan.outputs, columns, length, plan.zone), hashes)


def _read(piece: WindowPiece, block: Block, calls: Sequence[WindowCall], key: int) -> Block:
    """The groups of a piece, with a column for each call."""
    if piece.layout.values:
        values = values_of(piece.layout, block)
        groups = values.groups
        columns = [_checked(call, *result(values, call)) for call in calls]
    else:
        groups = Block(block.columns[:key], block.hashes)
        columns = [_checked(call, *_call(piece.layout, block, call)) for call in calls]
    return Block([*groups.columns, *columns], groups.hashes)


def _call(layout: Layout, block: Block, call: WindowCall) -> FinishedColumn:
    slots = [block.columns[layout.at(i) : layout.at(i) + len(layout.slots[i].types)] for i in call.slots]
    if call.function in ("count_star", "count", "min", "max", "bool_and", "bool_or"):
        return slots[0][0], None
    assert call.argument is not None
    counts = numbers(slots[0][0])
    if call.function in ("sum", "avg"):
        return sum_or_average(call.function, slots[1], counts, call.argument, call.type, call.place)
    kind, _, of = call.function.partition("_")
    values, null = exact_product.variance(slots[1], slots[2][0], counts, sample=of == "samp", root=kind == "stddev")
    return pa.array(values, mask=null if null.any() else None), None


def _checked(call: WindowCall, values: pa.Array, errors: np.ndarray | None) -> pa.Array:
    if errors is not None and errors.any():
        error = format_error(int(errors[errors != 0][0]))
        function = call.function.removesuffix("_distinct").upper()
        below = " (or the sum below it its own type)" if function == "AVG" else ""
        raise ViewBroken(f"{error}: {function} over the window does not fit in {call.type}{below}")
    return values

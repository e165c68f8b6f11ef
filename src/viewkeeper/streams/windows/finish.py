"""From the running numbers of a window to the rows of the view: aggregates read off, HAVING, outputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import MAX_PRECISION, decimal
from viewkeeper.errors import ViewBroken
from viewkeeper.maintenance import error_codes, exact, exact_square
from viewkeeper.plans.window import Layout, Window, WindowCall, WindowPiece
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.query_rows import computed, filtered
from viewkeeper.streams.windows.distinct_values import result, values_of
from viewkeeper.streams.windows.states import align
from viewkeeper.trace.keys import numbers

FinishedColumn = tuple[pa.Array, np.ndarray | None]
"""The values of a call, and where it overflows."""


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
    if call.function == "sum":
        total, overflow = exact.total(slots[1], call.argument, call.type)
        return _null_where(total, counts == 0), overflow
    if call.function == "avg":
        return exact.average(slots[1], counts, call.argument, call.type)
    kind, _, of = call.function.partition("_")
    values, null = exact_square.variance(slots[1], slots[2][0], counts, sample=of == "samp", root=kind == "stddev")
    return pa.array(values, mask=null if null.any() else None), None


def _checked(call: WindowCall, values: pa.Array, overflow: np.ndarray | None) -> pa.Array:
    if overflow is not None and overflow.any():
        function, out_of_range = call.function.removesuffix("_distinct"), error_codes.NUMERIC_VALUE_OUT_OF_RANGE
        divided = function == "avg" and call.argument is not None and call.argument.is_decimal
        code = out_of_range if divided else error_codes.ARITHMETIC_OVERFLOW
        where = error_codes.format_error(error_codes.pack_error(code, call.place))
        what = call.type if not divided else f"{call.type}, or the sum below it {_accumulator(call)}"
        raise ViewBroken(f"{where}: {function.upper()} over the window does not fit in {what}")
    return values


def _accumulator(call: WindowCall) -> str:
    assert call.argument is not None
    return str(decimal(min(call.argument.precision + 10, MAX_PRECISION), call.argument.scale))


def _null_where(values: pa.Array, null: np.ndarray) -> pa.Array:
    return values.take(pa.array(np.arange(len(values)), mask=null)) if null.any() else values

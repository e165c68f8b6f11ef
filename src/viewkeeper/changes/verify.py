"""From log entries to operations that can be applied; what cannot is rejected, its neighbours are kept.

An entry whose bytes cannot be read is rejected as a whole, a bad row in a good entry alone.  What depends on the rows
of the table (a partial put of a row that does not exist) is not judged here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import REJECTED
from viewkeeper.catalog.operation_kinds import DELETE_COLUMNS, PUT
from viewkeeper.catalog.time_zones import limits
from viewkeeper.catalog.types import BOOLEAN, INTERVALS, Type, physical_type, to_logical, to_physical
from viewkeeper.changes import entries
from viewkeeper.changes.entries import Batch, Decoded
from viewkeeper.changes.layout import is_null, numbers, words
from viewkeeper.changes.operations import Operations, TableForm, bits, nulls_where_named
from viewkeeper.trace.hashing import canonical
from viewkeeper.trace.rows import Rows

LEAST_DAY, GREATEST_DAY = -719162, 2932896
"""0001-01-01 and 9999-12-31 in days since 1970: what DATE and Python can hold."""


@dataclass
class LogBatch:
    """The operations in a range of one node's log.

    `operations`: (table id, rows as `operations` has them), several a table possible; `rejected`: in the columns
    of `catalog.model.REJECTED`; `skipped`: how many operations were of tables that are not declared, by id.
    """

    operations: list[tuple[int, Rows]]
    rejected: Rows
    skipped: dict[int, int]


def judge(batch: Batch, node: int) -> LogBatch:
    """What can be applied of `batch`, out of the log of `node`, and what cannot."""
    result, rejected = [], [(bad.table, bad.first, bad.stamp, bad.reason, bad.entry) for bad in batch.bad]
    for decoded in batch.decoded:
        reasons = _reasons(decoded.form, decoded.operations)
        if reasons:
            rejected += _rejections(decoded, reasons)
            good = np.setdiff1d(np.arange(len(decoded.operations)), list(reasons))
            decoded = replace(decoded, operations=decoded.operations.take(good), sequences=decoded.sequences[good],
                              stamps=decoded.stamps[good])  # fmt: skip
        if len(decoded.operations):
            form, operations = _brought(decoded)
            result.append((form.table.id, form.as_rows(operations, node, decoded.sequences, decoded.stamps)))
    rejected.sort(key=lambda rejection: rejection[1])
    tables, sequences, stamps, texts, data = zip(*rejected, strict=True) if rejected else ((),) * 5
    columns = [tables, [node] * len(rejected), sequences, stamps, texts, data]
    arrays = [
        pa.array(values, physical_type(column.type)) for values, column in zip(columns, REJECTED.columns, strict=True)
    ]
    return LogBatch(result, Rows(arrays, np.ones(len(rejected), np.int64)), batch.skipped)


def operation_bytes(form: TableForm, rows: Rows, i: int) -> bytes:
    """Row `i` of a table's operations as an entry of its own: `rejected.operation`, which `Store.apply` does again."""
    stamp = int(numbers(rows.columns[-1])[i])
    return entries.seal(form, entries.encode(form, form.from_row(rows, i))[0], stamp)


def operation_from_bytes(operation: bytes, form: TableForm) -> Operations | None:
    """The inverse of `operation_bytes`; None if it can not be read, or not be done whatever the table holds."""
    counted = entries.count_and_stamp(operation)
    batch = entries.decode([operation], np.array([1]), 1 + (counted[0] if counted else 1),
                           lambda table: form if table == form.table.id else None)  # fmt: skip
    if not batch.decoded or _reasons(batch.decoded[0].form, batch.decoded[0].operations):
        return None
    return _brought(batch.decoded[0])[1]


def _brought(decoded: Decoded) -> tuple[TableForm, Operations]:
    """Operations that are known to be right, in their table's newest form, and that form."""
    operations = _canonical_keys(decoded.form, entries.typed(decoded.form, decoded.operations))
    if decoded.earlier is None:
        return decoded.form, operations
    return decoded.earlier.newest, decoded.earlier.brought(operations)


def _rejections(decoded: Decoded, reasons: dict[int, str]) -> Iterator[tuple[int, int, int, str, bytes]]:
    for i, reason in reasons.items():
        stamp = int(decoded.stamps[i])
        body = entries.encode(decoded.form, decoded.operations.slice(i, i + 1))[0]
        yield decoded.form.table.id, int(decoded.sequences[i]), stamp, reason, entries.seal(decoded.form, body, stamp)


def _reasons(form: TableForm, operations: Operations) -> dict[int, str]:
    """Why rows are bad, by their index; only the first reason of each."""
    reasons: dict[int, str] = {}
    for bad, reason in _judgements(form, operations):
        if bad is not None and bad.any():
            for i in np.flatnonzero(bad).tolist():
                reasons.setdefault(i, reason)
    return reasons


def _judgements(form: TableForm, operations: Operations) -> Iterator[tuple[np.ndarray | None, str]]:
    kind, named, table = operations.kind, operations.named, form.table
    if kind == DELETE_COLUMNS:
        for i, column in enumerate(table.columns):
            if i in form.key or not column.nullable:
                named_here = np.ones(len(operations), bool) if named is None else bits(named, i)
                yield (
                    named_here,
                    f"deletes column {column.name}, which {'is in the key' if i in form.key else 'is NOT NULL'}",
                )
        if form.keyless:
            yield np.ones(len(operations), bool), "deletes columns of a table that has no key"
    elif kind == PUT and named is not None:
        for i in form.key:
            yield ~bits(named, i), f"does not name key column {table.columns[i].name}"
        if form.keyless:
            for i in form.required:
                unset = ~bits(named, i) & is_null(operations.columns[i])
                yield unset, f"leaves column {table.columns[i].name}, which is NOT NULL, unset"
    if form.keyless and kind != PUT:
        yield is_null(operations.columns[0]), "names no row"
        return
    for i, column in zip(form.carried(kind), operations.columns, strict=True):
        name = table.columns[i].name
        if i in form.key:
            yield is_null(column), f"NULL in key column {name}"
        elif not table.columns[i].nullable:
            yield nulls_where_named(column, named, i), f"NULL in column {name}, which is NOT NULL"
        yield _out_of_type(column, form.types[i], form.zone), f"column {name} holds what is no {form.types[i]}"


def _out_of_type(column: pa.Array, type_: Type, zone: str) -> np.ndarray | None:
    """bool[n]: values of a raw column that its type cannot have; None: there are none."""
    if type_ == BOOLEAN:
        return (numbers(column) & ~np.int8(1)) != 0
    if type_.is_decimal and type_.precision <= 18:
        values, most = numbers(column), 10**type_.precision - 1
        return (values > most) | (values < -most)
    if type_.is_decimal:
        return wide_decimal_overflows(words(column), type_.precision)
    if type_.name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        return outside_time(numbers(column), type_, zone)
    if type_.is_interval and INTERVALS[type_.name] > 1:
        return numbers(column) % INTERVALS[type_.name] != 0
    if type_.is_nested:
        return _not_nested(column, type_)
    if type_.name == "STRING":
        return _not_utf8(column)
    return None


def outside_time(physical: Any, type_: Type, zone: str) -> Any:
    """Whether a physical value (or each of an array) of DATE, TIMESTAMP or TIMESTAMP_NTZ is outside the years 1 to
    9999, which Python has: a TIMESTAMP both in UTC and as clocks in `zone` show it."""
    if type_.name == "DATE":
        least, greatest = LEAST_DAY, GREATEST_DAY
    else:
        least, greatest = limits(zone if type_.name == "TIMESTAMP" else "UTC")
    return (physical < least) | (physical > greatest)


def wide_decimal_overflows(pairs: np.ndarray, precision: int) -> np.ndarray:
    """bool[n]: 128-bit numbers (low, high words) with more than `precision` digits."""
    low, high = pairs[:, 0].view(np.uint64), pairs[:, 1]
    most = 10**precision - 1
    most_low, most_high = np.uint64(most & (2**64 - 1)), most >> 64
    least_low, least_high = np.uint64(-most & (2**64 - 1)), -most >> 64
    above = (high > most_high) | ((high == most_high) & (low > most_low))
    return above | (high < least_high) | ((high == least_high) & (low < least_low))


def _not_nested(column: pa.Array, type_: Type) -> np.ndarray | None:
    """bool[n]: what no array, struct or map is written as."""
    if _is_nested(column, type_):
        return None
    return np.array([not _is_nested(column.slice(row, 1), type_) for row in range(len(column))], np.bool_)


def _is_nested(column: pa.Array, type_: Type) -> bool:
    try:
        values = to_logical(column, type_)
        values.validate(full=True)
        return bool(to_physical(values, type_).equals(column))
    except (ValueError, IndexError, MemoryError):
        return False


def _not_utf8(column: pa.Array) -> np.ndarray | None:
    try:
        column.cast(pa.large_string())
    except pa.ArrowInvalid:
        return np.fromiter(map(_is_not_utf8, column.to_pylist()), bool, len(column))
    return None


def _is_not_utf8(data: bytes | None) -> bool:
    try:
        (data or b"").decode()
    except UnicodeDecodeError:
        return True
    return False


def _canonical_keys(form: TableForm, operations: Operations) -> Operations:
    if not any(form.types[i].is_float for i in form.key):
        return operations
    carried = form.carried(operations.kind)
    columns = [canonical(column) if i in form.key else column
               for i, column in zip(carried, operations.columns, strict=True)]  # fmt: skip
    return Operations(operations.kind, columns, operations.named)

"""Two Arrow tables as bags of rows, both ways: NaN equals NaN, 0.0 equals -0.0, all else is exact, types included."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import to_logical, to_physical, type_of


@dataclass(frozen=True)
class Difference:
    """A row, and how often it is `expected` and was `found`."""

    row: dict[str, Any]
    expected: int
    found: int

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.row.items())
        return f"({values}): expected {self.expected} times, found {self.found}"


@dataclass(frozen=True)
class Comparison:
    """`shape` says how the columns differ (then no rows are compared), None if they do not; `rows` counts all rows that
    differ, of which `differing` shows the first ones."""

    shape: str | None
    rows: int
    differing: list[Difference]

    @property
    def equal(self) -> bool:
        return self.shape is None and not self.rows


def compare(expected: pa.Table, found: pa.Table, *, show: int = 20) -> Comparison:
    """Compares names (but for case), types and rows; nullability is not looked at."""
    shape = _shape_difference(expected.schema, found.schema)
    if shape:
        return Comparison(shape, 0, [])
    counts = _counts(expected, found)
    differing = counts.filter(pc.not_equal(counts["expected"], counts["found"]))
    listed = _shown(differing.slice(0, show), expected.schema).to_pylist()
    names = expected.column_names
    return Comparison(None, len(differing), [
        Difference({name: row[str(i)] for i, name in enumerate(names)}, row["expected"], row["found"])
        for row in listed
    ])  # fmt: skip


def _shape_difference(expected: pa.Schema, found: pa.Schema) -> str | None:
    if len(expected) != len(found):
        return f"expected {len(expected)} columns {expected.names}, found {len(found)} {found.names}"
    for a, b in zip(expected, found, strict=True):
        if a.name.lower() != b.name.lower() or a.type != b.type:
            return f"expected column {a.name} {a.type}, found {b.name} {b.type}"
    return None


def _counts(expected: pa.Table, found: pa.Table) -> pa.Table:
    """Each distinct row, columns named 0, 1, ..., with how often it stands on each side."""
    sides = []
    for table, is_expected in ((expected, 1), (found, 0)):
        columns = [canonical_floats(column) for column in table.columns]
        counters = [pa.array(np.full(len(table), value, dtype=np.int64)) for value in (is_expected, 1 - is_expected)]
        names = [*(str(i) for i in range(len(columns))), "expected", "found"]
        sides.append(pa.Table.from_arrays([*columns, *counters], names=names))
    both = pa.concat_tables(sides)
    keys = both.column_names[:-2]
    grouped = both.group_by(keys, use_threads=False).aggregate([("expected", "sum"), ("found", "sum")])
    return grouped.select([*keys, "expected_sum", "found_sum"]).rename_columns([*keys, "expected", "found"])


def _shown(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of `_counts` with what their columns of nested types hold."""
    for i, field in enumerate(schema):
        if pa.types.is_nested(field.type):
            values = rows.column(i).combine_chunks()
            rows = rows.set_column(i, str(i), to_logical(values, type_of(field.type)))
    return rows


def canonical_floats(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floats with one NaN and no -0.0; arrays, structs and maps as bytes; other types as they are."""
    if pa.types.is_nested(column.type):
        whole = column.combine_chunks()
        return pa.chunked_array([to_physical(whole, type_of(column.type))])
    if not pa.types.is_floating(column.type):
        return column
    cleaned = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 + 0.0 is 0.0
    return pc.if_else(pc.is_nan(cleaned), pa.scalar(float("nan"), column.type), cleaned)


def within(
    expected: pa.Table, found: pa.Table, slack: Mapping[str, Sequence[float]], *, show: int = 20
) -> Comparison:  # fmt: skip
    """The same comparison, where the float columns in `slack` may be off by `slack[column][i]` in row i of `expected`.

    A value of `found` that is not finite is taken as right: an intermediate sum may have overflowed.  Rows are paired
    by their exact columns, then in the order of the columns with slack.
    """
    shape = _shape_difference(expected.schema, found.schema)
    exact = [i for i, name in enumerate(expected.column_names) if name not in slack]
    if not shape and exact:
        rest = compare(expected.select(exact), found.select(exact), show=show)
        if not rest.equal:
            return rest
    if shape or len(expected) != len(found):
        return Comparison(shape, abs(len(expected) - len(found)), [])
    left, right = (_in_pairing_order(table, exact, list(slack)) for table in (expected, found))
    wrong = np.zeros(len(expected), dtype=bool)
    for name, allowed in slack.items():
        a, b = (table[name].to_numpy()[order].astype(np.float64) for table, order in ((expected, left), (found, right)))
        null_a, null_b = (
            table[name].is_null().to_numpy()[order] for table, order in ((expected, left), (found, right))
        )
        with np.errstate(invalid="ignore"):
            off = np.abs(a - b) > np.asarray(allowed, dtype=np.float64)[left]
        wrong |= (null_a != null_b) | (np.isfinite(a) & np.isfinite(b) & off)
    pairs = [(expected, left, 1), (found, right, 0)]
    differing = [Difference(table.slice(int(order[i]), 1).to_pylist()[0], side, 1 - side)
                 for i in np.flatnonzero(wrong)[:show] for table, order, side in pairs]  # fmt: skip
    return Comparison(None, int(wrong.sum()), differing)


def compared_as_rounded(sql: str, expected: pa.Table, found: pa.Table) -> Comparison:
    """The same comparison of two answers of Spark's to `sql`: floats may be off in their last digits where it sums
    floats up, which it rounds in the order in which rows come."""
    plain = compare(expected, found)
    names = [field.name for field in expected.schema if pa.types.is_floating(field.type)]
    if plain.equal or not names or not _SUMS_UP.search(sql):
        return plain
    sizes = {name: np.abs(expected[name].fill_null(0.0).to_numpy().astype(np.float64)) for name in names}
    near = {name: _NEAR[expected.schema.field(name).type] for name in names}
    least = 1.0 if _OF_NO_UNIT.search(sql) else 0.0
    return within(expected, found, {
        name: (near[name] * np.where(np.isfinite(size), np.maximum(size, least), 0)).tolist()
        for name, size in sizes.items()
    })  # fmt: skip


_SUMS_UP = re.compile(
    r"\b(try_)?(sum|avg|mean)\b|\b(skewness|kurtosis|std|stddev|variance|corr|(var|stddev|covar|regr)_\w+)\b",
    re.IGNORECASE,
)
_OF_NO_UNIT = re.compile(r"\b(skewness|kurtosis|corr)\b", re.IGNORECASE)
"""Numbers about 1 whatever they are made of: where such is 0, what rounding leaves of it has no size to go by."""
_NEAR = {pa.float64(): 1e-9, pa.float32(): 1e-6}


def _in_pairing_order(table: pa.Table, exact: Sequence[int], inexact: Sequence[str]) -> np.ndarray:
    columns = [canonical_floats(table.column(i)) for i in exact] + [canonical_floats(table[name]) for name in inexact]
    named = pa.Table.from_arrays(columns, names=[str(i) for i in range(len(columns))])
    order = pc.sort_indices(named, sort_keys=[(name, "ascending") for name in named.column_names])
    return order.to_numpy()

"""Hypothesis strategies: schemas, values, histories, batch cuts, and whole cases.

Key domains are small, so that keys collide, rows come back and joins meet.  With `extremes` values reach the ends of
their types, so that arithmetic overflows; without, a view of `oracle.queries` hardly ever raises.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from typing import Any

from hypothesis import strategies as st

from oracle.model import Case, Operation, TableSchema
from oracle.picking import pick
from oracle.queries import Source, view_queries
from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DAY_TIME,
    DOUBLE,
    FLOAT,
    INT,
    INTEGER_BITS,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    YEAR_MONTH,
    Type,
    decimal,
)

INTEGERS = (TINYINT, SMALLINT, INT, BIGINT)
DECIMALS = (decimal(5, 2), decimal(15, 2), decimal(18, 0), decimal(25, 4), decimal(38, 10))
CORE_TYPES = (BOOLEAN, *INTEGERS, FLOAT, DOUBLE, *DECIMALS, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ)
INTERVALS = (Type("INTERVAL DAY"), DAY_TIME, YEAR_MONTH)
COLUMN_TYPES = (*CORE_TYPES, *INTERVALS)
KEY_TYPES = (BIGINT, INT, SMALLINT, STRING, DATE, decimal(15, 2), decimal(25, 4), DOUBLE, TIMESTAMP, BINARY, BOOLEAN)

_DATES = [datetime.date(2024, 2, 28), datetime.date(2024, 2, 29), datetime.date(1969, 12, 31)]
_MOMENTS = [datetime.datetime(2024, 3, 31, 1, 30), datetime.datetime(2024, 3, 31, 0, 0),
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)]  # fmt: skip
_PLAIN: dict[str, list[Any]] = {
    "BOOLEAN": [False, True],
    "FLOAT": [0.0, -0.0, 0.5, -1.25, 3.0, math.nan],
    "DOUBLE": [0.0, -0.0, 0.1, 0.2, -0.3, 3.0, 1e15, -1e15, math.nan],
    "STRING": ["", "a", "b", "A", "ä", "日本", "a b", "𝄞"],
    "BINARY": [b"", b"\x00", b"a", b"\xff\x00"],
    "DATE": _DATES,
    "TIMESTAMP": [moment.replace(tzinfo=datetime.UTC) for moment in _MOMENTS],
    "TIMESTAMP_NTZ": _MOMENTS,
    "INTERVAL DAY": [datetime.timedelta(days=days) for days in (0, 1, -3)],
    "INTERVAL DAY TO SECOND": [datetime.timedelta(days=days, microseconds=1) for days in (0, 1, -3)],
    "INTERVAL YEAR TO MONTH": [0, 1, 14, -5],
}
_EXTREME: dict[str, list[Any]] = {
    "FLOAT": [math.inf, -math.inf, 3.4028234663852886e38, 1.401298464324817e-45],
    "DOUBLE": [math.inf, -math.inf, 1.7976931348623157e308, -1.7976931348623157e308, 1.1e31, -1.1e31, 5e-324],
    "DATE": [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
    "INTERVAL DAY": [datetime.timedelta(days=106_751_991)],
    "INTERVAL YEAR TO MONTH": [2**31 - 1, -(2**31)],
}


def domain(type_: Type, extremes: bool = False) -> list[Any]:
    """The values that are drawn for `type_`, NULL apart."""
    if type_.is_integer:
        limit = 1 << (INTEGER_BITS[type_.name] - 1)
        return [0, 1, 2, -1, 3] + ([limit - 1, -limit, limit - 2, 1 - limit] if extremes else [])
    if type_.is_decimal:
        unit = Decimal(1).scaleb(-type_.scale)
        plain = [Decimal(value).quantize(unit) for value in ("0", "1", "-2", "3")]
        fine = [7 * unit, -unit] if type_.scale else []
        ends = [Decimal((sign, (9,) * type_.precision, -type_.scale)) for sign in (0, 1)] if extremes else []
        return plain + fine + ends
    return _PLAIN[type_.name] + (_EXTREME.get(type_.name, []) if extremes else [])


@cache
def values(type_: Type, nullable: bool = True, extremes: bool = False) -> st.SearchStrategy[Any]:
    """Values of `type_`, now and then NULL."""
    options = domain(type_, extremes)
    return st.sampled_from([*options, None] if nullable else options)


@st.composite
def _columns(draw: st.DrawFn, name: str, type_: Type, nullable: bool) -> Column:
    """A column; some of texts are CHARs or VARCHARs."""
    declared = pick(draw, [None, Type("CHAR", 3), Type("CHAR", 4), Type("VARCHAR", 3)]) if type_ == STRING else None
    return Column(name, type_, nullable, declared)


@st.composite
def table_schemas(draw: st.DrawFn, name: str, keyless: bool = True) -> TableSchema:
    """A table with an integer column `j` to join by, and a key of one or two columns (or, if `keyless`, of none)."""
    sizes = [1, 1, 1, 2, 2] + ([0] if keyless else [])
    key = [draw(_columns(f"k{i}", pick(draw, KEY_TYPES), False)) for i in range(pick(draw, sizes))]
    join = Column("j", pick(draw, INTEGERS), draw(st.booleans()))
    types = draw(st.lists(st.sampled_from(COLUMN_TYPES), min_size=1, max_size=4))
    others = [draw(_columns(f"c{i}", type_, pick(draw, [True, True, False]))) for i, type_ in enumerate(types)]
    columns = draw(st.permutations([*key, join, *others]))
    position = {column.name: i for i, column in enumerate(columns)}
    return TableSchema(name, tuple(columns), tuple(position[column.name] for column in key))


@st.composite
def schemas(draw: st.DrawFn, most: int = 3, keyless: bool = True) -> tuple[TableSchema, ...]:
    """One to `most` tables, named t0, t1, ..."""
    return tuple(draw(table_schemas(f"t{i}", keyless)) for i in range(draw(st.integers(1, most))))


@st.composite
def rows(draw: st.DrawFn, schema: TableSchema, extremes: bool = False, partial: bool = True) -> dict[str, Any]:
    """A row that `put` accepts: the key and every NOT NULL column are set; if `partial`, others may be left out."""
    out = {}
    for position, column in enumerate(schema.columns):
        is_key = position in schema.key
        if is_key or not column.nullable or not partial or pick(draw, [True, True, True, False]):
            out[column.name] = draw(values(column.type, column.nullable and not is_key, extremes and not is_key))
    return out


@st.composite
def histories(
    draw: st.DrawFn, tables: Sequence[TableSchema], most: int = 20, extremes: bool = False, begun: int = 0
) -> list[Operation]:
    """Up to `most` operations, none of which a store refuses; deletes mostly hit rows that were put before.  First
    each table gets `begun` rows."""
    put = {schema.name: [draw(rows(schema, extremes)) for _ in range(begun)] for schema in tables}
    out = [Operation("put_many", name, tuple(new)) for name, new in put.items() if new]
    for _ in range(pick(draw, [most // 4, most // 2, most, most, most, most, 1, 0])):
        schema = pick(draw, list(tables))
        kind = pick(draw, ["put", "put", "put_many", "put_many", "put_many", "delete", "delete_columns"])
        if kind.startswith("put"):
            count = 1 if kind == "put" else draw(st.integers(2, 6))
            new = tuple(draw(rows(schema, extremes)) for _ in range(count))
            put[schema.name].extend(new)
            out.append(Operation(kind, schema.name, new))
        elif put[schema.name]:
            operation = draw(_removals(schema, kind, put[schema.name]))
            out.extend([operation] if operation else [])
    return out


@st.composite
def _removals(draw: st.DrawFn, schema: TableSchema, kind: str, put: list[dict[str, Any]]) -> Operation | None:
    row = draw(st.sampled_from(put))
    if not schema.key:
        return Operation("delete", schema.name, ({**dict.fromkeys(schema.names), **row},))
    key = {name: row[name] for name in schema.key_names}
    free = [c.name for i, c in enumerate(schema.columns) if c.nullable and i not in schema.key]
    if kind == "delete":
        return Operation("delete", schema.name, (key,))
    if not free:
        return None
    columns = draw(st.lists(st.sampled_from(free), min_size=1, max_size=2, unique=True))
    return Operation("delete_columns", schema.name, (key,), tuple(columns))


@st.composite
def cuts(draw: st.DrawFn, history: Sequence[Operation]) -> tuple[tuple[Operation, ...], ...]:
    """`history` cut into batches, in order; a batch may be empty."""
    ends = sorted(draw(st.lists(st.integers(0, len(history)), max_size=4)))
    bounds = [0, *ends, len(history)]
    return tuple(tuple(history[a:b]) for a, b in zip(bounds, bounds[1:], strict=False))


@st.composite
def cases(
    draw: st.DrawFn, *, views: int = 3, operations: int = 20, extremes: bool = False, keyless: bool = True,
    joins: Sequence[str] = (), plain: bool = False, begun: int = 0,
) -> Case:  # fmt: skip
    """Tables, views over them and over each other, and a history cut into batches, in which first each table gets
    `begun` rows.  Views are named v0, v1, ...

    With `joins`, all views join, by one of these.  `plain`: see `view_queries`.
    """
    tables = draw(schemas(keyless=keyless))
    scope = [Source(s.name, tuple((c.name, c.type) for c in s.columns)) for s in tables]
    texts = []
    for i in range(draw(st.integers(1, views))):
        text, columns = draw(view_queries(scope, joins=joins, plain=plain))
        texts.append(f"CREATE VIEW v{i} AS {text}")
        scope.append(Source(f"v{i}", columns))
    history = draw(histories(tables, operations, extremes, begun))
    return Case(tables, tuple(texts), draw(cuts(history)))

"""Pattern views over columns of many types against the brute-force matcher: NaN, -0.0, texts, wide decimals as groups,
as remembered values and in aggregates."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawn import examples
from oracle.strategies import values as values_of
from pattern_engine import Kept, Row, at, declared, few_groups
from viewkeeper.catalog.model import Catalog, Column, Stream
from viewkeeper.catalog.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Type,
    decimal,
)
from viewkeeper.checker.patterns import matches

TYPES = (DOUBLE, FLOAT, STRING, BINARY, BOOLEAN, DATE, TIMESTAMP, TIMESTAMP_NTZ, decimal(15, 2), decimal(25, 4))
NUMBERS = ("sum({v}y)", "avg({v}y)")
ANY = ("count({v}y)", "min({v}y)", "max({v}y)", "first({v}y)", "last({v}y)")
TERMS = (
    "b.y > a.y",
    "b.y <= a.y",
    "b.y = a.y",
    "b.y <=> a.y",
    "b.y < PREV(b.y)",
    "b.y <> PREV(a.y)",
    "b.y IS NOT NULL",
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Type, Type, str, dict[int, list[Row]]]:
    """The types of the group and of the values, a view, and a history."""
    key, type_ = draw(st.sampled_from(TYPES)), draw(st.sampled_from(TYPES))
    calls = ANY + NUMBERS if type_.is_number else ANY
    chosen = [draw(st.sampled_from(calls)).format(v=draw(st.sampled_from(["", "a.", "b."]))) for _ in range(3)]
    outputs = ", ".join(["g", *(f"{call} AS o{i}" for i, call in enumerate(chosen))])
    terms = draw(st.lists(st.sampled_from(TERMS), max_size=2, unique=True))
    where = f"WHERE {' AND '.join(terms)}" if terms else ""
    pattern = draw(st.sampled_from(["a, b+", "a+, b+", "a+, b", "a, b, c+"]))
    order = draw(st.sampled_from(["", "ORDER BY y DESC"]))
    sql = f"CREATE VIEW v AS SELECT {outputs} FROM M PATTERN [{pattern}] {where} GROUP BY g {order}"
    groups = draw(st.lists(values_of(key), min_size=1, max_size=2))
    parts: dict[int, list[Row]] = {}
    for part in range(draw(st.integers(0, 4))):
        for _ in range(draw(st.integers(0, 4))):
            row = (at(part, draw(st.integers(0, 1))), draw(st.sampled_from(groups)), draw(values_of(type_)))
            parts.setdefault(part, []).append(row)
    return key, type_, sql, parts


def shown(rows: dict[int, list[Row]]) -> dict[int, Counter]:
    """As bags in which NaN equals NaN, and moments are in one zone."""
    return {part: Counter(repr(tuple(map(_plain, row))) for row in each) for part, each in rows.items() if each}


def _plain(value: Any) -> Any:
    return value.timestamp() if getattr(value, "tzinfo", None) else value


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), st.booleans())
def test_values_of_every_type_are_grouped_remembered_compared_and_summed_up(case: Any, apart: bool) -> None:
    """The rows are those of the brute-force matcher, groups taken together or one by one."""
    key, type_, sql, parts = case
    stream = Stream(16, "M", (Column("ts", TIMESTAMP, False), Column("g", key), Column("y", type_)), 0, 60)
    catalog, view = declared(sql, stream, Catalog((stream,)))
    machine = Kept(catalog, view)
    with few_groups(1000 if apart else 0):
        for part in sorted(parts):
            machine.build(part, parts[part], slices=2)
    assert shown(machine.rows()) == shown(matches(view.plan.bound, parts))

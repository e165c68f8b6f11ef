"""Window functions of every kind over frames of every kind, as they are written."""

from __future__ import annotations

from collections.abc import Sequence

FRAMES = (
    "", "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "ROWS 2 PRECEDING", "ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "RANGE BETWEEN CURRENT ROW AND CURRENT ROW",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
)  # fmt: skip
PLACES = (
    "row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()", "ntile(3)", "lag(s)", "lead(p, 2)",
    "lag(a, 1, -1)", "lead(s, 1, 'none')", "lag(a) IGNORE NULLS", "lead(d, 2, 0.5D) IGNORE NULLS", "lead(a, -1)",
    "lag(id, 0)", "lag(p, 1, 7)",
)  # fmt: skip
FRAMED = (
    "sum(a)", "sum(d)", "sum(p)", "avg(a)", "avg(d)", "avg(p)", "min(s)", "max(d)", "min(a)", "count(*)", "count(s)",
    "first_value(s)", "last_value(a)", "nth_value(d, 2)", "first_value(a) IGNORE NULLS", "last_value(s) IGNORE NULLS",
    "nth_value(p, 2) IGNORE NULLS", "sum(a) FILTER (WHERE s > 'a')", "last(p)",
)  # fmt: skip
WHOLE = (
    "median(a)", "percentile(p, 0.25)", "percentile_disc(0.5) WITHIN GROUP (ORDER BY a DESC)", "mode(s, true)",
    "percentile_cont(0.75) WITHIN GROUP (ORDER BY d)", "bit_xor(a)", "median(d) FILTER (WHERE a > 0)",
    "listagg(s, '+') WITHIN GROUP (ORDER BY s DESC)", "mode() WITHIN GROUP (ORDER BY a DESC)",
)  # fmt: skip
"""Calls of all values of a partition."""
"""Calls over columns id INT, a INT, d DOUBLE, p DECIMAL and s STRING."""


def window_functions(partitions: Sequence[str], orders: Sequence[str]) -> list[str]:
    """Every call over every kind of frame that it can have, with partitions and orders in turn."""
    found: list[str] = []

    def add(call: str, order: bool, frame: str) -> None:
        n = len(found)
        by = f" ORDER BY {orders[n % len(orders)]}" if order else ""
        found.append(f"{call} OVER ({partitions[n % len(partitions)]}{by} {frame})".replace(" )", ")"))

    for call in PLACES:
        add(call, True, "")
    for call in FRAMED:
        for frame in FRAMES:
            add(call, True, frame)
        add(call, False, "")
    for call in WHOLE:
        add(call, False, "")
    return found


def listed(functions: Sequence[str]) -> str:
    """As outputs of a SELECT."""
    return ", ".join(f"{each} AS f{i}" for i, each in enumerate(functions))

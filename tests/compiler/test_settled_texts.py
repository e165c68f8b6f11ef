"""The text by which Spark settles ties as a view does."""

from __future__ import annotations

import pytest

from viewkeeper.compiler.ties import extremes_settled


@pytest.mark.parametrize("written, settled", [
    ("mode(x + 1)", "mode(x + 1, true)"), ("mode(x, FALSE) + 1", "mode(x, true) + 1"),
    ("mode(DISTINCT f(x, 2)) FILTER (WHERE y)", "mode(DISTINCT f(x, 2), true) FILTER (WHERE y)"),
    ("mode() WITHIN GROUP (ORDER BY x)", "mode() WITHIN GROUP (ORDER BY x)"), ("mode(x, true)", "mode(x, true)"),
    ("`mode`(x)", "`mode`(x)"), ("min_by(x, y)", "min_by(x, struct(y, x)) FILTER (WHERE (y) IS NOT NULL)"),
    ("max_by(x, f(y, 1), 2)", "max_by(x, struct(f(y, 1), x), 2) FILTER (WHERE (f(y, 1)) IS NOT NULL)"),
])  # fmt: skip
def test_ties_are_settled_in_the_text(written: str, settled: str) -> None:
    assert extremes_settled(written) == settled

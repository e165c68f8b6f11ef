"""Zone programs against a row-by-row evaluation of the views' queries, after every batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from tests.memory_engine import MemoryEngine
from tests.oracle.model import Base, Case, Operation, Refused
from tests.oracle.strategies import cases

from viewkeeper.checker.row_evaluator import Answer, evaluate
from viewkeeper.checker.values import canonical
from viewkeeper.errors import NotSupported
from viewkeeper.trace import hashing


def accepted(base: Base, batch: Sequence[Operation]) -> list[Operation]:
    """The operations of `batch` that the store takes; they are applied to `base`."""
    taken = []
    for operation in batch:
        try:
            base.apply(operation)
        except Refused:
            continue
        taken.append(operation)
    return taken


def answers(engine: MemoryEngine, base: Base) -> dict[str, Answer]:
    """What each view's query says of `base`, by plain evaluation."""
    inputs = {t.id: Answer(base.rows(t.name)) for t in engine.catalog.tables}
    found = {}
    for view in engine.catalog.views:
        inputs[view.id] = found[view.name] = evaluate(engine.relations[view.name], inputs)
    return found


def bag(rows: Sequence[tuple[Any, ...]]) -> Counter:
    return Counter(tuple("NaN" if v != v else canonical(v) for v in row) for row in rows)


def compare(engine: MemoryEngine, base: Base) -> None:
    for name, answer in answers(engine, base).items():
        view = engine.catalog.find(name)
        if view is None or view.filled is None:  # type: ignore[union-attr]
            continue
        # Which errors there are, not how often: a view that is read twice in one query raises once for its reader.
        found = {(code, place) for _, code, place, _ in engine.errors(name)}
        assert found == {(e.code, e.place) for e in answer.errors}, f"errors of {view.sql}"  # type: ignore[union-attr]
        assert bag(engine.rows(name)) == bag(answer.rows), view.sql  # type: ignore[union-attr]


def run(case: Case, servers: int, declared_at: int, together: bool = False) -> MemoryEngine:
    """Runs the case; views are declared before batch `declared_at`, and their fill overlaps that batch."""
    engine = MemoryEngine(case.tables, servers)
    base = Base(case.schemas)
    for n, batch in enumerate((*case.batches, ())):
        if n == declared_at:
            try:
                engine.declare(case.views, together=together)
            except NotSupported:
                reject()  # a conversion that could lose digits: refused when declared, as it should be
            engine.start_fill()
        engine.apply(accepted(base, batch))
        if n == declared_at:
            engine.finish_fill()
        compare(engine, base)
    return engine


@settings(max_examples=150, deadline=None)
@given(cases(), st.integers(1, 3), st.integers(0, 5))
def test_views_equal_their_query_after_every_batch(case: Case, servers: int, declared_at: int) -> None:
    """Whatever the views, the history, its cuts and the number of view servers: each view is its query's answer."""
    run(case, servers, min(declared_at, len(case.batches)))


@settings(max_examples=100, deadline=None)
@given(cases(extremes=True), st.integers(1, 3), st.integers(0, 5))
def test_views_equal_their_query_where_sums_overflow(case: Case, servers: int, declared_at: int) -> None:
    """The same with the extremes of every type, where arithmetic and sums overflow: error rows come and go."""
    run(case, servers, min(declared_at, len(case.batches)))


@pytest.fixture
def four_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every hash is one of four values."""
    finish, finish_value = hashing.finish, hashing.finish_value
    monkeypatch.setattr(hashing, "finish", lambda state: finish(state) & hashing.np.uint64(3 << 62))
    monkeypatch.setattr(hashing, "finish_value", lambda state: finish_value(state) & (3 << 62))


@pytest.mark.usefixtures("four_hashes")
def test_views_equal_their_query_with_colliding_hashes() -> None:
    """The same when collisions are the rule."""

    @settings(max_examples=80, deadline=None)
    @given(cases(), st.integers(1, 3), st.integers(0, 5))
    def check(case: Case, servers: int, declared_at: int) -> None:
        run(case, servers, min(declared_at, len(case.batches)))

    check()

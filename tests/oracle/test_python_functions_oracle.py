"""Views that call functions of Python's against a row-by-row evaluation of their queries, after every batch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from bags import bag
from drawn import examples
from memory_engine import MemoryEngine
from oracle import functions
from oracle.model import Base, Case, Operation, TableSchema
from oracle.python_functions import FUNCTIONS, name_of
from oracle.strategies import CORE_TYPES, cases, domain
from viewkeeper.catalog.codec import dumps, loads
from viewkeeper.catalog.model import Column, StateSpec, View
from viewkeeper.catalog.types import BIGINT, Type
from viewkeeper.checker.row_evaluator import Answer, evaluate
from viewkeeper.errors import NotSupported
from viewkeeper.maintenance.task import Task
from viewkeeper.plans.maintenance import Memo, plan_of
from viewkeeper.trace.rows import Rows


def compare(engine: MemoryEngine, base: Base) -> None:
    inputs = {table.id: Answer(base.rows(table.name)) for table in engine.catalog.tables}
    for view in engine.catalog.views:
        inputs[view.id] = answer = evaluate(engine.relations[view.name], inputs)
        if view.filled is not None:
            found = {(code, place) for _, code, place, _ in engine.errors(view.name)}
            assert found == {(e.code, e.place) for e in answer.errors}, f"errors of {view.sql}"
            assert bag(engine.rows(view.name)) == bag(answer.rows), view.sql


def run(case: Case, servers: int, declared_at: Sequence[int]) -> MemoryEngine:
    """Runs the case; view i is declared before batch `declared_at[i]`, and its fill overlaps that batch.  Between two
    batches all is read again as another process would."""
    engine, base = MemoryEngine(case.tables, servers, functions=FUNCTIONS), Base(case.schemas)
    for n, batch in enumerate((*case.batches, ())):
        views = [view for view, stage in zip(case.views, declared_at, strict=True) if stage == n]
        if views:
            try:
                engine.declare(views)
            except NotSupported:
                reject()
            engine.start_fill()
        engine.apply(base.taken(batch))
        if views:
            engine.finish_fill()
        engine.catalog = loads(dumps(engine.catalog))
        compare(engine, base)
    return engine


def test_views_with_functions_of_pythons_equal_their_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn anywhere in any query, among all other operators; they raise for a value of every type."""
    calls = [(type_, name_of(kind, type_)) for type_ in CORE_TYPES for kind in ("turned", "picky")]
    monkeypatch.setattr(functions, "python_calls", calls)
    memos = 0

    @settings(max_examples=examples(40), deadline=None)
    @given(cases(), st.integers(1, 3), st.integers(0, 5))
    def check(case: Case, servers: int, declared_at: int) -> None:
        nonlocal memos
        engine = run(case, servers, [min(declared_at, len(case.batches))] * len(case.views))
        memos += sum(isinstance(operator, Memo) for operator in plan_of(engine.catalog).operators)

    check()
    assert memos, "no function was drawn"


def one_type(type_: Type) -> Case:
    """A view for each place of a call."""
    turned, picky = name_of("turned", type_), name_of("picky", type_)
    places = [f"SELECT id, {turned}(c) AS v FROM t", f"SELECT id FROM t WHERE {turned}(c) IS NULL",
              f"SELECT {turned}(c) AS v, count(*) AS n FROM t GROUP BY {turned}(c)",
              f"SELECT t.id, u.id AS o FROM t LEFT JOIN u ON {turned}(t.c) = {turned}(u.c)",
              f"SELECT id, {turned}({turned}(c)) AS v FROM t WHERE id > 2 AND {picky}(c) IS NOT NULL",
              f"SELECT id, CASE WHEN id > 8 THEN {picky}(c) ELSE {turned}(c) END AS v FROM u"]  # fmt: skip
    return _case(type_, places)


def _case(type_: Type, places: Sequence[str]) -> Case:
    """A view for each of `places`, in this order; each batch puts, moves and deletes rows of two tables."""
    t, u = (TableSchema(name, (Column("id", BIGINT, False), Column("c", type_)), (0,)) for name in "tu")
    values = [*domain(type_)[:3], None]
    batches = []
    for n in range(4):
        rows = [{"id": i, "c": values[(i * (n + 1) + n) % len(values)]} for i in range(n % 2, 12 - n)]
        puts = [Operation("put_many", name, tuple(rows[: 12 - 3 * at])) for at, name in enumerate("tu")]
        batches.append((*puts, *(Operation("delete", name, ({"id": 10 - n},)) for name in "tu")))
    return Case((t, u), tuple(f"CREATE VIEW v{i} AS {text}" for i, text in enumerate(places)), tuple(batches))


@pytest.mark.parametrize("type_", CORE_TYPES, ids=str)
def test_what_was_said_is_kept_whatever_the_type(type_: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values and NULLs, of rows that were there before the view and that come after it, in a batch and in a fill; they
    come and go."""
    covered: set[tuple[str, str, str]] = set()
    write = Task.write

    def noting(task: Task, spec: StateSpec, rows: Rows) -> None:
        memos = {o.state.id for o in task.program.operators.values() if isinstance(o, Memo)}
        if spec.id in memos and len(rows):
            when = "batch" if task.program.writes(spec) is None else "fill"
            for at, column in (("argument", rows.columns[0]), ("answer", rows.columns[spec.key])):
                for what in ["NULL"] * (column.null_count > 0) + ["value"] * (column.null_count < len(column)):
                    covered.update((when, f"{at} {what}", sign) for sign in _signs(rows))
        write(task, spec, rows)

    monkeypatch.setattr(Task, "write", noting)
    case = one_type(type_)
    for at in ((0, 1, 2, 3, 4, 2), (2,) * 6):
        engine = run(case, 2, at)
        assert all(isinstance(view, View) and view.filled is not None for view in engine.catalog.views)
    wanted = {("batch", f"{at} {what}", sign)
              for at in ("argument", "answer") for what in ("NULL", "value") for sign in ("comes", "goes")}  # fmt: skip
    wanted |= {("fill", f"{at} {what}", "comes") for at in ("argument", "answer") for what in ("NULL", "value")}
    assert wanted <= covered, f"not reached: {sorted(wanted - covered)}"


@pytest.mark.parametrize("type_", CORE_TYPES, ids=str)
def test_calls_in_the_on_of_outer_joins(type_: Type) -> None:
    """Of the left, of the right and of both sides, with and without an equality; they come and go, and some raise."""
    turned, picky = name_of("turned", type_), name_of("picky", type_)
    both = f"{turned}(coalesce(t.c, u.c))"
    places = [f"SELECT t.id, u.id AS o FROM t {kind} JOIN u ON t.id = u.id AND {turned}(t.c) IS NOT NULL AND {on}"
              for kind in ("LEFT", "RIGHT", "FULL")
              for on in (f"{turned}(u.c) IS NOT NULL", f"{both} = u.c")]  # fmt: skip
    places += [f"SELECT t.id FROM t LEFT {kind} JOIN u ON t.id = u.id AND {on}"
               for kind in ("SEMI", "ANTI")
               for on in (f"{turned}(t.c) = t.c", f"{both} = u.c", f"(u.id < 3 OR {picky}(u.c) = t.c)")]  # fmt: skip
    places += [
        f"SELECT t.id, u.id AS o FROM t FULL JOIN u ON {on}"
        for on in (f"{both} = u.c AND t.id < u.id", f"t.id = u.id AND {picky}(coalesce(u.c, t.c)) = u.c")
    ]
    engine = run(_case(type_, places), 2, [n % 4 for n in range(len(places))])
    assert all(isinstance(view, View) and view.filled is not None for view in engine.catalog.views)


def _signs(rows: Rows) -> set[str]:
    return {"comes" if weight > 0 else "goes" for weight in rows.weights.tolist()}

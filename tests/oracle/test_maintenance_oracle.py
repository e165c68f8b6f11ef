"""Zone programs against a row-by-row evaluation of the views' queries, after every batch."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from bags import bag
from drawn import drawn, examples
from memory_engine import MemoryEngine
from oracle.model import Base, Case, Operation, TableSchema
from oracle.queries import OUTER_JOINS
from oracle.strategies import COLUMN_TYPES, cases, domain
from reaching import by_reach
from viewkeeper.catalog.model import Column, StateSpec
from viewkeeper.catalog.types import BIGINT, INT, STRING, Type
from viewkeeper.checker.row_evaluator import Answer, evaluate
from viewkeeper.errors import NotSupported
from viewkeeper.evaluation import constant_folding
from viewkeeper.maintenance import outer_joins
from viewkeeper.maintenance.rules.computed_columns import COMPUTED_COLUMNS
from viewkeeper.maintenance.rules.computed_on import COMPUTED_ON
from viewkeeper.maintenance.rules.rewriter import RULES, rewritten
from viewkeeper.maintenance.rules.spark_aggregates import SPARK_AGGREGATES
from viewkeeper.maintenance.task import Task
from viewkeeper.maintenance.zones import _RUN
from viewkeeper.plans.key_functions import WindowRows
from viewkeeper.plans.maintenance import ByKey, plan_of
from viewkeeper.trace.rows import Rows


def answers(engine: MemoryEngine, base: Base) -> dict[str, Answer]:
    """What each view's query says of `base`, by plain evaluation."""
    inputs = {t.id: Answer(base.rows(t.name)) for t in engine.catalog.tables}
    found = {}
    for view in engine.catalog.views:
        inputs[view.id] = found[view.name] = evaluate(engine.relations[view.name], inputs)
    return found


def compare(engine: MemoryEngine, base: Base) -> None:
    for name, answer in answers(engine, base).items():
        view = engine.catalog.find(name)
        if view is None or view.filled is None:  # type: ignore[union-attr]
            continue
        # Which errors there are, not how often: a view that is read twice in one query raises once for its reader.
        found = {(code, place) for _, code, place, _ in engine.errors(name)}
        assert found == {(e.code, e.place) for e in answer.errors}, f"errors of {view.sql}"  # type: ignore[union-attr]
        assert bag(engine.rows(name)) == bag(answer.rows), view.sql  # type: ignore[union-attr]


def run(case: Case, servers: int, *declared_at: int, together: bool = False) -> MemoryEngine:
    """Runs the case; views are declared before a batch, and their fill overlaps that batch: the i-th before batch
    `declared_at[i]` (or the last of them, where there are more views), none before one that it may read."""
    engine = MemoryEngine(case.tables, servers)
    base = Base(case.schemas)
    stages = list(accumulate(declared_at, max))
    stages += stages[-1:] * (len(case.views) - len(stages))
    for n, batch in enumerate((*case.batches, ())):
        views = [view for view, stage in zip(case.views, stages, strict=False) if stage == n]
        if views:
            try:
                engine.declare(views, together=together)
            except NotSupported:
                reject()  # a conversion that could lose digits: refused when declared, as it should be
            engine.start_fill()
        with by_reach(n % 2 == 0):
            engine.apply(base.taken(batch))
            if views:
                engine.finish_fill()
        compare(engine, base)
    return engine


@settings(max_examples=examples(100), deadline=None)
@given(cases(), st.integers(1, 3), st.integers(0, 5))
def test_views_equal_their_query_after_every_batch(case: Case, servers: int, declared_at: int) -> None:
    """Whatever the views, the history, its cuts and the number of view servers: each view is its query's answer."""
    run(case, servers, min(declared_at, len(case.batches)))


@settings(max_examples=examples(100), deadline=None)
@given(cases(), st.integers(1, 3), st.lists(st.integers(0, 5), min_size=3, max_size=3))
def test_views_declared_one_after_another_equal_their_query(case: Case, servers: int, declared_at: list[int]) -> None:
    """The same where views are declared at different moments: later ones read and share what earlier ones keep."""
    run(case, servers, *(min(at, len(case.batches)) for at in declared_at))


def one_key_type(type_: Type) -> Case:
    """Views by a key of `type_`, with NULLs and without, alone and beside another column; then views over these and
    beside them, which share what they keep.  Each batch puts, moves and deletes rows of every key."""
    key, text = Column("c", type_), Column("d", STRING)
    number, id_ = Column("x", INT), Column("id", BIGINT, False)
    t, u = (TableSchema(name, (id_, key, text, number), (0,)) for name in "tu")
    early = ["CREATE VIEW g AS SELECT c, sum(x) AS s, min(x) AS low FROM t GROUP BY c",
             "CREATE VIEW gg AS SELECT c, d, count(*) AS n, max(x) AS high FROM t GROUP BY c, d",
             "CREATE VIEW j AS SELECT t.id, u.x FROM t JOIN u ON t.c = u.c",
             "CREATE VIEW jj AS SELECT t.id, u.x FROM t JOIN u ON t.c = u.c AND t.d = u.d",
             "CREATE VIEW f AS SELECT c, count(*) AS n FROM t WHERE x > 1 GROUP BY c"]  # fmt: skip
    late = ["CREATE VIEW g1 AS SELECT c, s FROM g WHERE s > 1",
            "CREATE VIEW g2 AS SELECT s, count(*) AS n, max(c) AS c FROM g GROUP BY s",
            "CREATE VIEW g3 AS SELECT g.c, u.id FROM g JOIN u ON g.c = u.c",
            "CREATE VIEW gg1 AS SELECT c, sum(n) AS n FROM gg GROUP BY c",
            "CREATE VIEW gg2 AS SELECT a.c, a.d, b.id FROM gg a JOIN t b ON a.c = b.c AND a.d = b.d",
            "CREATE VIEW j1 AS SELECT x, count(*) AS n FROM j GROUP BY x",
            "CREATE VIEW j2 AS SELECT t.id, u.d FROM t JOIN u ON t.c = u.c",
            "CREATE VIEW jj1 AS SELECT u.id, t.x FROM t JOIN u ON t.c = u.c AND t.d = u.d",
            "CREATE VIEW f1 AS SELECT c, count(*) AS n FROM t WHERE x > 0 GROUP BY c",
            "CREATE VIEW f2 AS SELECT c, n FROM f WHERE n > 1"]  # fmt: skip
    keys = [*domain(type_)[:3], None]
    batches = []
    for n in range(4):
        rows = [{"id": i, "c": keys[(i + n) % len(keys)], "d": [None, "a", "b"][i % 3], "x": (i * (n + 2)) % 5}
                for i in range(n % 2, 12)]  # fmt: skip
        puts = [Operation("put_many", name, tuple(rows[: 12 - 3 * at])) for at, name in enumerate("tu")]
        deletes = [Operation("delete", name, ({"id": 10 - n},)) for name in "tu"]
        batches.append((*puts, *deletes))
    return Case((t, u), tuple(early + late), tuple(batches))


@pytest.mark.parametrize("type_", COLUMN_TYPES, ids=str)
def test_views_that_share_what_others_keep_are_filled_whatever_the_key(
    type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every kind of state, by keys of every type, NULL among them: filled beside views that keep it already, and with
    them, before and after the data."""
    covered: set[tuple[str, str, str]] = set()
    write = Task.write

    def noting(task: Task, spec: StateSpec, rows: Rows) -> None:
        kept = "new" if task.program.writes(spec) is None else "kept by others"
        for column in rows.columns[int(spec.member) : spec.key][:2]:
            covered.add((f"{spec.kind}{' of a family' * spec.member}", kept, "NULL" if column.null_count else "value"))
        write(task, spec, rows)

    monkeypatch.setattr(Task, "write", noting)
    case = one_key_type(type_)
    for early, late in ((0, 0), (0, 2), (2, 2), (2, 4), (4, 4)):
        run(case, 2, *[early] * 5, late)
    wanted = {
        (f"{kind}{family}", kept, null)
        for kind, family in (("keyed", ""), ("weighted", ""), ("ordered", ""), ("keyed", " of a family"))
        for kept in ("new", "kept by others")
        for null in ("NULL", "value")
    }
    assert wanted <= covered, f"not reached: {sorted(wanted - covered)}"


CASES_MAX = 150
"""Among so many cases everything that there is has to be drawn; most is among the first dozen."""

WINDOWS = {"row_number OVER", "rank OVER", "ROWS", "RANGE", "ties settled"}
"""What of window functions must be drawn; `test_window_functions` has every function over every kind of frame."""


def declared(case: Case) -> Counter[str]:
    """What declaring the views of `case` reaches."""
    engine, covered = MemoryEngine(case.tables), Counter[str]()
    try:
        engine.declare(case.views)
    except NotSupported as refused:
        return Counter([f"refused: {str(refused).split(' is ')[0][:40]}"])
    plan = plan_of(engine.catalog)
    covered.update(type(operator).__name__ for operator in plan.operators)
    functions = [o.function for o in plan.operators if isinstance(o, ByKey) and isinstance(o.function, WindowRows)]
    for call in (call for function in functions for call in function.calls):
        covered.update([f"{call.function} OVER", call.frame.unit, *["ties settled"] * bool(call.ties)])
    for relation in engine.relations.values():
        covered.update(rewritten(relation, "UTC")[1])
    return covered


def test_the_generator_reaches_every_operator_and_every_rule() -> None:
    # Of SELECT, of streams, and of what Spark computes.
    elsewhere = {"GivenRows", "Arrivals", "SparkAnswer", "SparkGroups", "Memo", "Recall", COMPUTED_COLUMNS.name,
                 COMPUTED_ON.name, SPARK_AGGREGATES.name}  # fmt: skip
    wanted = {each.__name__ for each in _RUN} | {constant_folding.NAME, *(rule.name for rule in RULES)} | WINDOWS
    wanted -= elsewhere
    chance, covered = Random(2), Counter[str]()
    for _ in range(CASES_MAX):
        covered += declared(drawn(chance, cases(operations=0)))
        if wanted <= covered.keys():
            break
    for name, times in covered.most_common():
        print(f"{times:6,} {name}")
    assert wanted <= covered.keys(), f"not reached: {sorted(wanted - covered.keys())}"


@settings(max_examples=examples(70), deadline=None)
@given(cases(extremes=True), st.integers(1, 3), st.integers(0, 5))
def test_views_equal_their_query_where_sums_overflow(case: Case, servers: int, declared_at: int) -> None:
    """The same with the extremes of every type, where arithmetic and sums overflow: error rows come and go."""
    run(case, servers, min(declared_at, len(case.batches)))


@pytest.mark.parametrize("quick", [True, False])
def test_joins_of_every_kind_equal_their_query(monkeypatch: pytest.MonkeyPatch, quick: bool) -> None:
    """Outer, semi and anti joins, kept by the quicker operators where there are any, and by the general one alone."""
    if not quick:
        monkeypatch.setattr(outer_joins, "by_existence", lambda join: False)

    @settings(max_examples=examples(80), deadline=None)
    @given(cases(joins=OUTER_JOINS), st.integers(1, 3), st.integers(0, 5))
    def check(case: Case, servers: int, declared_at: int) -> None:
        run(case, servers, min(declared_at, len(case.batches)))

    check()


@pytest.mark.usefixtures("four_hashes")
def test_views_equal_their_query_with_colliding_hashes() -> None:
    """The same when collisions are the rule."""

    @settings(max_examples=examples(80), deadline=None)
    @given(cases(), st.integers(1, 3), st.integers(0, 5))
    def check(case: Case, servers: int, declared_at: int) -> None:
        run(case, servers, min(declared_at, len(case.batches)))

    check()


def test_a_broken_view_breaks_its_reader_whether_or_not_a_row_asks_for_it() -> None:
    """By a subquery that is tied to rows of which WHERE leaves none."""
    t = TableSchema("t", (Column("id", BIGINT, False), Column("x", INT)), (0,))
    views = [
        "CREATE VIEW v AS SELECT id, (SELECT i.x FROM t AS i WHERE i.x = a.x) AS only FROM t AS a",
        "CREATE VIEW w AS SELECT id FROM t WHERE id > 5 AND EXISTS (SELECT * FROM v WHERE v.id = t.id)",
    ]
    rows = ({"id": 1, "x": 1}, {"id": 2, "x": 1})
    engine = run(Case((t,), tuple(views), ((Operation("put_many", "t", rows),),)), 2, 0)
    assert [code for _, code, *_ in engine.errors("w")]

"""Zone programs on small named cases: those that made other systems wrong, and what they share and cost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bags import bag
from memory_engine import MemoryEngine
from oracle.model import Operation
from oracle.traps import RAISES, TRAPS, Trap
from oracle.traps_of_queries import TRAPS_OF_QUERIES
from oracle.traps_of_rows import TRAPS_OF_ROWS
from viewkeeper.catalog.model import Catalog
from viewkeeper.maintenance import declare_tables
from viewkeeper.maintenance.explain import explain_view
from viewkeeper.maintenance.zone_programs import ZonePrograms
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.text import expression_text

ORDERS = "CREATE TABLE orders (id BIGINT, customer BIGINT, price DECIMAL(15,2), PRIMARY KEY (id))"
CUSTOMER = "CREATE TABLE customer (id BIGINT, segment INT, PRIMARY KEY (id))"
BY_CUSTOMER = "CREATE VIEW sums AS SELECT customer, sum(price) AS s, count(*) AS n FROM orders GROUP BY customer"
BY_SEGMENT = (
    "CREATE VIEW segments AS SELECT c.segment, sum(o.price) AS s, count(*) AS n "
    "FROM orders o JOIN customer c ON o.customer = c.id GROUP BY c.segment"
)
EXTREMES = "CREATE VIEW extremes AS SELECT customer, min(price) AS lo, max(price) AS hi FROM orders GROUP BY customer"


def operators(catalog: Catalog, class_: type[plan.Operator]) -> list[plan.Operator]:
    return [o for o in catalog.plan.operators if isinstance(o, class_)]


@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("trap", TRAPS + TRAPS_OF_QUERIES + TRAPS_OF_ROWS, ids=lambda trap: trap.name)
def test_views_hold_what_they_must_after_every_step(trap: Trap, servers: int) -> None:
    """The rows written down by hand for each case are what the maintained view holds, or it raises."""
    engine = MemoryEngine(trap.tables, servers)
    engine.declare(trap.views)
    engine.fill()
    for operations, expected in trap.steps:
        engine.apply(operations)
        for view, wanted in expected.items():
            assert bool(engine.errors(view)) == (wanted == RAISES)
            assert wanted == RAISES or bag(engine.rows(view)) == bag(wanted), view  # type: ignore[arg-type]


def test_aggregates_and_joins_by_one_key_share_their_exchange_and_pre_aggregation() -> None:
    """Sums, extremes and a join by customer, declared together: one exchange of orders, one PRE-AGGREGATION."""
    engine = MemoryEngine([ORDERS, CUSTOMER])
    engine.declare([BY_CUSTOMER, BY_SEGMENT, EXTREMES], together=True)
    by_customer = [x for x in engine.catalog.plan.exchanges if x.zone == 2]
    assert len(by_customer) == 2, "orders by customer, and customers by id"
    assert len(operators(engine.catalog, plan.PreAggregate)) == 2, "by customer and by segment"
    text = explain_view(engine.catalog, engine.catalog.views[0])
    assert "shared with segments, extremes" in text
    assert "PRE-AGGREGATION" in text


def test_views_that_differ_by_a_constant_are_one_operator() -> None:
    """A thousand selections by constant: one Select, one view table, one state more than a table alone has."""
    engine = MemoryEngine([ORDERS])
    before = len(declare_tables.states(engine.catalog))
    engine.declare(
        [f"CREATE VIEW v{i} AS SELECT * FROM orders WHERE customer = {i}" for i in range(1000)], together=True
    )
    (select,) = operators(engine.catalog, plan.Select)
    assert isinstance(select, plan.Select)
    assert len(select.members) == 1000
    assert len(declare_tables.states(engine.catalog)) == before + 1
    engine.fill()
    engine.apply([Operation("put_many", "orders", tuple({"id": i, "customer": i % 7} for i in range(20)))])
    assert sorted(engine.rows("v3")) == [(3, 3, None), (10, 3, None), (17, 3, None)]


def test_a_view_added_to_a_family_is_filled_and_leaves_the_others_alone() -> None:
    """A selection declared later gets its rows; the rows of its family are neither lost nor doubled."""
    engine = MemoryEngine([ORDERS], servers=2)
    engine.declare(["CREATE VIEW a AS SELECT customer, count(*) AS n FROM orders WHERE price > 1 GROUP BY customer"])
    engine.fill()
    engine.apply([Operation("put_many", "orders", tuple({"id": i, "customer": 1, "price": i} for i in range(5)))])
    engine.declare(["CREATE VIEW b AS SELECT customer, count(*) AS n FROM orders WHERE price > 3 GROUP BY customer"])
    engine.start_fill()
    engine.apply([Operation("put", "orders", ({"id": 9, "customer": 1, "price": 9},))])
    engine.finish_fill()
    engine.apply([Operation("delete", "orders", ({"id": 4},))])
    assert engine.rows("a") == [(1, 3)]
    assert engine.rows("b") == [(1, 1)]


def test_a_dropped_view_takes_its_own_work_with_it_and_no_other() -> None:
    """After a drop the plan is as if the view had never been, and what others share goes on."""
    engine = MemoryEngine([ORDERS, CUSTOMER])
    engine.declare([BY_CUSTOMER])
    engine.declare([BY_SEGMENT, EXTREMES])
    engine.fill()
    gone = [v.id for v in engine.catalog.views if v.name != "sums"]
    engine.catalog = declare_tables.drop(engine.catalog, gone)
    assert not operators(engine.catalog, plan.Join)
    assert ZonePrograms(engine.catalog).depth == 2
    engine.apply([Operation("put", "orders", ({"id": 1, "customer": 1, "price": 2},))])
    assert [row[0] for row in engine.rows("sums")] == [1]


def test_dropped_members_are_named_for_merges_and_their_numbers_not_used_again() -> None:
    """A view of a family that is dropped and declared anew is a new member."""
    engine = MemoryEngine([ORDERS])
    text = "CREATE VIEW a AS SELECT * FROM orders WHERE customer = 1"
    engine.declare([text, "CREATE VIEW b AS SELECT * FROM orders WHERE customer = 2"])
    first = engine.catalog.views[0].stored
    engine.catalog = declare_tables.drop(engine.catalog, [engine.catalog.views[0].id])
    assert declare_tables.dead_members(engine.catalog) == {first.state.id: {first.member}}
    engine.declare([text])
    assert engine.catalog.views[-1].stored.member != first.member
    assert engine.catalog.views[-1].stored.state == first.state


@pytest.fixture
def rejecting() -> Iterator[MemoryEngine]:
    yield MemoryEngine(["CREATE TABLE t (id BIGINT, need BIGINT NOT NULL, more BIGINT, PRIMARY KEY (id))"])


def test_a_partial_put_is_rejected_exactly_where_its_row_is_not_there(rejecting: MemoryEngine) -> None:
    """Order within one batch decides: before the row exists and after its deletion it is rejected, between not."""
    partial = Operation("put", "t", ({"id": 1, "more": 5},))
    whole = Operation("put", "t", ({"id": 1, "need": 1},))
    rejecting.apply([partial, whole, partial, Operation("delete", "t", ({"id": 1},)), partial, whole])
    assert len(rejecting.rejected) == 2
    assert "need" in rejecting.rejected[0]
    assert rejecting.rows("t") == [(1, 1, None)]


def test_explain_shows_constants_as_sql() -> None:
    """A date, a text and bytes stand in a plan as they are written in SQL."""
    engine = MemoryEngine(["CREATE TABLE t (id BIGINT, d DATE, s STRING, b BINARY, PRIMARY KEY (id))"])
    engine.declare(["CREATE VIEW v AS SELECT id FROM t WHERE d < DATE '1995-03-15' OR s = 'it\\'s' OR b = X'0aFF'"])
    family = next(o for o in operators(engine.catalog, plan.Select) if isinstance(o, plan.Select))
    text = expression_text(family.members[0].predicate)
    assert text == "((d < DATE '1995-03-15') OR (s = 'it\\'s') OR (b = X'0AFF'))"


def test_explain_shows_aggregates_as_they_are_called() -> None:
    """Each call names what it is over, not where that lies in a state; the key of a global aggregate is ()."""
    engine = MemoryEngine(["CREATE TABLE t (id BIGINT, g INT, p INT, PRIMARY KEY (id))"])
    engine.declare(["CREATE VIEW v AS SELECT g, sum(p), count(*), max(p) FROM t GROUP BY g",
                    "CREATE VIEW w AS SELECT avg(p) AS a FROM t"])  # fmt: skip
    assert " sum(p), count(*), max(p) from " in explain_view(engine.catalog, engine.catalog.views[0])
    text = explain_view(engine.catalog, engine.catalog.views[1])
    assert text.startswith("view w: key ()\n") and "keyed by ()" in text and " avg(p) from " in text

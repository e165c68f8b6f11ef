"""Pattern views by example: the paper's, what it leaves open, what is stored, what is refused and what raises."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pattern_engine import STREAM, Kept, Row, at, declared, kept
from viewkeeper.catalog.codec import dumps, loads
from viewkeeper.catalog.model import Catalog, Column, Stream
from viewkeeper.catalog.types import BIGINT, DOUBLE, STRING, TIMESTAMP, decimal
from viewkeeper.errors import DeclarationError, NotSupported, ViewBroken
from viewkeeper.streams.explain import explain
from viewkeeper.streams.patterns.fsm import Machine

VIEW1 = """CREATE VIEW View1 AS SELECT src, count(*) AS ct, sum(loss) AS sum_loss FROM M PATTERN [a, b, c, d+]
           WHERE a.loss > 10 AND b.loss > 10 AND c.loss > 10 AND d.loss > 10 GROUP BY src"""


def of_losses(losses: list[int | None], src: str | None = "p") -> dict[int, list[Row]]:
    """One row a part."""
    return {part: [(at(part), src, loss, part)] for part, loss in enumerate(losses)}


def of_one_part(losses: list[int | None]) -> dict[int, list[Row]]:
    """All rows in part 0, a second apart."""
    return {0: [(at(0, i), "p", loss, i) for i, loss in enumerate(losses)]}


def view(outputs: str, pattern: str, where: str = "", more: str = "GROUP BY src") -> str:
    condition = f"WHERE {where}" if where else ""
    return f"CREATE VIEW v AS SELECT {outputs} FROM M PATTERN [{pattern}] {condition} {more}"


def test_the_pair_of_the_papers_example_is_in_at_10_04_and_10_05_and_out_at_10_06() -> None:
    """Section 2: ct 4 and sum 71, then 5 and 87, then nothing."""
    rows = kept(VIEW1, of_losses([6, 12, 15, 24, 20, 16, 7])).rows()
    assert rows == {4: [("p", 4, 71)], 5: [("p", 5, 87)]}


def test_view1_keeps_one_row_a_group() -> None:
    """Whatever began later is needless, from the first row of a match on."""
    machine = kept(VIEW1, of_losses([12] * 8))
    assert {len(rows) for rows in machine.helper.values()} == {1}
    everything = kept(VIEW1, of_losses([12] * 8), dominance=False)
    assert max(len(rows) for rows in everything.helper.values()) == 4


def test_a_gap_ends_a_match() -> None:
    """Consecutive rows are rows of consecutive parts."""
    parts = of_losses([12] * 7)
    del parts[3]
    assert kept(VIEW1, parts).rows() == {}


def test_rows_between_two_of_one_part_count_even_where_they_satisfy_nothing() -> None:
    """A breaking row between four others of one part breaks."""
    assert kept(VIEW1, of_one_part([11, 12, 1, 13, 14])).rows() == {}
    assert kept(VIEW1, of_one_part([11, 12, 13, 14, 1])).rows() == {0: [("p", 4, 50)]}


def test_a_row_that_breaks_a_match_may_begin_one() -> None:
    """In a rise that starts again, the row that falls is the first of the next."""
    sql = view("count(*) AS n, first(loss) AS f", "a, b+", "b.loss > PREV(b.loss)", "")
    assert kept(sql, of_losses([1, 2, 3, 1, 4])).rows() == {1: [(2, 1)], 2: [(3, 1)], 4: [(2, 1)]}


def test_the_first_row_of_a_plus_variable_satisfies_its_predicates_too() -> None:
    """The paper's Algorithm 1 puts them on the edge from the state to itself alone."""
    sql = view("count(*) AS n", "a, b+", "a.loss = 1 AND b.loss > 5", "")
    assert kept(sql, of_losses([1, 2, 6])).rows() == {}


def test_a_predicate_on_two_variables_is_tested_at_each_row_of_the_later_against_the_last_of_the_earlier() -> None:
    """a+ has rows 5 and 3; every row of b+ must be below 3."""
    sql = view("count(a.loss) AS a, count(b.loss) AS b", "a+, b+", "a.loss >= 3 AND b.loss < a.loss", "")
    assert kept(sql, of_losses([5, 3, 2, 1, 2])).rows()[4] == [(2, 3)]
    assert kept(sql, of_losses([3, 5, 4, 4])).rows()[3] == [(2, 2)]


def test_prev_is_the_groups_row_before_also_one_before_the_match_and_null_behind_a_gap() -> None:
    """The match is the one row that is above the one before it."""
    sql = view("count(*) AS n, min(loss) AS m", "a", "a.loss > PREV(a.loss)")
    parts = of_losses([1, 2, 3])
    assert kept(sql, parts).rows() == {1: [(1, 2)], 2: [(1, 3)]}
    del parts[1]
    assert kept(sql, parts).rows() == {}
    assert kept(view("count(*) AS n", "a", "PREV(a.loss) IS NULL"), parts).rows() == {0: [(1,)], 2: [(1,)]}


def test_null_is_not_satisfied_and_null_is_a_group() -> None:
    """A row whose loss is NULL breaks; rows whose src is NULL belong together."""
    parts = of_losses([11, 12, None, 13, 14, 15, 16], None)
    assert kept(VIEW1, parts).rows() == {6: [(None, 4, 58)]}


def test_the_longest_match_that_ends_in_the_part_is_the_answer_and_of_equally_long_ones_the_last() -> None:
    """Two matches of two rows end in the part: the later one counts."""
    sql = view("count(*) AS n, sum(loss) AS s", "a, b", "a.loss > 10 AND b.loss > 10", "")
    assert kept(sql, of_one_part([11, 12, 1, 13, 14])).rows() == {0: [(2, 27)]}
    longer = view("count(*) AS n, sum(loss) AS s", "a, b+", "a.loss > 10 AND b.loss > 10", "")
    assert kept(longer, of_one_part([11, 12, 13, 1, 13, 14])).rows() == {0: [(3, 36)]}


def test_of_several_ways_the_earlier_plus_variable_takes_more_rows() -> None:
    """Four rows that any variable takes: a+ has all but those that b and c+ need."""
    sql = view("count(a.x) AS a, count(b.x) AS b, count(c.x) AS c", "a+, b+, c+", "", "")
    assert kept(sql, of_losses([1, 1, 1, 1])).rows()[3] == [(2, 1, 1)]


def test_rows_are_taken_by_time_then_order_by_then_all_columns() -> None:
    """The order in which rows came says nothing."""
    rows = [(at(0, 1), "p", 3, 9), (at(0, 0), "p", 1, 2), (at(0, 1), "p", 2, 5), (at(0, 1), "p", 2, 4)]
    for shuffled in (rows, rows[::-1], rows[2:] + rows[:2]):
        up = kept(view("first(x) AS f, last(x) AS l", "a+", "a.loss > 1", ""), {0: shuffled}).rows()
        down = kept(view("first(x) AS f, last(x) AS l", "a+", "a.loss > 1", "ORDER BY x DESC"), {0: shuffled}).rows()
        assert (up, down) == ({0: [(4, 9)]}, {0: [(9, 4)]})


def test_view_over_a_pattern_view_needs_no_order_but_one_over_a_view_that_may_have_many_rows_does() -> None:
    """What a part holds once for each group has one order."""
    catalog, first = declared(VIEW1)
    sql = "CREATE VIEW w AS SELECT src, max(ct) AS m FROM View1 PATTERN [a, b+] WHERE b.ct > 4 GROUP BY src"
    catalog, second = declared(sql, first, catalog)
    upper = Kept(catalog, second)
    for part, rows in kept(VIEW1, of_losses([12] * 8)).rows().items():
        upper.build(part, rows)
    assert upper.rows() == {4: [("p", 5)], 5: [("p", 6)], 6: [("p", 7)], 7: [("p", 8)]}
    with pytest.raises(NotSupported, match=r"may hold several rows of a group; say by ORDER BY.*line 1, column 43"):
        declared("CREATE VIEW w AS SELECT max(ct) AS m FROM View1 PATTERN [a, b+] WHERE b.ct > 4", first, catalog)


def test_equal_patterns_share_the_partial_matches_where_these_hold_all_that_is_asked_for() -> None:
    """A second view with fewer aggregates has no Helper of its own; one with more has."""
    catalog, _ = declared(VIEW1)
    fewer = VIEW1.replace("View1", "View2").replace("sum(loss) AS sum_loss", "avg(loss) AS mean")
    more = VIEW1.replace("View1", "View3").replace("count(*) AS ct", "max(loss) AS ct")
    catalog, second = declared(fewer, STREAM, catalog)
    catalog, third = declared(more, STREAM, catalog)
    kinds = [each.kind for each in catalog.part_views]
    assert kinds == ["helper", "pattern", "pattern", "helper", "pattern"]
    assert second.reads == (catalog.part_views[0].id,) and third.reads == (catalog.part_views[3].id,)
    without = catalog.without([each.id for each in catalog.part_views if each.name == "View1"])
    again, _ = declared(VIEW1.replace("d.loss > 10", "d.loss > 11"), STREAM, without)
    assert len({each.name for each in again.part_views}) == len(again.part_views)
    machine = Kept(catalog, second)
    for part, rows in of_losses([12, 15, 24, 20]).items():
        machine.build(part, rows)
    assert machine.rows() == {3: [("p", 4, 17.75)]}


def test_plans_survive_being_stored() -> None:
    """A catalog with pattern views comes back as it was."""
    catalog, _ = declared(view("src, first(a.loss) AS f, sum(b.x - PREV(b.x)) AS s", "a+, b", "b.loss > a.loss"))
    again = loads(dumps(catalog))
    assert again == catalog
    assert [each.plan for each in again.part_views] == [each.plan for each in catalog.part_views]


def test_a_set_that_can_grow_is_named_by_explain_and_one_that_cannot_is_not() -> None:
    """Remembered values behind a + that does not test them grow; View1 has one row a group."""
    catalog, grows = declared(view("count(*) AS n", "a, b+, c", "b.loss > 0 AND c.loss > a.loss"))
    assert "can grow without bound" in explain(catalog, grows)
    for sql in (VIEW1, view("count(*) AS n", "a, b+", "b.loss > a.loss"), view("count(*) AS n", "a, b", "b.x > a.x")):
        catalog, bounded = declared(sql)
        assert "can grow" not in explain(catalog, bounded)
    assert "partial matches: one row a group" in explain(*declared(VIEW1)).strip().split("\n  ")


def test_what_explain_calls_bounded_is_so() -> None:
    """A rise above the first row is kept as one row a group, however often it begins."""
    sql = view("count(*) AS n", "a, b+", "b.loss > a.loss")
    machine = kept(sql, of_losses([i % 7 for i in range(60)]))
    assert max(len(rows) for rows in machine.helper.values()) <= 2


def test_limit_stops_the_view_and_names_the_group() -> None:
    """The set is never cut silently."""
    sql = view("count(*) AS n", "a, b+, c", "b.loss > 0 AND c.loss > a.loss", "GROUP BY src LIMIT 5 PARTIAL MATCHES")
    losses = of_losses([*range(30, 20, -1)])
    with pytest.raises(ViewBroken, match=r"^v: the group \(p\) has more than 5 partial matches"):
        kept(sql, losses)
    one_part = of_one_part([*range(30, 20, -1)])
    with pytest.raises(ViewBroken, match=r"the group \(p\) has more than 5 partial matches"):
        kept(sql, one_part)
    kept(sql.replace("LIMIT 5", "LIMIT 50"), losses)


def test_the_explained_machine_has_the_papers_states_and_edges() -> None:
    """Figure 4."""
    _, v = declared(VIEW1)
    catalog, _ = declared(VIEW1)
    helper = catalog.part_views[0]
    edges = [(edge.source, edge.target) for edge in Machine(helper.plan).edges]
    assert edges == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 4)]
    assert explain(catalog, v).splitlines() == [
        "view View1: pattern, parts of 60 seconds",
        "a row for each group: of its matches that end in View1__matches[j], the longest",
        "outputs: src, count(1) AS ct, sum(loss) AS sum_loss",
        "View1__matches: helper, parts of 60 seconds",
        "  pattern [a, b, c, d+] over M, by (src), rows of a part in the order of ts, then all columns",
        "  states: 0 (begin), 1 (a), 2 (b), 3 (c), 4 (d+) (accepting)",
        *(f"    {source} -> {target} where (loss > 10)" for source, target in edges),
        "  remembered: nothing",
        "  state 2 includes 1", "  state 3 includes 1, 2, 4", "  state 4 includes 1, 2, 3",
        "  partial matches: one row a group",
        "  kept of each match: its number of rows, sum(loss)",
    ]  # fmt: skip


def test_the_explained_edges_name_the_rows_that_they_compare() -> None:
    """A row that is remembered by its variable, the row before by PREV."""
    text = explain(*declared(view("first(a.loss) AS f", "a, b+", "b.loss > a.loss AND b.x > PREV(b.x)")))
    assert "    0 -> 1 where TRUE\n    1 -> 2 where (x > PREV(x)) AND (loss > a.loss)\n" in text
    assert "  remembered: a.loss, x of the last row\n" in text
    assert "  kept of each match: its number of rows, first(loss) of a" in text


# Sums


def wide(type_: object) -> tuple[Catalog, Stream]:
    columns = (Column("ts", TIMESTAMP, False), Column("src", STRING), Column("y", type_))  # type: ignore[arg-type]
    stream = Stream(16, "M", columns, 0, 60)
    return Catalog((stream,)), stream


def build(sql: str, type_: object, each: list[object]) -> dict[int, list[Row]]:
    catalog, stream = wide(type_)
    machine = Kept(*declared(sql, stream, catalog))
    for part, y in enumerate(each):
        machine.build(part, [(at(part), "p", y)])
    return machine.rows()


def test_sums_are_exact_and_overflow_only_if_the_final_sum_does() -> None:
    """A sum passes the end of BIGINT and comes back; where it stays there the view is broken at that part."""
    most = 2**63 - 1
    sql = view("sum(y) AS s", "a, b, c+")
    assert build(sql, BIGINT, [most, most, -most])[2] == [(most,)]
    with pytest.raises(ViewBroken, match=r"v, group \(p\): ARITHMETIC_OVERFLOW \(line 1, column 8\)"):
        build(sql, BIGINT, [most, 1, 1])
    nines, less = Decimal("9" * 38), Decimal("-" + "9" * 38)
    assert build(sql, decimal(38, 0), [nines, nines, less])[2] == [(nines,)]


def test_float_sums_do_not_depend_on_order_and_are_rounded_once() -> None:
    """Two huge opposite numbers leave the small one."""
    sql = view("sum(y) AS s, avg(y) AS m", "a+")
    assert build(sql, DOUBLE, [1.1e31, 0.5, -1.1e31])[2] == [(0.5, 0.5 / 3)]
    assert build(sql, DOUBLE, [None, None])[1] == [(None, None)]


def test_an_argument_that_raises_counts_only_in_an_answer_with_its_row() -> None:
    """The row that overflows breaks the part in which a match with it ends, not those before."""
    sql = view("sum(y + 1) AS s", "a, b", "a.y > 0 AND b.y > 0")
    most = 2**63 - 1
    assert build(sql, BIGINT, [1, 2, -1, most, -1]) == {1: [(5,)]}
    with pytest.raises(ViewBroken, match=r"v, group \(p\): ARITHMETIC_OVERFLOW \(line 1, column 12\)"):
        build(sql, BIGINT, [1, 2, most])


def test_a_predicate_that_raises_breaks_the_view_with_its_place() -> None:
    """What AND does not reach does not raise."""
    most = 2**63 - 1
    with pytest.raises(ViewBroken, match=r"v: ARITHMETIC_OVERFLOW \(line 1, column 47\)"):
        build(view("count(*) AS n", "a", "a.y + 1 > 0"), BIGINT, [most])
    assert build(view("count(*) AS n", "a", "a.y < 5 AND a.y + 1 > 0"), BIGINT, [most, 1]) == {1: [(1,)]}
    with pytest.raises(ViewBroken, match="v: ARITHMETIC_OVERFLOW"):
        build(view("count(*) AS n", "a, b", "b.y + a.y > 0"), BIGINT, [most, most])


# Refusals


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT src FROM M PATTERN [a] WHERE loss > 1 GROUP BY src", r"belongs to no variable.*a\.loss.*column 54"),
        ("SELECT src FROM M PATTERN [a] WHERE 1 = 1 GROUP BY src", "on no variable; leave it out"),
        ("SELECT loss FROM M PATTERN [a] GROUP BY src", "neither in GROUP BY nor inside an aggregate"),
        ("SELECT a.loss FROM M PATTERN [a] GROUP BY src", r"write FIRST or LAST of a\.loss"),
        ("SELECT * FROM M PATTERN [a]", r"\* is none"),
        ("SELECT count(*) FROM M PATTERN [a, b, c] WHERE a.x > 1 OR b.x > c.x", "c is the third.*column 82"),
        ("SELECT count(*) FROM M PATTERN [a, b, c] WHERE c.x > a.x + b.x", "b is the third; write conditions joined"),
        ("SELECT sum(a.x + b.x) FROM M PATTERN [a, b]", "over the rows of one variable"),
        ("SELECT count(*) FROM M PATTERN [a] HAVING count(*) > 1", "HAVING is not supported in a pattern view"),
        ("SELECT count(*) FROM M, M AS n PATTERN [a]", "join in a view of its own"),
        ("SELECT count(*) FROM M PATTERN [a] WHERE PREV(a.x + 1) > 1", "PREV takes one column"),
        ("SELECT count(*) FROM M PATTERN [a] WHERE soundex(a.src) = 'P'", "the function soundex is not supported"),
        ("SELECT count(*) FROM M PATTERN [m] WHERE m.x > 1", "m is the name of two things here.*column 50"),
        ("SELECT count(*) FROM M PATTERN [a] WHERE z.x > 1", "there is no z in FROM"),
        ("SELECT count(*) FROM M PATTERN [a] WHERE count(*) > 1", "an aggregate cannot stand in WHERE"),
        ("SELECT count(*) FROM M PATTERN [a] ORDER BY ts DESC", "by its time, the earliest first"),
        ("SELECT count(*) FROM M PATTERN [a] GROUP BY a.src", "leave out variables and PREV"),
        ("SELECT count(*) AS n, sum(x) AS n FROM M PATTERN [a]", "two outputs are called n"),
        ("SELECT count(*) FROM M PATTERN [a] LIMIT 3", "LIMIT has no meaning here"),
        ("SELECT first(*) FROM M PATTERN [a]", r"FIRST needs an argument"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_with_its_place_and_what_to_do(sql: str, message: str) -> None:
    """Bad queries are refused when declared."""
    with pytest.raises(DeclarationError, match=message):
        declared(f"CREATE VIEW v AS {sql}")

"""MATCH_RECOGNIZE on small streams whose answers are known."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import pytest

from recognize_history import LENGTH, History, Row, block, built, declared, matching
from viewkeeper.catalog.model import Catalog, Column, PartPlan, PartView
from viewkeeper.catalog.types import INT, STRING
from viewkeeper.checker.recognize import expected_parts
from viewkeeper.errors import ViewBroken
from viewkeeper.streams.recognize.match_program import match_program

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def at(seconds: float, x: int | None, g: str | None = "a", y: float | None = None) -> Row:
    """A row of the stream."""
    return (EPOCH + datetime.timedelta(seconds=seconds), g, x, y, None)


def parts(rows: Sequence[Row]) -> dict[int, list[Row]]:
    """Rows by part."""
    result: dict[int, list[Row]] = {}
    for row in rows:
        result.setdefault(int((row[0] - EPOCH).total_seconds()) // LENGTH, []).append(row)
    return result


def shown(history: History) -> dict[int, list[Row]]:
    """The view's parts that are not empty, each in order."""
    return {part: sorted(rows.elements()) for part, rows in history.shown().items() if rows}


RISE = """PARTITION BY g ORDER BY ts MEASURES FIRST(A.x) AS low, LAST(UP.x) AS high, count(*) AS n
          PATTERN (A UP+ DOWN) DEFINE UP AS x > PREV(x), DOWN AS x < PREV(x)"""


def test_a_match_goes_over_parts_and_is_a_row_of_the_one_that_decides_it() -> None:
    """Rows of parts 0 to 4, an empty part among them, are one match, given where the falling row stands."""
    history = built(matching(RISE), {**parts([at(0, 1), at(70, 2), at(190, 3), at(200, 4), at(250, 2)]), 2: []})
    assert shown(history) == {4: [("a", 1, 4, 5)]}


def test_a_match_that_ended_is_held_back_while_a_better_one_may_come() -> None:
    """A+ B takes what it can: rows that are both A and B are not decided before one that is neither."""
    clause = "PARTITION BY g ORDER BY ts MEASURES count(*) AS n PATTERN (A+ B) DEFINE A AS x > 0, B AS x > 1"
    history = built(matching(clause), parts([at(0, 2), at(60, 2), at(120, 2), at(180, 0)]))
    assert shown(history) == {3: [("a", 3)]}
    decided = built(matching(clause.replace("x > 1", "x = 7")), parts([at(0, 2), at(60, 7), at(120, 0)]))
    assert shown(decided) == {2: [("a", 2)]}


def test_the_row_that_ends_a_match_begins_the_next_only_where_it_is_told_to() -> None:
    """The search goes on behind the last row, or at the row behind the first."""
    clause = "ORDER BY ts MEASURES FIRST(x) AS a, LAST(x) AS z {} PATTERN (A B C)"
    rows = parts([at(10 * i, i) for i in range(7)])
    assert shown(built(matching(clause.format("")), rows)) == {0: [(0, 2), (3, 5)]}
    every = shown(built(matching(clause.format("AFTER MATCH SKIP TO NEXT ROW")), rows))
    assert every == {0: [(0, 2), (1, 3), (2, 4), (3, 5)], 1: [(4, 6)]}


def test_prev_is_the_partitions_row_before_wherever_it_stands() -> None:
    """PREV looks over parts, gaps and the ends of matches, and is NULL at a partition's first rows only."""
    clause = """PARTITION BY g ORDER BY ts MEASURES A.x AS x PATTERN (A)
                DEFINE A AS PREV(x) IS NULL OR x > PREV(x, 1) OR x = PREV(x, 3)"""
    rows = [at(0, 5), at(1, 4, "b"), at(60, 5), at(61, 6), at(600, 5), at(660, 9), at(661, 5)]
    assert shown(built(matching(clause), parts(rows))) == {
        0: [("a", 5), ("b", 4)], 1: [("a", 6)], 10: [("a", 5)], 11: [("a", 9)],
    }  # fmt: skip


def test_null_is_not_satisfied_and_a_group_like_any_other() -> None:
    """A condition that is NULL does not hold; rows whose group is NULL are one partition."""
    clause = "PARTITION BY g ORDER BY ts MEASURES count(A.x) AS n, count(A.*) AS m PATTERN (A* B) DEFINE B AS x > 3"
    rows = [at(0, None, None), at(1, 2, None), at(2, 4, None), at(3, None, "b"), at(4, None, "b")]
    assert shown(built(matching(clause), parts([*rows, at(60, 1, None)]))) == {}
    clause = clause.replace("DEFINE", "DEFINE A AS x IS NULL OR x < 3,")
    assert shown(built(matching(clause), parts(rows))) == {0: [(None, 1, 2)]}


def test_a_row_of_the_same_moment_that_a_tie_sorts_before_comes_before() -> None:
    """Trap 153: A@1, B@5 and then A@5, which the second column of ORDER BY sorts before B, are one match of three."""
    clause = "ORDER BY ts, x MEASURES count(A.*) AS n PATTERN (A+ B) DEFINE A AS x = 1, B AS x = 2"
    assert shown(built(matching(clause), parts([at(1, 1), at(5, 2), at(5, 1)]))) == {0: [(2,)]}
    late = built(matching(clause), parts([at(1, 1), at(5, 2)]))
    assert shown(late) == {0: [(1,)]}
    late.repair(0, [at(5, 1)])
    assert shown(late) == {0: [(2,)]}


def test_which_of_two_zeros_comes_first_does_not_depend_on_who_came_first() -> None:
    """0.0 and -0.0 tie, and are not the same: the negative one is first."""
    view = matching("ORDER BY ts MEASURES FIRST(A.y) AS f PATTERN (A B)")
    zeros = [(*at(5, 1)[:3], zero, None) for zero in (0.0, -0.0)]
    for rows in (zeros, zeros[::-1]):
        (found,) = built(view, parts(rows)).parts[0].columns[0].to_pylist()
        assert str(found) == "-0.0"


def test_what_is_undecided_hides_no_other_partition() -> None:
    """Trap 151's like: a partial match that never ends holds back what comes behind it in its own partition only."""
    clause = "PARTITION BY g ORDER BY ts MEASURES FIRST(A.x) AS x PATTERN (A C* B) DEFINE B AS x = 0"
    endless = [at(60 * i, 9, "endless") for i in range(5)]
    rows = [*endless, at(0, 7), at(60, 0), at(120, 8), at(180, 0), at(240, 0)]
    defined = clause.replace("DEFINE", "DEFINE A AS x > 5, C AS x > 8,")
    assert shown(built(matching(defined), parts(rows))) == {1: [("a", 7)], 3: [("a", 8)]}


def test_a_repair_ends_where_the_open_rows_are_as_before() -> None:
    """A late row is followed as far as it matters, and no other group is computed again."""
    view = matching(RISE)
    rows = [at(60 * i, x, g) for g in "abc" for i, x in enumerate([1, 2, 3, 1, 1, 2, 1, 1, 1])]
    history = built(view, parts(rows))
    computed = history.repair(1, [at(90, 9, "b")])
    assert computed == [1, 2, 3, 4]
    assert shown(history)[2] == [("b", 1, 9, 4)]
    assert history.shown() == built(view, parts([*rows, at(90, 9, "b")])).shown()


def test_the_time_of_a_part_can_be_named() -> None:
    """PART_TIMESTAMP is the moment at which a row's part begins, in MEASURES and DEFINE."""
    clause = """ORDER BY ts MEASURES FIRST(PART_TIMESTAMP) AS f, max(PART_TIMESTAMP) AS l PATTERN (A B)
                DEFINE B AS PART_TIMESTAMP > PREV(PART_TIMESTAMP) AND PART_TIMESTAMP < ts"""
    rows = parts([at(-30, 1), at(-10, 1), at(5, 1)])
    assert shown(built(matching(clause), rows)) == {0: [(EPOCH - datetime.timedelta(seconds=60), EPOCH)]}


def test_matches_over_a_view_are_kept_as_over_a_stream() -> None:
    """A view's rows come part by part, within a part by the rest of ORDER BY, then by all columns."""
    of = PartView(21, "w", "", (Column("g", STRING), Column("x", INT)), LENGTH, (20,), (), PartPlan())
    view = declared(
        "SELECT * FROM w MATCH_RECOGNIZE (PARTITION BY g ORDER BY PART_TIMESTAMP, x DESC "
        "MEASURES FIRST(x) AS f, LAST(PART_TIMESTAMP) AS t PATTERN (A B) DEFINE B AS x > PREV(x))", of,
    )  # fmt: skip
    source: dict[int, list[Row]] = {0: [("a", 1), ("a", 3)], 5: [("a", 2), ("b", 1)]}
    program = match_program(Catalog(), view)
    assert program.inputs[0].object == 21
    history = History(view)
    history.columns = of.columns
    for part, rows in source.items():
        history.append(part, rows)
    expected = {part: sorted(answer.rows) for part, answer in expected_parts(view.plan, source, LENGTH).items()}
    assert expected == {0: [], 5: [("a", 1, EPOCH + datetime.timedelta(minutes=5))]}
    assert shown(history) == {5: expected[5]}


RAISING = [
    ("MEASURES count(*) AS n PATTERN (A B) DEFINE A AS @x + 1 > 0", 2**31 - 1),
    ("MEASURES count(*) AS n PATTERN (A B) DEFINE B AS @x + PREV(x) > 0", 2**31 - 1),
    ("MEASURES sum(@B.x * 2) AS n PATTERN (A B)", 2**31 - 1), ("MEASURES @B.x + A.x AS n PATTERN (A B)", 2**31 - 1),
]  # fmt: skip


@pytest.mark.parametrize(("clause", "x"), RAISING)
def test_an_expression_that_raises_is_named_with_its_place(clause: str, x: int) -> None:
    """Overflow in a condition or measure breaks the view, naming where in its text; the oracle agrees."""
    text = f"SELECT * FROM s MATCH_RECOGNIZE (ORDER BY ts {clause})"
    view = declared(text.replace("@", ""))
    rows = parts([at(0, x), at(1, x)])
    place = text.index("@") + 1
    with pytest.raises(ViewBroken, match=rf"the view v raises ARITHMETIC_OVERFLOW \(line 1, column {place}\)"):
        built(view, rows)
    (answer,) = expected_parts(view.plan, rows, LENGTH).values()
    assert {(error.code, error.place) for error in answer.errors} == {("ARITHMETIC_OVERFLOW", f"1:{place}")}


def test_a_sum_that_does_not_fit_breaks_the_view() -> None:
    """SUM over a match has Spark's type and overflows as Spark's does."""
    view = matching("ORDER BY ts MEASURES sum(x * 9223372036854775807) AS n PATTERN (A B)")
    assert shown(built(view, parts([at(0, 1), at(1, -1)]))) == {0: [(0,)]}
    with pytest.raises(ViewBroken, match="ARITHMETIC_OVERFLOW"):
        built(view, parts([at(0, 1), at(1, 1)]))


def test_no_rows_give_no_rows() -> None:
    """A part in which no group has rows passes the open rows on; preparing nothing gives nothing."""
    view = matching(RISE)
    program = match_program(Catalog(), view)
    history = built(view, parts([at(0, 1), at(1, 2)]))
    assert len(program.prepare(3, block([]), {})) == 0
    history._at = 7
    made = program.advance(7, program.prepare(7, block([]), {}), history)
    assert len(made[view.helpers[0].id]) == 2 and view.id not in made

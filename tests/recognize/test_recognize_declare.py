"""MATCH_RECOGNIZE as it is declared: what is read, what it is called, and what is refused, by name and place."""

from __future__ import annotations

import pickle

import pytest
from sqlglot import exp

from recognize_history import LENGTH, STREAM, declared, matching
from viewkeeper.catalog import codec
from viewkeeper.catalog.model import Catalog, Column, PartPlan, PartView
from viewkeeper.catalog.types import BIGINT, INT, STRING
from viewkeeper.compiler.source_text import QueryText, Script
from viewkeeper.compiler.statements import Identifier
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.plans.match import MatchElement
from viewkeeper.streams.explain import explain
from viewkeeper.streams.recognize.declare_match import source_name
from viewkeeper.streams.recognize.match_program import match_program

BEFORE = "PARTITION BY g ORDER BY ts MEASURES count(*) AS n"

PATTERNS = {
    "A+@? B": "reluctant quantifier (+?)", "A*@? B": "reluctant quantifier (*?)", "A@?? B": "reluctant quantifier (??)",
    "A{2,3}@? B": "reluctant quantifier ({n,m}?)", "A @| B": "one or the other", "(A @| B) C": "one or the other",
    "(A B)@+ C": "quantifier behind parentheses", "(A B)@{2} C": "quantifier behind parentheses",
    "A @B+": "not decided until the next row", "A @B*": "ends in B*", "A @B?": "ends in B?",
    "A @B{2,3}": "ends in B{2,3}", "A @B{2,}": "ends in B{2,}", "A {@- B -} C": "{- -} is not supported",
    "@{- A -} B": "{- -} is not supported", "@^ A": "no fixed first or last row", "A @$": "no fixed first or last row",
    "@PERMUTE(A, B)": "PERMUTE (...)",
}  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_that_is_not_kept_is_refused_with_its_place(pattern: str) -> None:
    """What is no variable with a greedy quantifier is named where it stands (marked @)."""
    marked = f"SELECT * FROM s MATCH_RECOGNIZE ({BEFORE} PATTERN ({pattern}))"
    with pytest.raises(NotSupported) as caught:
        declared(marked.replace("@", ""))
    assert PATTERNS[pattern] in str(caught.value)
    assert caught.value.column == marked.index("@") + 1


CLAUSES = {
    f"{BEFORE} PATTERN @(A* B?)": "can match without any row",
    f"{BEFORE} PATTERN (@)": "can match without a row",
    f"{BEFORE} PATTERN (A+@+ B)": "one quantifier for each variable",
    f"{BEFORE} PATTERN (A{{@3,2}} B)": "m is at least 1 and at least n",
    f"{BEFORE} PATTERN @(A{{60}} B)": "at most 60",
    f"{BEFORE} PATTERN (A@, B)": "expected the name of a variable",
    f"{BEFORE} @ALL ROWS PER MATCH PATTERN (A)": "there is ONE ROW PER MATCH",
    f"{BEFORE} AFTER MATCH SKIP TO @LAST A PATTERN (A)": "PAST LAST ROW and TO NEXT ROW",
    f"{BEFORE} @INITIAL PATTERN (A)": "INITIAL is not supported",
    f"{BEFORE} PATTERN (A) @SUBSET U = (A)": "SUBSET is not supported",
    f"{BEFORE} PATTERN (A) @WITHIN INTERVAL '1' HOUR": "WITHIN is not supported",
    f"{BEFORE} PATTERN (A) DEFINE A AS x > 1 DEFINE @B AS x > 2": "this is not SQL",
    f"{BEFORE} PATTERN (A) @nonsense": "expected )",
    "PARTITION BY g @PATTERN (A)": "expected ORDER BY",
    "PARTITION BY g ORDER BY @x, ts PATTERN (A)": "must begin with ts (ascending), the time of s",
    "PARTITION BY g ORDER BY @ts DESC PATTERN (A)": "must begin with ts (ascending), the time of s",
    "PARTITION BY g ORDER BY @PART_TIMESTAMP, ts PATTERN (A)": "must begin with ts (ascending)",
    "PARTITION BY g, @G ORDER BY ts PATTERN (A)": "stands twice",
    "PARTITION BY @h ORDER BY ts PATTERN (A)": "no column h",
    f"{BEFORE} PATTERN (A B) DEFINE A AS x > @B.x": "the condition of A refers to B",
    f"{BEFORE} PATTERN (A B) DEFINE B AS x > @PREV(A.x)": "the condition of B refers to A",
    f"{BEFORE} PATTERN (A B) DEFINE A AS @sum(x) > 3": "an aggregate is not supported in DEFINE",
    f"{BEFORE} PATTERN (A B) DEFINE A AS x > @NEXT(x)": "NEXT is not supported",
    f"{BEFORE} PATTERN (A B) DEFINE A AS x > @FIRST(A.x)": "FIRST is not supported in DEFINE",
    f"{BEFORE} PATTERN (A B) DEFINE A AS @PREV(x + 1) > 3": "PREV takes a column",
    f"{BEFORE} PATTERN (A B) DEFINE A AS @PREV(x, 101) > 3": "up to 100",
    f"{BEFORE} PATTERN (A B) DEFINE A AS @x": "needs a condition",
    f"{BEFORE} PATTERN (A B) DEFINE A AS x > 1, @A AS x > 2": "defined twice",
    f"{BEFORE} PATTERN (A B) DEFINE @C AS x > 1": "not in PATTERN",
    f"{BEFORE} PATTERN (A B) DEFINE A AS @x > 1 WHERE x > 2": "one expression is expected",
    "PARTITION BY g ORDER BY ts MEASURES x @PATTERN (A)": "expected AS and the measure's name",
    "PARTITION BY g ORDER BY ts MEASURES @PREV(x) AS n PATTERN (A)": "PREV is not supported in MEASURES",
    "PARTITION BY g ORDER BY ts MEASURES @MATCH_NUMBER() AS n PATTERN (A)": "MATCH_NUMBER is not supported",
    "PARTITION BY g ORDER BY ts MEASURES @FINAL LAST(x) AS n PATTERN (A)": "FINAL says nothing",
    "PARTITION BY g ORDER BY ts MEASURES @sum(A.x + B.x) AS n PATTERN (A B)": "the rows of one variable",
    "PARTITION BY g ORDER BY ts MEASURES @sum(FIRST(x)) AS n PATTERN (A B)": "cannot stand inside an aggregate",
    "PARTITION BY g ORDER BY ts MEASURES @C.x AS n PATTERN (A B)": "no variable C in PATTERN",
    "PARTITION BY g ORDER BY ts MEASURES @FIRST(C.x) AS n PATTERN (A B)": "no variable C in PATTERN",
    "PARTITION BY g ORDER BY ts MEASURES NULL AS @n PATTERN (A)": "always NULL",
}  # fmt: skip


@pytest.mark.parametrize("clauses", CLAUSES)
def test_what_is_not_kept_is_refused_with_its_place(clauses: str) -> None:
    """Each clause that is no part of what can be kept is named where it stands (marked @), over several lines too."""
    marked = f"SELECT *\nFROM s MATCH_RECOGNIZE (\n  {clauses})"
    with pytest.raises(DeclarationError) as caught:
        declared(marked.replace("@", ""))
    assert CLAUSES[clauses] in str(caught.value)
    assert (caught.value.line, caught.value.column) == (3, marked.splitlines()[2].index("@") + 1)


QUERIES = [
    ("SELECT count(*) FROM s @", "an aggregate over all matches"),
    ("SELECT * FROM (SELECT * FROM s @) AS q", "subquery"),
    ("SELECT * FROM s AS t @", "behind FROM and the name"), ("SELECT n, n FROM s @", "two outputs are called n"),
    ("SELECT * FROM s @, s @", "one MATCH_RECOGNIZE"),
    ("SELECT DISTINCT n FROM s @", "DISTINCT"), ("SELECT x FROM s @", "no column x; there is g, n"),
    ("SELECT * FROM s", "no MATCH_RECOGNIZE"), ("SELECT NULL AS q FROM s @", "always NULL"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "reason"), QUERIES)
def test_the_query_around_it_selects_columns_only(query: str, reason: str) -> None:
    """What a query over matches would need a second view for is refused with the reason."""
    with pytest.raises(DeclarationError, match=reason):
        declared(query.replace("@", f"MATCH_RECOGNIZE ({BEFORE} PATTERN (A B))"))


def test_the_outputs_have_the_names_and_types_of_the_select_list() -> None:
    """`*` is the partition columns, then the measures; a list chooses, renames and calculates; WHERE filters."""
    clause = f"MATCH_RECOGNIZE ({BEFORE}, LAST(A.x) AS `last x`, A.y AS y PATTERN (A? B)) AS m"
    star = declared(f"SELECT * FROM s {clause}")
    assert [column.name for column in star.columns] == ["g", "n", "last x", "y"]
    assert star.columns[1] == Column("n", BIGINT, False)
    chosen = declared(f"SELECT `last x` * 2 AS twice, m.g FROM s {clause} WHERE m.n > 1")
    assert chosen.columns == (Column("twice", INT), Column("g", STRING))
    renamed = declared(f"SELECT g, n FROM s {clause}", columns=("one", "two"))
    assert [column.name for column in renamed.columns] == ["one", "two"]


def test_quantifiers_are_greedy_counts() -> None:
    """Every quantifier is a least and a greatest number of rows; parentheses without one mean nothing."""
    elements = matching(f"{BEFORE} PATTERN (A+ (B* C?) D{{3}} E{{2,}} F{{,4}} G{{1,2}} a)").plan.elements
    assert elements == tuple(
        MatchElement(*each)
        for each in [(0, 1, None), (1, 0, None), (2, 0, 1), (3, 3, 3), (4, 2, None), (5, 0, 4), (6, 1, 2), (0, 1, 1)]
    )


def test_comments_and_quotes_are_read_as_in_all_of_sql() -> None:
    """Comments may stand anywhere; quoted names are names, whatever they say."""
    view = declared(
        "SELECT * FROM s MATCH_RECOGNIZE ( -- AFTER MATCH SKIP TO NEXT ROW\n PARTITION BY `g` ORDER BY ts MEASURES\n"
        "count(*) /* one */ AS `PATTERN` PATTERN (`DEFINE` B) DEFINE `DEFINE` AS `DEFINE`.x > 1)"
    )
    assert view.plan.variables == ("DEFINE", "B") and view.plan.past
    assert [column.name for column in view.columns] == ["g", "PATTERN"]


def test_a_view_is_stored_and_its_program_sent_as_they_are() -> None:
    """The plan survives the catalog, and the program the way to another process."""
    view = matching(f"{BEFORE}, sum(A.d) AS s PATTERN (A+ B) DEFINE B AS x > PREV(x) AND y < 0.5")
    assert codec.loads(codec.dumps(view)).plan == view.plan
    program = match_program(Catalog(), view)
    program.automaton
    assert pickle.loads(pickle.dumps(program)) == program
    assert program.carry == "row" and view.length == LENGTH and view.reads == (STREAM.id,) and view.fills


def test_a_pattern_of_one_row_keeps_nothing() -> None:
    """Where each row is a match by itself there are no open rows."""
    view = matching(f"{BEFORE} PATTERN (A) DEFINE A AS x > 1")
    assert not view.helpers and match_program(Catalog(), view).carry == "none"
    assert matching(f"{BEFORE} PATTERN (A) DEFINE A AS x > PREV(x)").helpers


def test_over_a_view_the_order_begins_with_the_parts() -> None:
    """A view has no time within its parts: ORDER BY begins with PART_TIMESTAMP, and says so where it does not."""
    view = PartView(21, "w", "", (Column("g", STRING), Column("x", INT)), 3600, (20,), (), PartPlan())
    query = "SELECT * FROM w MATCH_RECOGNIZE (PARTITION BY g ORDER BY {} MEASURES count(*) AS n PATTERN (A B))"
    made = declared(query.format("PART_TIMESTAMP, x DESC"), view)
    assert made.reads == (21,) and made.length == 3600
    with pytest.raises(NotSupported, match="must begin with PART_TIMESTAMP .* a part of the view w begins"):
        declared(query.format("x"), view)


def test_the_source_can_be_asked_for_before_it_is_known() -> None:
    """The name before MATCH_RECOGNIZE comes with its place."""
    text = f"SELECT *\nFROM s MATCH_RECOGNIZE ({BEFORE} PATTERN (A B))"
    name = source_name(QueryText(exp.select("1"), Script(text), 0, len(text)))
    assert name == Identifier("s", (2, 6))


def test_explain_shows_the_machine_and_what_grows() -> None:
    """EXPLAIN has the states, the conditions, and which rows are kept for how long."""
    endless = matching("PARTITION BY g ORDER BY ts, x DESC MEASURES FIRST(A.x, 1) AS f, sum(B.y) AS s, count(B.*) AS n "
                       "PATTERN (A B* C? D) DEFINE B AS x > PREV(x, 2), D AS y IS NULL")  # fmt: skip
    assert explain(Catalog((STREAM,)), endless).splitlines()[1:] == [
        "MATCH_RECOGNIZE over s, by (g), rows of a part in the order of ts, x DESC, then all columns",
        "pattern (A B* C? D), greedy, after match skip past last row",
        "  A: any row", "  B: (x > PREV(x, 2))", "  C: any row", "  D: (y IS NULL)",
        "  state 0: A -> 1", "  state 1: B -> 2, C -> 3, D -> 4", "  state 2: B -> 2, C -> 3, D -> 4",
        "  state 3: D -> 4", "  state 4: accepts",
        "of each match: first(x, 1) of A, sum(y) of B, count(*) of B",
        "a match is a row of the part in which it is decided: no later row can change it",
        "keeps in v open rows: of each group (g, x, y) of",
        "  the rows from the first on from which a match may still come: grows without bound while B goes on being "
        "satisfied",
        "  the last 2 rows, for PREV: of every group there ever was",
        "late rows: recomputes the touched groups, until their open rows are as before",
    ]  # fmt: skip
    less = matching("ORDER BY ts MEASURES count(*) AS n PATTERN (A{3} B? C)")
    bounded = explain(Catalog((STREAM,)), less).splitlines()[1:]
    assert "  the rows from the first on from which a match may still come: at most 4" in bounded
    assert bounded[0].startswith("MATCH_RECOGNIZE over s, all rows as one partition")

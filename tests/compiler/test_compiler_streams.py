"""Statements about streams and their views: what they are read as, and what is refused, with the place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

import paper_views
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.part_references import place_in_text
from viewkeeper.compiler.source_text import Script
from viewkeeper.compiler.statements import (
    AlterView,
    CreateMatchView,
    CreatePatternView,
    CreateStream,
    CreateView,
    CreateViewDF,
    CreateWindowView,
    Describe,
    Drop,
    ExplainCreateView,
    RebuildView,
    SelectStatement,
    Show,
    Statement,
)
from viewkeeper.compiler.syntax import syntax_tree, tokenize
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.plans.references import Subscript

STREAM = "CREATE STREAM m (ts TIMESTAMP NOT NULL, a INT) TIMESTAMP BY ts PARTITION LENGTH "


def one(sql: str) -> Statement:
    (statement,) = parse_script(sql)
    return statement


def viewdf(update: str, initialize: str = "SELECT a FROM m[i]") -> CreateViewDF:
    statement = one(f"CREATE VIEW v AS INITIALIZE v[i] AS {initialize} UPDATE v[j] AS {update} PARTITION LENGTH 60")
    assert isinstance(statement, CreateViewDF)
    return statement


def aliases(sql: str) -> list[tuple[str, str]]:
    """The tables of a query without part references, and their aliases, in order."""
    source = Script(sql)
    tables = syntax_tree(source, tokenize(source)).find_all(exp.Table)
    return sorted((table.name, table.alias) for table in tables)


def test_create_stream_has_all_its_limits_in_seconds_in_any_order() -> None:
    statement = one(STREAM + "60 EXPIRE AFTER 2 WEEKS HORIZON INTERVAL '1' DAY LATENESS 5 MINUTES IDLE 10 MAX AHEAD 0")
    assert isinstance(statement, CreateStream)
    found = (statement.length, statement.lateness, statement.horizon, statement.idle, statement.ahead, statement.expire)
    assert found == (60, 300, 86_400, 10, 0, 1_209_600)
    assert (statement.time.name, [column.nullable for column in statement.columns]) == ("ts", [False, True])


def test_a_stream_without_limits_has_those_of_the_documentation() -> None:
    statement = one(STREAM + "60")
    assert isinstance(statement, CreateStream)
    assert (statement.lateness, statement.horizon, statement.idle, statement.ahead, statement.expire) == (
        0, None, None, 86_400, None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("length", "seconds"),
    [
        ("1", 1), ("60 seconds", 60), ("1 MINUTE", 60), ("2 HOURS", 7_200), ("3 days", 259_200), ("1 WEEK", 604_800),
        ("INTERVAL 90 SECONDS", 90), ("INTERVAL '90' SECOND", 90), ("INTERVAL '2' HOURS", 7_200),
        ("INTERVAL 1 HOUR 30 MINUTES", 5_400), ("INTERVAL '1 hour 30 minutes'", 5_400),
        ("INTERVAL '1 02:03:04' DAY TO SECOND", 93_784), ("INTERVAL '02:30' HOUR TO MINUTE", 9_000),
        ("INTERVAL '1 02' DAY TO HOUR", 93_600), ("INTERVAL '1:30' MINUTE TO SECOND", 90),
    ],
)  # fmt: skip
def test_lengths_are_whole_seconds_units_or_intervals_of_fixed_length(length: str, seconds: int) -> None:
    statement = one(STREAM + length)
    assert isinstance(statement, CreateStream)
    assert statement.length == seconds


@pytest.mark.parametrize(
    ("length", "message"),
    [
        ("1 MONTH", "a month has no fixed length"), ("INTERVAL 1 YEAR", "a year has no fixed length"),
        ("INTERVAL '1-2' YEAR TO MONTH", "a year has no fixed length"), ("INTERVAL '2 months'", "no fixed length"),
        ("0", "at least 1 second"), ("INTERVAL '-5' MINUTES", "at least 1 second"), ("1.5", "whole seconds"),
        ("INTERVAL '1.5' SECONDS", "not an interval of whole seconds"), ("INTERVAL 5", "expected SECONDS"),
        ("INTERVAL ''", "not an interval"), ("99999999999999", "at most 10,000 years"), ("x", "expected a length"),
        ("INTERVAL '1:2:3' DAY TO SECOND", "not an interval"), ("INTERVAL '1' HOUR TO DAY", "DAY TO SECOND"),
    ],
)  # fmt: skip
def test_lengths_that_are_not_fixed_or_not_whole_are_refused_with_their_place(length: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message) as refused:
        one(STREAM + length)
    assert refused.value.line == 1
    assert refused.value.column is not None and refused.value.column > len(STREAM)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CREATE STREAM m (ts TIMESTAMP NOT NULL PRIMARY KEY) TIMESTAMP BY ts PARTITION LENGTH 60", "has no key"),
        ("CREATE STREAM m (ts TIMESTAMP NOT NULL) PARTITION LENGTH 60", "expected TIMESTAMP"),
        ("CREATE STREAM m (ts TIMESTAMP NOT NULL) TIMESTAMP BY ts", "expected PARTITION"),
        (STREAM + "60 LATENESS 1 LATENESS 2", "LATENESS stands twice"),
        (STREAM + "60 COLOUR 1", "COLOUR is not supported in CREATE STREAM"),
        ("CREATE VIEW v AS INITIALIZE v[i] AS SELECT a FROM m[i] PARTITION LENGTH 60", "needs an UPDATE"),
        ("CREATE VIEW v AS UPDATE v[j] AS SELECT a FROM m[j] PARTITION LENGTH 60",
         r"expected INITIALIZE view\[i\] AS and the query of the first part, before UPDATE \(line 1, column 18\)"),
        ("CREATE VIEW v AS INITIALIZE v[i] AS SELECT a FROM m[i] UPDATE v[j] AS SELECT a FROM m[j]",
         "expected PARTITION LENGTH"),
        ("CREATE VIEW v AS INITIALIZE w[i] AS SELECT 1 UPDATE v[j] AS SELECT 1 PARTITION LENGTH 60",
         "INITIALIZE names w, but the view is v"),
        ("CREATE VIEW v AS INITIALIZE v[i] AS SELECT 1 UPDATE w[j] AS SELECT 1 PARTITION LENGTH 60",
         "UPDATE names w, but the view is v"),
        ("CREATE VIEW v (a) AS INITIALIZE v[i] AS SELECT 1 UPDATE v[j] AS SELECT 1 PARTITION LENGTH 60",
         "names of the columns are those of INITIALIZE"),
        ("CREATE VIEW v AS SELECT a FROM m PATTERN [a, b] WHERE a.x > 1 LIMIT 0 PARTIAL MATCHES", "at least 1"),
        ("CREATE VIEW v AS SELECT a FROM m LIMIT 5 PARTIAL MATCHES", "only a view with PATTERN"),
        ("CREATE VIEW v AS SELECT a FROM m PATTERN [a, a]", "a stands twice in PATTERN"),
        ("CREATE VIEW v AS SELECT a FROM m PATTERN [a, b*]", r"\* is not supported in PATTERN.*MATCH_RECOGNIZE"),
        ("CREATE VIEW v AS SELECT a FROM m PATTERN [a] WINDOW 60 SECONDS", "has one of PATTERN, WINDOW"),
        ("CREATE VIEW v AS SELECT a FROM m [WINDOW 2 MONTHS]", "no fixed length"),
        ("CREATE VIEW v AS SELECT a FROM m[5]", "m cannot have a subscript here; write INITIALIZE"),
        ("SELECT a FROM m PATTERN [a]", "PATTERN stands in CREATE VIEW only"),
        ("SELECT max(a) FROM m WINDOW 60 MINUTES", "WINDOW stands in CREATE VIEW only"),
        ("ALTER VIEW v FROM x AS SELECT 1 FROM t", "a whole number"), ("ALTER VIEW v DROP", "expected REBUILD FROM"),
        ("ALTER STREAM m SET x", "ALTER STREAM is not supported yet"), ("ALTER VIEW v REBUILD", "expected FROM"),
        (f"EXPLAIN {STREAM}60", "only views have a plan"),
    ],
)  # fmt: skip
def test_what_is_no_such_statement_is_refused_by_name_and_place(sql: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message) as refused:
        one(sql)
    assert refused.value.line == 1


def test_small_statements_about_streams_are_read() -> None:
    statements = parse_script("SHOW STREAMS; DROP STREAM IF EXISTS m; DESCRIBE m; ALTER VIEW v REBUILD FROM -17")
    show, drop, describe, rebuild = statements
    assert isinstance(show, Show) and show.kind == "STREAMS"
    assert isinstance(drop, Drop) and (drop.kind, drop.if_exists) == ("STREAM", True)
    assert isinstance(describe, Describe)
    assert isinstance(rebuild, RebuildView) and rebuild.since == -17


def test_the_papers_views_are_read_with_their_slips_mended() -> None:
    views = parse_script(paper_views.STREAMS + paper_views.VIEWS)[2:]
    assert all(isinstance(view, CreateViewDF) for view in views)
    helper = views[0]
    assert isinstance(helper, CreateViewDF)
    new, prev = helper.update.references
    assert (new.target, new.low, prev.target, prev.low) == ("M", Subscript(1, 0), "Helper", Subscript(1, -1))
    assert [alias for _, alias in aliases(helper.update.sql)] == ["Prev", "New"]


def test_a_viewdf_has_its_clauses_and_the_places_of_its_queries() -> None:
    sql = ("CREATE VIEW v AS\nINITIALIZE v[i] AS SELECT a FROM m[i]\nUPDATE VIEW v[k] AS SELECT a FROM m[k] "
           "PARTITION LENGTH 1 HOUR BACKFILL EXPIRE AFTER 3 DAYS")  # fmt: skip
    statement = one(sql)
    assert isinstance(statement, CreateViewDF)
    assert (statement.length, statement.backfill, statement.expire) == (3_600, True, 259_200)
    assert statement.starts == ((2, 20), (3, 21))
    assert statement.update.references[0].place == (3, 35)
    assert statement.update.text == "SELECT a FROM m[k]"


@pytest.mark.parametrize(
    ("written", "low", "high"),
    [
        ("j", (1, 0, 1), None), ("j-1", (1, -1, 1), None), ("j - 5 + 1 .. j", (1, -4, 1), (1, 0, 1)),
        ("j*60-59..j*60", (60, -59, 1), (60, 0, 1)), ("60*j - 59 .. 60 * J", (60, -59, 1), (60, 0, 1)),
        ("j DIV 60", (1, 0, 60), None), ("(j+30) div 60 - 1", (1, -30, 60), None), ("-3", (0, -3, 1), None),
        ("-(3-j)", (1, -3, 1), None), ("(2*j+4) DIV 6", (1, 2, 3), None), ("j - j + 7", (0, 7, 1), None),
        ("j DIV 60 DIV 24", (1, 0, 1440), None), ("0..j", (0, 0, 1), (1, 0, 1)), ("7 DIV 2", (0, 3, 1), None),
        ("-7 DIV 2", (0, -4, 1), None), ("j/* so */-1 -- far\n", (1, -1, 1), None), ("(5..7)", None, None),
        ("2*(j-1)*3+1", (6, -5, 1), None), ("0*(j DIV 3)", (0, 0, 1), None),
    ],
)  # fmt: skip
def test_subscripts_are_linear_in_the_views_variable(
    written: str, low: tuple[int, int, int] | None, high: tuple[int, int, int] | None
) -> None:
    if low is None:
        with pytest.raises(DeclarationError):
            viewdf(f"SELECT a FROM m[{written}]")
        return
    (reference,) = viewdf(f"SELECT a FROM m[{written}]").update.references
    assert (reference.low, reference.high) == (Subscript(*low), Subscript(*(high or low)))


@pytest.mark.parametrize(
    ("written", "message", "column"),
    [
        ("k", "k cannot stand in a subscript; only j can", 0), ("i", "only j can", 0), ("j*j", "j times j", 1),
        ("-j", "falls while j rises", 0), ("2-j", "falls while j rises", 0), ("j/2", "/ cannot stand", 1),
        ("(j DIV 2)*2", "a multiple of a DIV", 9), ("j DIV 0", "DIV takes a constant of at least 1", 2),
        ("j DIV j", "DIV takes a constant", 2), ("j DIV 2 + j", "a sum with a DIV", 8), ("j..j-1", "names no part", 0),
        ("", "expected a subscript", 0), ("j j", "j is out of place", 2), ("j..j..j", r"\.\. is out of place", 4),
        ("1.5", r"\. cannot stand", 1), ("j % 2", "% cannot stand", 2),
        ("99999999999999999999", "a number beyond", 0), ("'j'", "' cannot stand", 0), ("abs(j)", "abs cannot stand", 0),
    ],
)  # fmt: skip
def test_other_subscripts_are_refused_at_their_place(written: str, message: str, column: int) -> None:
    head = "CREATE VIEW v AS INITIALIZE v[i] AS SELECT a FROM m[i] UPDATE v[j] AS SELECT a FROM m["
    with pytest.raises(DeclarationError, match=message) as refused:
        one(f"{head}{written}] PARTITION LENGTH 60")
    assert (refused.value.line, refused.value.column) == (1, len(head) + column + 1)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT New.a FROM m[j] AS New", ["New"]), ("SELECT a FROM m[j]", ["m"]), ("SELECT a FROM m[j] x", ["x"]),
        ("SELECT p.a FROM m[j] AS p JOIN m[j-1] q USING (a)", ["p", "q"]),
        ("SELECT 1 FROM m[j] `a b`, n[j-3..j] AS `c``d`", ["a b", "c`d"]),
        ("SELECT 1 FROM (m[j] AS p NATURAL JOIN `m`[j - 1] q)", ["p", "q"]),
        ("WITH c AS (SELECT a FROM m[j] x) SELECT c.a, d.a FROM c JOIN c AS d USING (a) JOIN n[j] y USING (a)",
         ["x", "y"]),
        ("SELECT arr[0], mp['x..y'], f[idx[1]] FROM m[j] AS p WHERE b = 'm[j] AS z' AND /* m[3] */ c[1][2] > 0", ["p"]),
        ("FROM m[j] AS p SELECT p.a", ["p"]), ("SELECT a FROM m[j] p UNION ALL SELECT a FROM m[j-1] q", ["p", "q"]),
        ("SELECT a FROM m[j] p WHERE EXISTS (SELECT 1 FROM n[j] q WHERE q.a = p.a)", ["p", "q"]),
        ("SELECT a FROM m[j] p LATERAL VIEW explode(p.arr) t AS e WHERE a IN (SELECT a FROM n[j] AS q)", ["p", "q"]),
        ("SELECT a FROM m[j] ANTI JOIN n[j] q ON m.a = q.a", ["m", "q"]),
        ("SELECT a FROM m[j] p LEFT SEMI JOIN n[j] ON p.a = n.a", ["p", "n"]),
        ("SELECT a FROM m[j] MINUS SELECT a FROM n[j] q", ["m", "q"]), ("SELECT a FROM m[j] AS p(a, b)", ["p"]),
        ("SELECT a FROM m[j], LATERAL (SELECT m.a + 1 AS b) q", ["m"]), ("SELECT a FROM m[j]\nWHERE a > 1", ["m"]),
    ],
)  # fmt: skip
def test_every_alias_survives_and_nothing_else_is_taken_for_a_reference(query: str, expected: list[str]) -> None:
    part_query = viewdf(query).update
    names = {reference.name for reference in part_query.references}
    assert len(names) == len(part_query.references)
    assert sorted(alias for name, alias in aliases(part_query.sql) if name in names) == sorted(expected)


def test_tables_without_a_subscript_are_references_too_but_queries_of_with_are_not() -> None:
    query = viewdf("WITH c AS (SELECT * FROM dims) SELECT c.a FROM m[j] JOIN c USING (a) JOIN dims AS d ON d.a = m.a")
    found = [(r.target, r.low is None) for r in query.update.references]
    assert found == [("dims", True), ("m", False), ("dims", True)]
    hidden = viewdf("WITH c AS (SELECT a FROM c) SELECT c.a FROM m[j], c").update.references
    assert [(r.target, r.low is None) for r in hidden] == [("c", True), ("m", False)]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT a FROM m[j] LEFT JOIN v[j-1] p", "an outer join needs a condition"),
        ("SELECT a FROM m[j] FULL OUTER JOIN v[j-1] p", "an outer join needs a condition"),
        ("SELECT rand() FROM m[j]", "rand gives another value each time"),
        ("SELECT current_timestamp FROM m[j]", "current_timestamp gives another value"),
        ("SELECT a FROM m[j] TABLESAMPLE (10 PERCENT)", "TABLESAMPLE gives other rows"),
        ("SELECT b[1..2] FROM m[j]", "stands in FROM only, and b does not"),
        ("WITH c AS (SELECT 1) SELECT * FROM c[j]", "a query of WITH and has no parts"),
        ("SELECT a FROM d.m[j]", "a name has one part only"), ("SELECT a FROM m[j] VERSION AS OF 1", "leave out AS OF"),
        ("SELECT a FROM m[j WHERE b > 1", "not SQL"), ("SELECT FROM WHERE", "not SQL"),
    ],
)  # fmt: skip
def test_queries_that_no_part_could_be_made_of_are_refused(query: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message) as refused:
        viewdf(query)
    assert refused.value.line == 1


@pytest.mark.parametrize("condition", ["ON true", "USING (a)", "ON p.a = m.a"])
def test_an_outer_join_with_any_condition_is_admitted(condition: str) -> None:
    assert viewdf(f"SELECT a FROM m[j] LEFT JOIN v[j-1] p {condition}").update.references
    assert viewdf("SELECT a FROM m[j] NATURAL LEFT JOIN v[j-1] p").update.references


def test_a_pattern_view_is_its_query_without_the_pattern_and_places_stay() -> None:
    sql = ("CREATE VIEW View1 AS\nSELECT src, count(*) AS ct FROM M PATTERN [a, b, c, d+]\nWHERE a.loss>10 GROUP BY "
           "src LIMIT 100 PARTIAL MATCHES EXPIRE AFTER 5 DAYS")  # fmt: skip
    statement = one(sql)
    assert isinstance(statement, CreatePatternView)
    assert [(name.name, plus) for name, plus in statement.variables] == [
        ("a", False), ("b", False), ("c", False), ("d", True),
    ]  # fmt: skip
    assert (statement.limit, statement.expire) == (100, 432_000)
    sql = " ".join(statement.query.sql.split())
    assert sql == "SELECT src, count(*) AS ct FROM M WHERE a.loss>10 GROUP BY src"
    where = statement.query.tree.args["where"].this
    assert statement.query.error("here", where).column == 7
    assert statement.query.error("here", where).line == 3


@pytest.mark.parametrize(
    "window", ["[WINDOW 60 MINUTES]", "WINDOW 60 MINUTES", "[WINDOW INTERVAL '1' HOUR]", "WINDOW INTERVAL 1 HOUR",
               "[ WINDOW 3600 ]", "window 3600 seconds"],
)  # fmt: skip
def test_a_window_view_is_its_query_without_the_window_with_or_without_brackets(window: str) -> None:
    statement = one(f"CREATE VIEW w (g, m) AS SELECT g, max(a) FROM s AS x {window} JOIN d ON d.g = x.g GROUP BY g")
    assert isinstance(statement, CreateWindowView)
    assert statement.window == 3_600
    assert [table.name for table in statement.query.tree.find_all(exp.Table)] == ["s", "d"]
    assert [column.name for column in statement.columns] == ["g", "m"]


def test_a_stream_may_be_called_pattern_or_window() -> None:
    statement = viewdf("SELECT a FROM pattern[j], `window`[j]")
    assert [reference.target for reference in statement.update.references] == ["pattern", "window"]


def test_match_recognize_is_read_whole() -> None:
    statement = one(
        "CREATE VIEW w AS SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY a ORDER BY ts MEASURES A.x AS ax "
        "ONE ROW PER MATCH PATTERN (A B+ C?) DEFINE B AS B.x > PREV(B.x)) WHERE ax > 1 EXPIRE AFTER 60"
    )
    assert isinstance(statement, CreateMatchView)
    assert statement.expire == 60
    assert statement.query.tree.find(exp.MatchRecognize) is not None
    assert statement.query.sql.endswith("WHERE ax > 1")


def test_alter_view_holds_a_definition_that_can_be_read_again() -> None:
    viewdf_ = "INITIALIZE v[i] AS SELECT a FROM m[i] UPDATE v[j] AS SELECT a FROM m[j] PARTITION LENGTH 60"
    for since, definition, kind in (
        (" FROM -5", viewdf_, CreateViewDF), ("", "SELECT a FROM m EXPIRE AFTER 5", CreateView),
        ("", "SELECT g, max(a) FROM m [WINDOW 60 SECONDS] GROUP BY g", CreateWindowView),
        (" FROM 7", "SELECT g FROM m PATTERN [x, y+] GROUP BY g", CreatePatternView),
    ):  # fmt: skip
        altered = one(f"ALTER VIEW `v`{since} AS {definition}")
        assert isinstance(altered, AlterView)
        assert isinstance(altered.view, kind)
        assert altered.since == (int(since.split()[1]) if since else None)
        again = one(altered.view.text)
        assert isinstance(again, kind)
        assert again.name.name == "v"


def test_explain_create_view_takes_every_kind_of_view() -> None:
    for definition, kind in (
        ("SELECT a FROM m EXPIRE AFTER 5", CreateView), ("SELECT a FROM m PATTERN [x]", CreatePatternView),
        ("INITIALIZE v[i] AS SELECT a FROM m[i] UPDATE v[j] AS SELECT a FROM m[j] PARTITION LENGTH 60", CreateViewDF),
    ):  # fmt: skip
        statement = one(f"EXPLAIN CREATE VIEW v AS {definition}")
        assert isinstance(statement, ExplainCreateView)
        assert isinstance(statement.view, kind)
        assert statement.view.text.startswith("CREATE VIEW v AS")


def test_a_select_with_constant_subscripts_has_its_parts() -> None:
    statement = one("SELECT a, t.b FROM t[5..9] JOIN t[-4] AS u ON t.a=u.a JOIN d ON d.x = t.x")
    assert isinstance(statement, SelectStatement) and statement.parts is not None
    assert [(r.target, r.low, r.high) for r in statement.parts.references] == [
        ("t", Subscript(0, 5), Subscript(0, 9)), ("t", Subscript(0, -4), Subscript(0, -4)),
    ]  # fmt: skip
    tables = {table.alias_or_name: table.name for table in statement.query.tree.find_all(exp.Table)}
    first, second = (reference.name for reference in statement.parts.references)
    assert tables == {"t": first, "u": second, "d": "d"}


def test_a_select_without_subscripts_has_no_parts_and_arrays_are_still_refused() -> None:
    statement = one("SELECT a FROM t")
    assert isinstance(statement, SelectStatement) and statement.parts is None
    with pytest.raises(NotSupported, match="arrays are not"):
        one("SELECT [a] FROM t[5]")
    with pytest.raises(DeclarationError, match="j cannot stand in a subscript; only constants can"):
        one("SELECT a FROM t[j]")


NAMES = st.sampled_from(["m", "N", "`odd name`", "dims", "v"])


SUBSCRIPTS = st.sampled_from(["", "[j]", "[j-1]", "[ j - 3 .. j ]", "[\nj]"])
ALIASES = st.sampled_from(["", " x{0}", " AS x{0}", " AS `y {0}`"])


@settings(deadline=None)
@given(st.lists(st.tuples(NAMES, SUBSCRIPTS, ALIASES), min_size=1, max_size=5))
def test_any_from_keeps_each_name_with_its_alias_in_order(items: list[tuple[str, str, str]]) -> None:
    """Whatever stands in FROM, the query with plain names has the same items with the same aliases."""
    written = ", ".join(f"{name}{subscript}{alias.format(i)}" for i, (name, subscript, alias) in enumerate(items))
    query = viewdf(f"SELECT 1 FROM {written} WHERE arr[0] > 1").update
    assert [reference.target for reference in query.references] == [name.strip("`") for name, _, _ in items]
    found = dict(aliases(query.sql))
    for i, ((name, _, alias), reference) in enumerate(zip(items, query.references, strict=True)):
        shown = alias.format(i).replace(" AS ", "").strip(" `") if alias else name.strip("`")
        assert found[reference.name] == shown
    assert query.sql.count("\n") == query.text.count("\n")


@settings(deadline=None)
@given(st.data())
def test_places_in_the_query_for_spark_are_places_of_the_text(data: st.DataObject) -> None:
    """A word of the user's that stands in `sql` is found again in the script, whatever was put before it."""
    text = "SELECT q1, q2 FROM m[j] AS q3 JOIN\n  m[j - 1\n..j] ON q4 = 5 JOIN dims\nUSING (q5) WHERE q6 > 1"
    head = data.draw(st.sampled_from(["", "\n\n  ", "  "]))
    script = f"CREATE VIEW v AS INITIALIZE v[i] AS SELECT a FROM m[i] {head}UPDATE v[j] AS {text} PARTITION LENGTH 60"
    statement = one(script)
    assert isinstance(statement, CreateViewDF)
    query, source = statement.update, Script(script)
    for word in ("q1", "q2", "q3", "q4", "q5", "q6"):
        place = Script(query.sql).place(query.sql.index(word))
        assert place_in_text(query, place, statement.starts[1]) == source.place(script.index(word))

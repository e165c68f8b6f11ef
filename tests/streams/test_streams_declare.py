"""Streams and the views over them, declared, altered and dropped; who asks Spark is played by DuckDB."""

from __future__ import annotations

from dataclasses import replace

import pytest

import paper_views
from compiler_catalog import catalog_of
from stream_database import DuckAnalyst
from viewkeeper.catalog.codec import dumps, loads
from viewkeeper.catalog.model import Catalog, Column, HelperParts, HelperPlan, PartView
from viewkeeper.catalog.types import BIGINT, DATE, DOUBLE, INT, STRING, TIMESTAMP, VOID, Type, decimal
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.parse_streams import AnyView
from viewkeeper.compiler.statements import AlterView, CreateStream, Drop, RebuildView, Statement
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.plans.inputs import inputs
from viewkeeper.plans.viewdf import PlainPlan
from viewkeeper.streams.alter import Altered, alter_view, drop, rebuild_view, users_of_dimension
from viewkeeper.streams.analyst import Analyst, LazyAnalyst
from viewkeeper.streams.declare_streams import Known, Nothing, declare_stream, declare_view
from viewkeeper.streams.explain import explain

TABLES = "CREATE TABLE dims (src STRING PRIMARY KEY, site STRING);"
CORE = catalog_of(TABLES)


class Asked:
    """Answers what it is told, one answer a question; the last one is repeated."""

    def __init__(self, *answers: tuple[Column, ...] | DeclarationError) -> None:
        self.answers = list(answers)
        self.questions: list[str] = []

    def columns(self, sql: str, tables: object, *more: object) -> tuple[Column, ...]:
        self.questions.append(sql)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, DeclarationError):
            raise answer
        return answer


class Parts:
    """Each object has parts `oldest` to `newest`, by the object's place among those with parts."""

    def __init__(self, catalog: Catalog, **parts: tuple[int, int]) -> None:
        self._parts = {item.id: parts[item.name] for item in catalog.in_parts if item.name in parts}

    def oldest(self, id_: int) -> int | None:
        return self._parts[id_][0] if id_ in self._parts else None

    def newest(self, id_: int) -> int | None:
        return self._parts[id_][1] if id_ in self._parts else None

    def failing(self, id_: int) -> int | None:
        return None

    lost = carried = failing


def declared(
    script: str, catalog: Catalog = CORE, analyst: Analyst | None = None, known: Known | None = None
) -> Catalog:
    for statement in parse_script(script):
        catalog = step(catalog, statement, analyst or DuckAnalyst(), known or Nothing())
    return catalog


def step(catalog: Catalog, statement: Statement, analyst: Analyst, known: Known) -> Catalog:
    if isinstance(statement, CreateStream):
        return declare_stream(catalog, statement)
    if isinstance(statement, Drop):
        return drop(catalog, statement)[0]
    assert isinstance(statement, AnyView)
    return declare_view(catalog, statement, analyst, known)


def altered(catalog: Catalog, script: str, analyst: Analyst | None = None, known: Known | None = None) -> Altered:
    (statement,) = parse_script(script)
    if isinstance(statement, RebuildView):
        return rebuild_view(catalog, statement, known or Nothing())
    assert isinstance(statement, AlterView)
    return alter_view(catalog, statement, analyst or DuckAnalyst(), known or Nothing())


def view(catalog: Catalog, name: str) -> PartView:
    found = catalog.find(name)
    assert isinstance(found, PartView)
    return found


STREAMS = declared(paper_views.STREAMS)


def viewdf(update: str, initialize: str = "SELECT loss FROM M[i]", length: str = "60") -> str:
    return f"CREATE VIEW v AS INITIALIZE v[i] AS {initialize} UPDATE v[j] AS {update} PARTITION LENGTH {length}"


def test_the_papers_views_bind_and_are_stored_and_read_again() -> None:
    catalog = declared(paper_views.VIEWS, STREAMS)
    assert [v.name for v in catalog.part_views] == [
        "Helper", "View2", "View3", "J", "States", "View4", "Greatest", "View5", "Sums", "View6",
    ]  # fmt: skip
    assert loads(dumps(catalog)) == catalog
    assert all(loads(dumps(v)).plan == v.plan for v in catalog.part_views)
    helper = view(catalog, "helper")
    assert [(column.name, column.type) for column in helper.columns] == [
        ("src", STRING), ("dest", STRING), ("ct", INT), ("sum_loss", INT),
    ]  # fmt: skip
    own = [each for each in inputs(helper) if each.object == helper.id]
    assert [each.low.at(10) for each in own] == [9]
    assert helper.reads == (STREAMS.streams[0].id,)
    assert view(catalog, "View6").reads == (view(catalog, "Sums").id,)
    assert parse_script(helper.sql)[0].text == helper.sql


def test_a_stream_has_its_time_column_and_limits() -> None:
    catalog = declared("CREATE STREAM s (a INT, t TIMESTAMP_NTZ NOT NULL) TIMESTAMP BY T PARTITION LENGTH 5 HORIZON 9")
    (stream,) = catalog.streams
    assert (stream.time, stream.length, stream.horizon, stream.columns[0]) == (1, 5, 9, Column("a", INT, True))


@pytest.mark.parametrize(
    ("columns", "by", "message"),
    [
        ("ts TIMESTAMP, a INT", "ts", "ts must be TIMESTAMP NOT NULL"), ("ts DATE NOT NULL", "ts", "ts must be TIME"),
        ("ts TIMESTAMP NOT NULL", "tss", "no column tss"), ("a INT, A INT, ts TIMESTAMP NOT NULL", "ts", "two columns"),
        ("ts TIMESTAMP NOT NULL, part_timestamp INT", "ts", "part_timestamp is the name of a hidden column"),
        ("ts TIMESTAMP NOT NULL, `__part` INT", "ts", "__part is the name of a hidden column"),
    ],
)  # fmt: skip
def test_streams_that_cannot_be_cut_by_time_are_refused(columns: str, by: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message + r".*line 1, column"):
        declared(f"CREATE STREAM s ({columns}) TIMESTAMP BY {by} PARTITION LENGTH 60")


@pytest.mark.parametrize(
    "script",
    [
        "CREATE STREAM DIMS (ts TIMESTAMP NOT NULL) TIMESTAMP BY ts PARTITION LENGTH 60",
        "CREATE STREAM m (ts TIMESTAMP NOT NULL) TIMESTAMP BY ts PARTITION LENGTH 60",
        "CREATE VIEW Dims AS SELECT loss FROM m", "CREATE VIEW n AS SELECT loss FROM m",
        "CREATE VIEW p AS SELECT loss FROM m; CREATE VIEW P AS SELECT loss FROM m",
    ],
)  # fmt: skip
def test_a_name_is_given_once_across_tables_views_and_streams(script: str) -> None:
    with pytest.raises(DeclarationError, match="there is a (table|stream|view) .* already"):
        declared(script, STREAMS)


def test_the_names_of_hidden_helpers_are_taken_and_they_cannot_be_read() -> None:
    catalog = declared("CREATE VIEW p AS SELECT loss FROM m", STREAMS)
    helper = replace(
        view(catalog, "p"), id=99, name="p helper", plan=HelperPlan(), helpers=(HelperParts(98, "rows", ()),)
    )
    catalog = catalog.adding(helper)
    for name in ("`P helper`", "rows"):
        with pytest.raises(DeclarationError, match="helper of a view"):
            declared(f"CREATE VIEW {name} AS SELECT loss FROM m", catalog)
    with pytest.raises(DeclarationError, match="there is no stream, view or table p helper"):
        declared(viewdf("SELECT loss FROM `p helper`[j]"), catalog)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (viewdf("SELECT loss FROM M[j+1]"), "M ends after the part of v.*future"),
        (viewdf("SELECT loss FROM M[j..j+1]"), "future"), (viewdf("SELECT loss FROM M[j*2]"), "future"),
        (viewdf("SELECT loss FROM M[j*60+60]", length="3600"), "future.*60 seconds, v of 3600"),
        (viewdf("SELECT loss FROM M[j]", "SELECT loss FROM M[i+1]"), "future"),
        (viewdf("SELECT loss FROM M[j], v[j] x"), r"earlier parts of it only, such as \[j-1\]"),
        (viewdf("SELECT loss FROM M[j], v[j-3..j] x"), "earlier parts"),
        (viewdf("SELECT 1 FROM M[j], v[2*j-9] x"), "earlier parts"),
        (viewdf("SELECT loss FROM M[j]", "SELECT M.loss FROM M[i], v[i-1] x"), "INITIALIZE makes the first part of v"),
        (viewdf("SELECT loss FROM M"), r"M is cut into parts; say which ones are meant, such as M\[j\]"),
        (viewdf("SELECT loss FROM M[j], v"), "v is cut into parts"),
        (viewdf("SELECT loss FROM M[j], dims[j]"), "dims is a table and has no parts; leave out the brackets"),
        (viewdf("SELECT loss FROM M[j] JOIN dimz USING (src)"), "there is no stream, view or table dimz.*dims"),
        (viewdf("SELECT loss FROM v[j-1]"), "UPDATE must name a part of a stream"),
        (viewdf("SELECT loss FROM M[7]"), "UPDATE must name a part of a stream"),
        (viewdf("SELECT loss FROM M[j]", "SELECT 1 AS loss"), "INITIALIZE must name a part of a stream"),
        (viewdf("SELECT loss, src FROM M[j]"), "INITIALIZE gives 1 columns, and UPDATE 2"),
        (viewdf("SELECT loss FROM M[j]", "SELECT loss, loss AS LOSS FROM M[i]"), "two columns are called"),
        (viewdf("SELECT loss FROM M[j]", "SELECT loss AS part_timestamp FROM M[i]"), "hidden column"),
    ],
)  # fmt: skip
def test_viewdfs_that_no_part_can_be_made_of_are_refused_with_name_and_place(script: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message + r".*line 1, column"):
        declared(script, STREAMS)


@pytest.mark.parametrize(
    ("update", "length"),
    [
        ("SELECT loss FROM M[j*60..j*60+59]", "3600"), ("SELECT loss FROM M[(j*90) DIV 60 .. (j*90+29) DIV 60]", "90"),
        ("SELECT loss FROM M[(j*3) DIV 2]", "90"), ("SELECT loss FROM M[j DIV 2 - 1]", "30"),
        ("SELECT M.loss FROM M[j] LEFT JOIN v[j-2..j-1] x ON true LEFT JOIN v[j DIV 3] y ON true", "60"),
        ("SELECT M.loss FROM M[j], M[3] x", "60"), ("SELECT loss FROM M[0..j]", "60"),
    ],
)  # fmt: skip
def test_lengths_need_not_divide_and_the_past_may_be_named_in_any_way(update: str, length: str) -> None:
    initialize = update.split(" LEFT JOIN")[0].replace("[j", "[i").replace("j*", "i*").replace("..j", "..i")
    initialize = initialize.replace(" j*", " i*").replace("(j", "(i")
    made = view(declared(viewdf(update, initialize, length), STREAMS), "v")
    assert made.length == int(length)


def columns(*types: Type, nullable: bool = False) -> tuple[Column, ...]:
    return tuple(Column(f"c{i}", type_, nullable) for i, type_ in enumerate(types))


def test_types_are_the_wider_ones_of_both_queries_and_names_those_of_initialize() -> None:
    given = columns(INT, BIGINT, decimal(10, 2), DATE, VOID)
    made = tuple(Column("x", column.type, True) for column in columns(BIGINT, DOUBLE, decimal(8, 4), TIMESTAMP, STRING))
    found = view(declared(viewdf("SELECT loss FROM M[j]"), STREAMS, Asked(given, made)), "v").columns
    assert found == columns(BIGINT, DOUBLE, decimal(12, 4), TIMESTAMP, STRING, nullable=True)


@pytest.mark.parametrize(
    ("first", "later", "message"),
    [
        (STRING, INT, "STRING in INITIALIZE and INT in UPDATE, and no type holds both"),
        (DATE, INT, "no type holds both"), (decimal(38, 0), decimal(38, 10), "no type holds both"),
        (VOID, VOID, "always NULL and has no type"),
    ],
)  # fmt: skip
def test_types_that_nothing_holds_are_refused_with_both(first: Type, later: Type, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        declared(viewdf("SELECT loss FROM M[j]"), STREAMS, Asked(columns(first), columns(later)))


def test_update_is_asked_again_with_the_wider_types_until_they_stay() -> None:
    answers = Asked(columns(INT), columns(BIGINT), columns(DOUBLE), columns(DOUBLE))
    catalog = declared(viewdf("SELECT x.loss * 2 FROM M[j], v[j-1] x"), STREAMS, answers)
    assert view(catalog, "v").columns == columns(DOUBLE)
    assert len(answers.questions) == 4


def test_a_decimal_sum_of_the_views_own_column_gains_digits_once() -> None:
    answers = Asked(columns(decimal(10, 2)), columns(decimal(11, 2)), columns(decimal(12, 2)))
    made = view(declared(viewdf("SELECT x.loss + 1 FROM M[j], v[j-1] x"), STREAMS, answers), "v")
    assert made.columns == columns(decimal(11, 2))


def test_spark_is_asked_once_about_each_query_that_does_not_read_the_views_own_columns() -> None:
    answers = Asked(columns(INT), columns(BIGINT))
    declared(viewdf("SELECT loss * 2 FROM M[j]"), STREAMS, answers)
    assert len(answers.questions) == 2


def test_a_type_that_changes_each_time_is_refused() -> None:
    answers = Asked(*(columns(decimal(10 + i, i)) for i in range(8)))
    with pytest.raises(DeclarationError, match="another type each time.*CAST"):
        declared(viewdf("SELECT x.loss * 1.0 FROM M[j], v[j-1] x"), STREAMS, answers)


def test_what_spark_refuses_is_named_in_the_users_words_and_place() -> None:
    script = "CREATE VIEW v AS INITIALIZE v[i] AS SELECT loss FROM M[i]\nUPDATE v[j] AS SELECT loss,\n oops FROM M[j]"
    sql = "SELECT loss,\n oops FROM `M__1` AS `M`"
    place = sql.split("\n")[1].index("oops") + 1
    refusal = DeclarationError("there is no column oops in M__1", 2, place)
    with pytest.raises(DeclarationError) as refused:
        declared(script + " PARTITION LENGTH 60", STREAMS, Asked(columns(INT), refusal))
    assert str(refused.value) == "there is no column oops in M (line 3, column 2)"


def test_spark_is_not_asked_before_a_viewdf_is_declared() -> None:
    made: list[Asked] = []

    def make() -> Analyst:
        made.append(Asked(columns(INT)))
        return made[-1]

    lazy = LazyAnalyst(make)
    declared("CREATE VIEW p AS SELECT loss FROM M", STREAMS, lazy)
    assert made == []
    declared(viewdf("SELECT loss FROM M[j]"), STREAMS, lazy)
    assert len(made) == 1


@pytest.mark.parametrize(
    ("script", "parts", "first"),
    [
        (viewdf("SELECT loss FROM M[j]"), {"M": (100, 239)}, 239), (viewdf("SELECT loss FROM M[j]"), {}, None),
        (viewdf("SELECT loss FROM M[j]", "SELECT M.loss FROM M[i], N[i]"), {"M": (100, 239), "N": (100, 200)}, 200),
        (viewdf("SELECT loss FROM M[j]", "SELECT M.loss FROM M[i], N[i]"), {"M": (100, 239)}, None),
        (viewdf("SELECT loss FROM M[j]", "SELECT loss FROM M[i-199..i]"), {"M": (100, 239)}, 299),
        (viewdf("SELECT loss FROM M[j*60]", "SELECT loss FROM M[i*60-59..i*60]", "3600"), {"M": (0, 239)}, 3),
        (viewdf("SELECT loss FROM M[j*60]", "SELECT loss FROM M[i*60-59..i*60]", "3600"), {"M": (200, 239)}, 5),
        (viewdf("SELECT loss FROM M[j*60]", "SELECT loss FROM M[i*60]", "3600"), {"M": (-300, -61)}, -2),
        (viewdf("SELECT loss FROM M[j]") + " BACKFILL", {"M": (100, 239)}, None),
    ],
)  # fmt: skip
def test_the_initial_subscript_is_fixed_when_every_source_has_a_part(
    script: str, parts: dict[str, tuple[int, int]], first: int | None
) -> None:
    made = view(declared(script, STREAMS, known=Parts(STREAMS, **parts)), "v")
    assert made.first == first
    assert made.fills == script.endswith("BACKFILL")


@pytest.mark.parametrize(
    ("query", "message", "place"),
    [
        ("SELECT src, max(loss) AS x\nFROM M [WINDOW 90 SECONDS] GROUP BY src", "no whole number of parts", (2, 8)),
        ("SELECT\n/*+ STRATEGY(fast) */ src, max(loss) AS x FROM M [WINDOW 60 SECONDS] GROUP BY src",
         "there is no such strategy; there is merge", (2, 1)),
        ("SELECT /*+ STRATEGY(a, b) */ src, max(loss) AS x FROM M [WINDOW 60 SECONDS] GROUP BY src",
         "the only hint here is one", (1, 25)),
    ],
)  # fmt: skip
def test_mistakes_of_a_window_view_are_shown_where_they_stand(query: str, message: str, place: tuple[int, int]) -> None:
    with pytest.raises(DeclarationError, match=message) as refused:
        declared(f"CREATE VIEW v AS {query}", STREAMS)
    assert (refused.value.line, refused.value.column) == place


def test_a_plain_view_is_its_query_over_one_part() -> None:
    catalog = declared("CREATE VIEW p (s, site, at) AS SELECT x.src, d.site, x.PART_TIMESTAMP FROM M AS x JOIN dims d "
                       "ON x.src = d.src WHERE x.loss > 5 EXPIRE AFTER 3 DAYS", STREAMS)  # fmt: skip
    plain = view(catalog, "p")
    assert (plain.kind, plain.fills, plain.first, plain.length, plain.expire) == ("plain", True, None, 60, 259_200)
    assert [column.name for column in plain.columns] == ["s", "site", "at"]
    assert [column.type for column in plain.columns] == [STRING, STRING, TIMESTAMP]
    assert plain.reads == (STREAMS.streams[0].id,)
    assert plain.dimensions == (CORE.tables[0].id,)
    assert isinstance(plain.plan, PlainPlan)
    assert plain.plan.initialize == plain.plan.update
    (part,) = plain.plan.update.parts
    assert (part.low.at(7), part.high.at(7)) == (7, 7)
    assert plain.plan.update.timed == (part.name,)
    over = view(declared("CREATE VIEW q AS SELECT * FROM p", catalog), "q")
    assert [column.name for column in over.columns] == ["s", "site", "at"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT count(*) AS n FROM M", "aggregate over M.*WINDOW 60 MINUTES.*PATTERN.*INITIALIZE"),
        ("SELECT src, max(loss) AS x FROM M GROUP BY src", "aggregate over M.*WINDOW"),
        ("SELECT M.src FROM M JOIN N ON M.src = N.src", "M and N both have parts; a join of them must say which"),
        ("SELECT a.src FROM M a JOIN M b ON a.src = b.src", "both have parts"),
        ("SELECT nothing FROM M", "there is no column nothing"),
        ("SELECT loss AS part_timestamp FROM M", "hidden column"),
    ],
)  # fmt: skip
def test_plain_views_that_must_say_more_are_refused_with_the_choices(query: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message + ".*line 1, column"):
        declared(f"CREATE VIEW p AS {query}", STREAMS)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT src, max(loss) AS x FROM dims [WINDOW 60 SECONDS] GROUP BY src", "dims is not cut into parts"),
        ("SELECT src FROM nix PATTERN [a] GROUP BY src", "there is no stream or view nix"),
        ("SELECT src, max(loss) AS x FROM M [WINDOW 60 SECONDS] JOIN N ON M.src = N.src GROUP BY src",
         "one stream, or view over one, can stand in FROM"),
    ],
)  # fmt: skip
def test_windows_and_patterns_need_one_stream(query: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message + ".*line 1, column"):
        declared(f"CREATE VIEW w AS {query}", STREAMS)


def test_what_is_used_cannot_be_dropped_and_the_users_are_named() -> None:
    catalog = declared(paper_views.HELPER + paper_views.VIEW2 + "CREATE VIEW p AS SELECT site FROM M JOIN dims ON "
                       "M.src = dims.src", STREAMS)  # fmt: skip
    with pytest.raises(DeclarationError, match="M is used by Helper, p; drop what uses it first"):
        declared("DROP STREAM m", catalog)
    with pytest.raises(DeclarationError, match="Helper is used by View2"):
        declared("DROP VIEW Helper", catalog)
    with pytest.raises(DeclarationError, match="M is a stream; use DROP STREAM M"):
        declared("DROP VIEW M", catalog)
    assert users_of_dimension(catalog, CORE.tables[0].id) == ["p"]
    emptied = declared("DROP VIEW view2; DROP VIEW helper; DROP VIEW p; DROP STREAM m", catalog)
    assert ([each.name for each in emptied.streams], emptied.part_views) == (["N"], ())
    assert emptied.next_id == catalog.next_id


def test_helpers_go_with_the_last_view_that_needs_them() -> None:
    catalog = declared("CREATE VIEW a AS SELECT loss FROM M", STREAMS)
    helper = replace(view(catalog, "a"), id=97, name="h", plan=HelperPlan())
    users = [replace(view(catalog, "a"), id=98 + i, name=name, reads=(97,)) for i, name in enumerate(("x", "y"))]
    catalog = catalog.without([each.id for each in catalog.part_views]).adding(helper, *users)
    with pytest.raises(DeclarationError, match="h is a hidden helper of x, y"):
        declared("DROP VIEW h", catalog)
    with pytest.raises(DeclarationError, match="M is used by x, y"):
        declared("DROP STREAM M", catalog)
    one_less = declared("DROP VIEW x", catalog)
    assert [each.name for each in one_less.part_views] == ["h", "y"]
    assert declared("DROP VIEW y", one_less).part_views == ()


NEW = "INITIALIZE v[i] AS SELECT loss FROM N[i] UPDATE v[j] AS SELECT loss FROM N[j] PARTITION LENGTH 60"


def altering() -> Catalog:
    script = ("CREATE STREAM M (ts TIMESTAMP NOT NULL, loss INT) TIMESTAMP BY ts PARTITION LENGTH 60;"
              "CREATE STREAM N (ts TIMESTAMP NOT NULL, loss INT) TIMESTAMP BY ts PARTITION LENGTH 60;")  # fmt: skip
    return declared(script + viewdf("SELECT loss FROM M[j]"))


def test_an_altered_view_keeps_its_old_queries_for_older_parts() -> None:
    catalog = altering()
    known = Parts(catalog, v=(100, 239))
    result = altered(catalog, f"ALTER VIEW v FROM 200 AS {NEW}", known=known)
    old, new = view(catalog, "v"), view(result.catalog, "v")
    assert result.redo == {old.id: 200}
    assert (new.id, new.columns, new.first) == (old.id, old.columns, old.first)
    assert new.plan.query(199, 100) == old.plan.update
    assert new.plan.query(100, 100) == old.plan.initialize
    assert new.plan.query(200, 100).parts[0].object == catalog.streams[1].id
    assert set(new.reads) == {stream.id for stream in catalog.streams}
    again = altered(result.catalog, f"ALTER VIEW v AS {NEW}", known=known)
    assert again.redo == {}
    assert [each.until for each in view(again.catalog, "v").plan.earlier] == [200, 240]
    whole = altered(again.catalog, f"ALTER VIEW v FROM 0 AS {NEW}", known=known)
    assert whole.redo == {old.id: 0}
    assert view(whole.catalog, "v").plan.earlier == ()
    assert view(whole.catalog, "v").reads == (catalog.streams[1].id,)


def test_a_view_without_parts_is_altered_in_every_way() -> None:
    result = altered(altering(), "ALTER VIEW v AS SELECT loss AS other, ts FROM N EXPIRE AFTER 60")
    assert result.redo == {}
    assert [column.name for column in view(result.catalog, "v").columns] == ["other", "ts"]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (f"ALTER VIEW v AS {NEW.replace('60', '120')}", "parts of v are 60 seconds long"),
        ("ALTER VIEW v AS SELECT loss AS l FROM N", "loss INT of v would become l INT"),
        ("ALTER VIEW v AS SELECT loss, ts FROM N", "v has 1 columns, and its new definition 2"),
        ("ALTER VIEW v AS SELECT site FROM dims", "its new query reads no stream"),
        ("ALTER VIEW M AS SELECT loss FROM N", "M is a stream"), ("ALTER VIEW w AS SELECT loss FROM N", "no view w"),
        ("ALTER VIEW dims AS SELECT loss FROM N", "dims is not kept part by part"),
        ("ALTER VIEW v AS SELECT loss FROM w", "w is made of v, so v cannot be made of w"),
        ("ALTER VIEW v REBUILD FROM 240", "parts up to 239 only"), ("ALTER VIEW w REBUILD FROM 5", "has no part yet"),
        ("ALTER VIEW N REBUILD FROM 5", "N is a stream; REBUILD is for views"),
    ],
)  # fmt: skip
def test_alterations_that_would_break_what_there_is_are_refused(script: str, message: str) -> None:
    catalog = altering()
    if " w" in script and "no view w" not in message:
        catalog = declared("CREATE VIEW w AS SELECT loss FROM v", catalog)
    with pytest.raises((DeclarationError, NotSupported), match=message + ".*line 1, column"):
        altered(catalog, script, known=Parts(catalog, v=(100, 239)))


def test_parts_before_an_earlier_alteration_keep_their_first_definition() -> None:
    catalog = altering()
    known = Parts(catalog, v=(100, 239))
    first = view(catalog, "v").plan.update
    for script in ("ALTER VIEW v FROM 200 AS SELECT loss FROM M WHERE loss > 8",
                   "ALTER VIEW v FROM 150 AS SELECT loss FROM M WHERE loss > 9"):  # fmt: skip
        catalog = altered(catalog, script, known=known).catalog
    plan = view(catalog, "v").plan
    assert [each.until for each in plan.earlier] == [150]
    assert plan.query(149, None) == first != plan.query(150, None)


def test_a_view_is_put_behind_what_it_reads_since() -> None:
    catalog = declared("CREATE VIEW later AS SELECT loss FROM N", altering())
    result = altered(catalog, "ALTER VIEW v AS SELECT loss FROM later", known=Parts(catalog, v=(1, 2)))
    assert [each.name for each in result.catalog.part_views] == ["later", "v"]


def test_rebuilding_leaves_the_catalog_and_says_from_where() -> None:
    catalog = altering()
    result = altered(catalog, "ALTER VIEW V REBUILD FROM 150", known=Parts(catalog, v=(100, 239)))
    assert result == Altered(catalog, {view(catalog, "v").id: 150})


def test_explain_says_what_parts_are_made_of_and_what_late_rows_touch() -> None:
    catalog = declared(paper_views.VIEWS, STREAMS, known=Parts(STREAMS, M=(100, 239), N=(100, 200)))
    helper = explain(catalog, view(catalog, "Helper"))
    assert "UPDATE: part j reads M[j] as New, Helper[j-1] as Prev" in helper
    assert "begins with part 239" in helper
    assert "late rows in M[p] touch part p, and what follows from it" in helper
    assert "note: part j reads Helper[j-1]" in helper
    hourly = explain(catalog, view(catalog, "View3"))
    assert "INITIALIZE: part i reads M[i*60-59..i*60]" in hourly
    assert "late rows in M[p] touch part (p+59) DIV 60" in hourly
    assert "late rows in Greatest[p] touch parts p to p+4" in explain(catalog, view(catalog, "View5"))


def test_explain_warns_of_a_view_that_never_settles() -> None:
    catalog = declared(paper_views.VIEW6, STREAMS)
    sums = explain(catalog, view(catalog, "Sums"))
    assert "warning: part j reads Sums[j-1] and hands rows on even where the sources have none" in sums
    assert "once M has a part" in sums
    assert "warning" not in explain(catalog, view(catalog, "View6"))

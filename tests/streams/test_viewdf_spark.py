"""Parts of views that Spark SQL computes, over part files: the paper's own views, conditions on PART_TIMESTAMP, types,
repairs, failures, and several threads."""

from __future__ import annotations

import datetime
import math
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from viewkeeper.catalog.model import Column, PartPlan, PartView
from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    decimal,
    logical_type,
    to_physical,
)
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.statements import CreateViewDF
from viewkeeper.errors import Error, ViewBroken
from viewkeeper.plans.references import PartQuery
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.part_files import PartWriter, to_table
from viewkeeper.streams.spark.analyst import SparkAnalyst
from viewkeeper.streams.spark.queries import QueryRunner
from viewkeeper.streams.spark.reading import frame
from viewkeeper.streams.work import Outcome, Piece, QueryWork
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.local_disk import LocalDisk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC = datetime.UTC
M = (Column("src", STRING), Column("dest", STRING), Column("loss", INT))
ALL_TYPES = (BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, decimal(5, 2), decimal(38, 10), STRING, BINARY,
             DATE, TIMESTAMP, TIMESTAMP_NTZ)  # fmt: skip


class Parts:
    """Streams and views as part files, without a catalog: what the maintainer does, by hand."""

    def __init__(self, spark: SparkSession, root: Path, zone: str = "UTC") -> None:
        (root / "state").mkdir()
        self.root, self.zone, self.files = root, zone, 0
        self.runner, self.analyst = QueryRunner(lambda: spark), SparkAnalyst(lambda: spark)
        self.columns: dict[str, tuple[Column, ...]] = {}
        self.lengths: dict[str, int] = {}
        self.pieces: dict[str, dict[int, tuple[Piece, ...]]] = defaultdict(dict)
        self.views: dict[str, tuple[PartView, CreateViewDF]] = {}

    def stream(self, name: str, columns: Sequence[Column], parts: dict[int, list[tuple]], length: int = 60) -> None:
        """All parts in one file."""
        self.columns[name], self.lengths[name] = tuple(columns), length
        self.files += 1
        writer = PartWriter(
            LocalDisk(str(self.root)), f"{name}-{self.files}.parquet", columns, self.zone, grouped=False
        )
        for part in sorted(parts):
            writer.add(part, self.block(columns, parts[part]))
        _, pieces = writer.finish()
        self.pieces[name] |= {part: (piece,) for part, piece in pieces.items()}

    def block(self, columns: Sequence[Column], rows: list[tuple]) -> Block:
        arrays = [to_physical(pa.array(values, logical_type(column.type, self.zone)), column.type)
                  for column, values in zip(columns, zip(*rows, strict=True), strict=True)]  # fmt: skip
        return Block(arrays, hash_columns([], len(rows)))

    def declare(self, sql: str) -> PartView:
        (statement,) = parse_script(sql)
        assert isinstance(statement, CreateViewDF)
        name = statement.name.name
        self.lengths[name] = statement.length
        self.columns[name] = self.analysed(statement.initialize)
        view = PartView(100 + len(self.views), name, sql, self.columns[name], statement.length, (), (), PartPlan())
        self.views[name] = view, statement
        return view

    def analysed(self, query: PartQuery) -> tuple[Column, ...]:
        shapes = {each.name: self.columns[each.target] for each in query.references}
        timed = [each.name for each in query.references if each.target in self.lengths]
        return self.analyst.columns(query.sql, shapes, timed, self.zone)

    def work(self, name: str, part: int, initial: bool = False, old: tuple[Piece, ...] | None = None) -> QueryWork:
        view, statement = self.views[name]
        query = statement.initialize if initial else statement.update
        pieces: dict[str, dict[int, tuple[Piece, ...]]] = {}
        for each in query.references:
            of = self.pieces[each.target]
            if each.low is not None and each.high is not None:
                of = {p: found for p, found in of.items() if each.low.at(part) <= p <= each.high.at(part)}
            pieces[each.name] = of
        return QueryWork(
            LocalDisk(str(self.root)), 7, 1, part + 1, self.zone, f"part {part} of {name}", view, part, query,
            {each.name: self.columns[each.target] for each in query.references}, pieces,
            {each.name: self.lengths[each.target] for each in query.references if each.target in self.lengths}, old,
        )  # fmt: skip

    def build(self, name: str, part: int, initial: bool = False) -> Outcome:
        outcome = self.runner.query(self.work(name, part, initial))
        if outcome.error is None:
            (made,) = outcome.made.values()
            self.pieces[name][part] = made.pieces
        return outcome

    def rows(self, name: str, part: int) -> list[tuple]:
        table = to_table(LocalDisk(str(self.root)), self.pieces[name].get(part, ()), self.columns[name], self.zone)
        return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


@pytest.fixture
def parts(spark: SparkSession, tmp_path: Path) -> Parts:
    return Parts(spark, tmp_path)


HELPER = """
CREATE VIEW Helper AS
INITIALIZE Helper[i] AS SELECT src, dest, 1 AS ct, loss AS sum_loss FROM M[i] WHERE loss > 10
UPDATE Helper[j] AS
  SELECT src, dest, ct + 1, sum_loss + loss FROM (
    SELECT New.src AS src, New.dest AS dest, coalesce(Prev.ct, 0) AS ct, coalesce(Prev.sum_loss, 0) AS sum_loss,
           New.loss AS loss
    FROM M[j] AS New LEFT OUTER JOIN Helper[j-1] AS Prev ON New.src = Prev.src AND New.dest = Prev.dest
    WHERE New.loss > 10)
PARTITION LENGTH 60"""
VIEW2 = """
CREATE VIEW View2 AS INITIALIZE View2[i] AS SELECT src, dest, ct, sum_loss FROM Helper[i] WHERE ct >= 4
UPDATE View2[j] AS SELECT src, dest, ct, sum_loss FROM Helper[j] WHERE ct >= 4 PARTITION LENGTH 60"""
VIEW3 = """
CREATE VIEW View3 AS
INITIALIZE View3[i] AS SELECT src, dest, sum(loss) AS sum_loss FROM M[i*60-59 .. i*60] GROUP BY src, dest
UPDATE View3[j] AS SELECT src, dest, sum(loss) AS sum_loss FROM M[j*60-59 .. j*60] GROUP BY src, dest
PARTITION LENGTH 3600"""
J = """
CREATE VIEW J AS
INITIALIZE J[i] AS SELECT * FROM M[i] AS m NATURAL JOIN (SELECT src, dest, loss AS rtt FROM N[i]) AS n
UPDATE J[j] AS SELECT * FROM M[j] AS m NATURAL JOIN (SELECT src, dest, loss AS rtt FROM N[j]) AS n
PARTITION LENGTH 60"""


@pytest.mark.spark
def test_the_papers_pair_is_in_the_view_at_the_papers_times(parts: Parts) -> None:
    """View2 has the pair with ct 4 and sum 71 at 10:04, 5 and 87 at 10:05, and no more at 10:06 (section 2)."""
    losses = [6, 12, 15, 24, 20, 16, 7]
    parts.stream(
        "M", M, {600 + i: [("a", "b", loss), ("a", "c", 11), (None, "b", 99)] for i, loss in enumerate(losses)}
    )
    parts.declare(HELPER)
    parts.declare(VIEW2)
    seen = {}
    for i in range(len(losses)):
        for name in ("Helper", "View2"):
            assert parts.build(name, 600 + i, initial=i == 0).error is None
        seen[i] = [row for row in parts.rows("View2", 600 + i) if row[1] == "b"]
    assert seen == {0: [], 1: [], 2: [], 3: [], 4: [("a", "b", 4, 71)], 5: [("a", "b", 5, 87)], 6: []}
    assert [row for row in parts.rows("View2", 606) if row[1] == "c"] == [("a", "c", 7, 77)]
    # NULL = NULL is not TRUE: that pair begins anew each minute.
    assert parts.rows("Helper", 606) == [("a", "c", 7, 77), (None, "b", 1, 99)]


@pytest.mark.spark
def test_hourly_sums_read_sixty_parts_of_one_file(parts: Parts) -> None:
    """View3 sums exactly the parts that its range names, out of a file that holds more (section 4.2)."""
    parts.stream("M", M, {i: [("a", "b", i), ("a", "c", 1)] for i in range(1, 200)})
    parts.declare(VIEW3)
    for part in (1, 2, 3):
        assert parts.build("View3", part, initial=part == 1).error is None
        first, last = part * 60 - 59, part * 60
        assert parts.rows("View3", part) == [("a", "b", sum(range(first, last + 1))), ("a", "c", 60)]


@pytest.mark.spark
def test_a_natural_join_is_by_the_columns_of_one_name(parts: Parts) -> None:
    """J joins rows of the same part by the columns that both have, and by nothing hidden (section 4.2)."""
    parts.stream("M", M, {1: [("a", "b", 5), ("a", "x", 6)], 2: [("a", "b", 7)]})
    parts.stream("N", M, {1: [("a", "b", 50), ("a", "b", 51)], 2: [("q", "b", 1)]})
    parts.declare(J)
    for part in (1, 2):
        parts.build("J", part, initial=part == 1)
    assert parts.rows("J", 1) == [("a", "b", 5, 50), ("a", "b", 5, 51)]
    assert parts.rows("J", 2) == []
    assert parts.pieces["J"][2] == ()


def _timed(condition: str, source: str = "M[j-9..j] AS m") -> str:
    query = f"SELECT * FROM {source} WHERE {condition}"
    return (f"CREATE VIEW V AS INITIALIZE V[i] AS {query.replace('j', 'i')} UPDATE V[j] AS {query} "
            "PARTITION LENGTH 60")  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("PART_TIMESTAMP = '1970-01-01 00:05:00'", {5}),
        ("m.part_timestamp >= TIMESTAMP '1970-01-01 00:07:00'", {7, 8, 9}),
        ("PART_TIMESTAMP BETWEEN timestamp_seconds(120) AND timestamp_seconds(180)", {2, 3}),
        ("unix_timestamp(PART_TIMESTAMP) = loss * 60 AND loss < 3", {0, 1, 2}),
        ("minute(m.PART_TIMESTAMP) IN (1, 8)", {1, 8}),
    ],
)
def test_conditions_on_part_timestamp_mean_the_start_of_the_part(
    parts: Parts, condition: str, wanted: set[int]
) -> None:
    """PART_TIMESTAMP is the part's subscript times its length, and shows in no column of the result."""
    parts.stream("M", M, {i: [("a", "b", i)] for i in range(10)})
    parts.declare(_timed(condition))
    assert [column.name for column in parts.columns["V"]] == ["src", "dest", "loss"]
    parts.build("V", 9)
    assert {row[2] for row in parts.rows("V", 9)} == wanted


@pytest.mark.spark
@pytest.mark.parametrize(
    ("source", "condition", "read"),
    [
        ("M AS m", "m.PART_TIMESTAMP >= TIMESTAMP '1970-01-01 00:07:00' AND loss > 0", {7, 8, 9}),
        ("M AS m", "loss > 0 AND PART_TIMESTAMP BETWEEN '1970-01-01 00:02:00' AND '1970-01-01 00:03:00'", {2, 3}),
        (
            "M AS m",
            "(minute(PART_TIMESTAMP) = 1 OR minute(PART_TIMESTAMP) = 4) AND minute(PART_TIMESTAMP) < 4",
            {1},
        ),
        ("M AS m", "minute(PART_TIMESTAMP) = 1 OR loss = 5", set(range(10))),
        ("M AS m", "unix_timestamp(PART_TIMESTAMP) = loss * 60", set(range(10))),
        ("M AS m", "1 DIV minute(PART_TIMESTAMP) = 1 AND loss < 0", set(range(10))),
        ("M[j] AS a LEFT JOIN M AS m USING (src)", "m.PART_TIMESTAMP IS NULL", set(range(10))),
        ("M[j] AS a LEFT JOIN M AS m USING (src)", "minute(m.PART_TIMESTAMP) < 2", {0, 1}),
        ("(SELECT loss FROM M AS m WHERE minute(PART_TIMESTAMP) > 7) AS q", "loss > 8", {8, 9}),
    ],
)
def test_only_the_parts_that_a_condition_leaves_are_read(
    parts: Parts, source: str, condition: str, read: set[int]
) -> None:
    """A condition on PART_TIMESTAMP alone is tried on each part; where it may matter to a missing one, all are read."""
    parts.stream("M", M, {i: [("a", "b", i)] for i in range(10)})
    query = f"SELECT 1 AS x FROM {source} WHERE {condition}"
    parts.declare(f"CREATE VIEW V AS INITIALIZE V[i] AS {query.replace('[j]', '[i]')} UPDATE V[j] AS {query} "
                  "PARTITION LENGTH 60")  # fmt: skip
    work = parts.work("V", 9)
    (name,) = [each.name for each in work.query.references if each.low is None]
    assert set(parts.runner.parts_read(work)[name]) == read


@pytest.mark.spark
def test_part_timestamp_and_literals_are_of_the_databases_zone(spark: SparkSession, tmp_path: Path) -> None:
    """A part's start is the same moment in every zone, and a literal is read in the database's."""
    parts = Parts(spark, tmp_path, "Asia/Kolkata")
    parts.stream("M", M, {i: [("a", "b", i)] for i in range(10)})
    parts.declare(_timed("PART_TIMESTAMP = '1970-01-01 05:35:00'"))
    parts.build("V", 9)
    assert {row[2] for row in parts.rows("V", 9)} == {5}


MOMENT = datetime.datetime(1890, 3, 1, 12, 30, 15, 123456)
VALUES: tuple[tuple, ...] = (
    (True, -(2**7), -(2**15), -(2**31), -(2**63), -0.0, math.nan, Decimal("-999.99"), Decimal("1e27"), "ä\n'", b"\x00",
     datetime.date(1500, 1, 1), MOMENT.replace(tzinfo=UTC), MOMENT),
    (False, 127, 32767, 2**31 - 1, 2**63 - 1, math.inf, -math.inf, Decimal("0.01"), Decimal("0.0000000001"), "", b"",
     datetime.date(9999, 12, 31), MOMENT.replace(year=9999, tzinfo=UTC), MOMENT.replace(year=1)),
    (None,) * len(ALL_TYPES),
)  # fmt: skip
TYPED = tuple(Column(f"c{i}", type_) for i, type_ in enumerate(ALL_TYPES))


@pytest.mark.spark
@pytest.mark.parametrize("copies", [1, 8000])
def test_values_of_every_type_pass_through_a_query_unchanged(spark: SparkSession, tmp_path: Path, copies: int) -> None:
    """Whether Spark is handed the rows or reads the files, each value comes back as it was, in any zone."""
    parts = Parts(spark, tmp_path, "America/Sao_Paulo")
    parts.stream("T", TYPED, {3: list(VALUES) * copies, 4: [VALUES[0]]})
    parts.declare("CREATE VIEW V AS INITIALIZE V[i] AS SELECT * FROM T[i] AS t UPDATE V[j] AS SELECT * FROM T[j] AS t "
                  "PARTITION LENGTH 60")  # fmt: skip
    assert parts.columns["V"] == TYPED
    assert parts.build("V", 3).error is None
    disk = LocalDisk(str(tmp_path))
    before = to_table(disk, parts.pieces["T"][3], TYPED, parts.zone)
    after = to_table(disk, parts.pieces["V"][3], TYPED, parts.zone)
    assert after.schema == before.schema
    counted = [sorted(map(repr, table.to_pylist())) for table in (before, after)]
    assert counted[0] == counted[1]


@pytest.mark.spark
def test_a_repair_gives_the_old_pieces_where_the_rows_are_the_same_bag(parts: Parts) -> None:
    """Order, the sign of zero and the kind of NaN are no change; the number of equal rows is one."""
    columns = (Column("x", DOUBLE), Column("s", STRING))
    rows = [(0.0, "a"), (math.nan, None), (None, "b"), (None, "b")]
    parts.stream("T", columns, {1: rows})
    parts.declare("CREATE VIEW V AS INITIALIZE V[i] AS SELECT * FROM T[i] AS t UPDATE V[j] AS SELECT * FROM T[j] AS t "
                  "PARTITION LENGTH 60")  # fmt: skip
    parts.build("V", 1)
    old = parts.pieces["V"][1]
    parts.stream("T", columns, {1: [(None, "b"), (math.nan, None), (-0.0, "a"), (None, "b")]})
    same = parts.runner.query(parts.work("V", 1, old=old))
    assert same.files == () and same.made[100, 1].pieces == old and same.made[100, 1].is_same
    for other in (rows[1:], [*rows, rows[0]], [rows[0], rows[0], *rows[2:]], [(0.5, "a"), *rows[1:]]):
        parts.stream("T", columns, {1: other})
        changed = parts.runner.query(parts.work("V", 1, old=old))
        assert not changed.made[100, 1].is_same and changed.made[100, 1].pieces != old
    parts.pieces["T"] = {}
    gone = parts.runner.query(parts.work("V", 1, old=old))
    assert gone.made[100, 1].pieces == () and not gone.made[100, 1].is_same
    assert parts.runner.query(parts.work("V", 1, old=())).made[100, 1].is_same


@pytest.mark.spark
@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("loss + 2147483647", "ARITHMETIC_OVERFLOW"), ("100 DIV loss", "DIVIDE_BY_ZERO"),
        ("CAST(src AS INT)", "CAST_INVALID_INPUT"), ("raise_error('no\nmore')", "no more"),
        ("(SELECT loss FROM M[j] AS n)", "SCALAR_SUBQUERY_TOO_MANY_ROWS"),
    ],
)  # fmt: skip
def test_a_query_that_fails_as_it_runs_is_an_outcome(parts: Parts, expression: str, message: str) -> None:
    """The outcome says in one line what failed and where; nothing is made, and the next query runs as ever."""
    parts.stream("M", M, {1: [("a", "b", 0), ("a", "b", 1)]})
    query = f"SELECT src,\n CAST({expression} AS INT) AS x FROM M[j] AS m"
    parts.declare(f"CREATE VIEW V AS INITIALIZE V[i] AS {query.replace('[j]', '[i]')} UPDATE V[j] AS {query} "
                  "PARTITION LENGTH 60")  # fmt: skip
    outcome = parts.build("V", 1)
    assert outcome.error is not None and message in outcome.error and "\n" not in outcome.error
    assert "(line 2" in outcome.error or "raise" in expression or "SELECT" in expression
    assert not outcome.made and not outcome.files
    with pytest.raises(ViewBroken, match=r"V\[1\]"):
        parts.runner.recompute(parts.work("V", 1))
    parts.declare(HELPER)
    assert parts.build("Helper", 1, initial=True).error is None


@pytest.mark.spark
def test_the_answer_has_the_types_of_the_views_columns(parts: Parts) -> None:
    """The columns of UPDATE are converted by position; a value that does not fit is an error, not another value."""
    parts.stream("M", M, {1: [("a", "b", 40_000)], 2: [("a", "b", 7)]})
    view = parts.declare("CREATE VIEW V AS INITIALIZE V[i] AS SELECT CAST(1 AS SMALLINT) AS x, src FROM M[i] AS m "
                         "UPDATE V[j] AS SELECT loss, 5 FROM M[j] AS m PARTITION LENGTH 60")  # fmt: skip
    assert [str(column.type) for column in view.columns] == ["SMALLINT", "STRING"]
    assert parts.build("V", 2).error is None
    assert parts.rows("V", 2) == [(7, "5")]
    assert "CAST_OVERFLOW" in str(parts.build("V", 1).error)


@pytest.mark.spark
def test_a_large_part_is_read_from_its_files_and_written_whole(parts: Parts) -> None:
    """Rows of dead pieces and of other parts in the same file are not read, however many there are."""
    rows = 30_000
    parts.stream("M", M, {i: [("a", str(k % 7), 1) for k in range(rows)] for i in (1, 2, 3)})
    dead = parts.pieces["M"][2]
    parts.stream("M", M, {2: [("a", "new", 1)] * 5})
    assert parts.pieces["M"][2] != dead
    parts.declare("CREATE VIEW V AS INITIALIZE V[i] AS SELECT dest, count(*) AS n, sum(loss) AS s FROM M[i-2..i] AS m "
                  "GROUP BY dest UPDATE V[j] AS SELECT dest, count(*) AS n, min(unix_timestamp(PART_TIMESTAMP)) AS s "
                  "FROM M[j-1..j] AS m GROUP BY dest PARTITION LENGTH 60")  # fmt: skip
    parts.build("V", 3, initial=True)
    assert dict(row[:2] for row in parts.rows("V", 3)) == {
        **{str(k): 2 * len(range(k, rows, 7)) for k in range(7)}, "new": 5}  # fmt: skip
    parts.build("V", 3)
    assert {row[2] for row in parts.rows("V", 3) if row[0] != "new"} == {180}
    assert ("new", 5, 120) in parts.rows("V", 3)
    parts.declare("CREATE VIEW W AS INITIALIZE W[i] AS SELECT *, loss + 1 AS l FROM M[i] AS m UPDATE W[j] AS "
                  "SELECT *, loss + 1 AS l FROM M[j] AS m PARTITION LENGTH 60")  # fmt: skip
    parts.build("W", 1)
    assert len(parts.rows("W", 1)) == rows


@pytest.mark.spark
def test_spark_reads_many_small_parts_of_a_merged_file(spark: SparkSession, parts: Parts) -> None:
    """A file with thousands of parts is read by a range of them, with each row's own PART_TIMESTAMP."""
    parts.stream("M", M, {i: [("a", "b", i)] * 10 for i in range(6000)})
    wanted = {i: parts.pieces["M"][i] for i in range(1000, 5000)}
    found = frame(spark, LocalDisk(str(parts.root)), M, wanted, "UTC", 60, "p")
    assert found.columns == ["src", "dest", "loss", "p"]
    assert found.count() == 40_000
    assert found.where("unix_timestamp(p) <> loss * 60 OR loss < 1000 OR loss >= 5000").count() == 0
    few = frame(spark, LocalDisk(str(parts.root)), M, {7: parts.pieces["M"][7]}, "UTC")
    assert [tuple(row) for row in few.collect()] == [("a", "b", 7)] * 10
    assert frame(spark, LocalDisk(str(parts.root)), M, {}, "UTC").collect() == []


@pytest.mark.spark
def test_what_is_recomputed_is_what_was_built(parts: Parts) -> None:
    """`recompute` gives the rows of a part in the types that users see, and writes nothing."""
    parts.stream("T", TYPED, {1: list(VALUES)})
    parts.declare("CREATE VIEW V AS INITIALIZE V[i] AS SELECT * FROM T[i] AS t UPDATE V[j] AS SELECT * FROM T[j] AS t "
                  "PARTITION LENGTH 60")  # fmt: skip
    parts.build("V", 1)
    files = sorted((parts.root / "state").iterdir())
    table = parts.runner.recompute(parts.work("V", 1))
    stored = to_table(LocalDisk(str(parts.root)), parts.pieces["V"][1], TYPED, "UTC")
    assert table.schema == stored.schema and repr(table.to_pylist()) == repr(stored.to_pylist())
    assert sorted((parts.root / "state").iterdir()) == files


@pytest.mark.spark
def test_several_threads_do_not_see_each_others_tables(parts: Parts) -> None:
    """Queries that run at once, over tables of the same names, each have the answer of their own."""
    parts.stream("M", M, {i: [("a", "b", i)] * (i + 1) for i in range(12)})
    parts.declare("CREATE VIEW V AS INITIALIZE V[i] AS SELECT loss, count(*) AS n FROM M[i] AS m GROUP BY loss UPDATE "
                  "V[j] AS SELECT loss, count(*) AS n FROM M[j] AS m GROUP BY loss PARTITION LENGTH 60")  # fmt: skip
    with ThreadPoolExecutor(3) as threads:
        assert all(outcome.error is None for outcome in threads.map(lambda i: parts.build("V", i), range(12)))
    assert [parts.rows("V", i) for i in range(12)] == [[(i, i + 1)] for i in range(12)]


@pytest.mark.spark
def test_a_file_that_is_gone_is_no_failure_of_the_query(parts: Parts) -> None:
    """What goes wrong outside the query is raised, and does not mark the view."""
    parts.stream("M", M, {1: [("a", "b", 1)] * 30_000})
    parts.declare("CREATE VIEW V AS INITIALIZE V[i] AS SELECT * FROM M[i] AS m UPDATE V[j] AS SELECT * FROM M[j] AS m "
                  "PARTITION LENGTH 60")  # fmt: skip
    assert parts.build("V", 1).error is None
    for piece in parts.pieces["M"][1]:
        (parts.root / "state" / piece.file).unlink()
    with pytest.raises((Error, FileNotFoundError)):
        parts.runner.query(parts.work("V", 1))

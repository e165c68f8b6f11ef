"""Spark SQL as the judge, and as the judge of the row-by-row evaluator."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from drawn import examples
from oracle.bound import BoundCase
from oracle.model import Case
from oracle.strategies import CORE_TYPES, cases, domain
from oracle.traps import table
from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import BIGINT, INT, TINYINT, decimal
from viewkeeper.checker import spark_judge
from viewkeeper.checker.check import check_views
from viewkeeper.checker.compare import compare
from viewkeeper.checker.row_evaluator import Answer, evaluate
from viewkeeper.checker.spark_judge import SparkJudge, SparkRaised
from viewkeeper.checker.tables import table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ZONE = "Europe/Berlin"
COLUMNS = [Column(f"c{i}", type_, i % 2 == 0) for i, type_ in enumerate(CORE_TYPES)]
DOMAINS = [domain(column.type, extremes=True) for column in COLUMNS]
ALL_TYPES = table_of(COLUMNS, [tuple(values[i % len(values)] for values in DOMAINS) for i in range(12)], ZONE)


@pytest.fixture(scope="module")
def judge(spark: SparkSession) -> SparkJudge:
    return SparkJudge(spark, "UTC")


@pytest.fixture(params=["small", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Both ways in which tables reach Spark."""
    if request.param == "large":
        monkeypatch.setattr(spark_judge, "SMALL_ROWS", 0)
    yield request.param


@pytest.mark.usefixtures("size")
def test_every_type_comes_back_as_it_went(spark: SparkSession) -> None:
    """Values and types of a table survive the way through Spark, in a zone that is not UTC."""
    answers = SparkJudge(spark, ZONE).answers({"all": "SELECT * FROM `my table`"}, {"my table": ALL_TYPES})
    assert compare(ALL_TYPES, answers["all"]).equal


@pytest.mark.usefixtures("size")
def test_what_raises_is_an_answer_and_disturbs_no_other(judge: SparkJudge, capfd: pytest.CaptureFixture[str]) -> None:
    """One query overflows, its neighbour answers; pyspark's log of the error is not shown."""
    table = pa.table({"a": [2**63 - 1, 1]})
    answers = judge.answers({"bad": "SELECT a + 1 FROM t", "good": "SELECT a FROM t WHERE a < 5"}, {"t": table})
    assert isinstance(answers["bad"], SparkRaised) and answers["bad"].condition == "ARITHMETIC_OVERFLOW"
    assert answers["good"].to_pylist() == [{"a": 1}]
    assert "SQLQueryContextLogger" not in capfd.readouterr().err


def test_a_filter_on_a_column_of_many_repeated_values_is_answered_from_a_file(judge: SparkJudge) -> None:
    """Tables too long to be local relations are answered too where Spark filters by the file's own dictionary."""
    t = pa.table({"a": pa.array(list(range(6_000)) * 4, pa.int64())})
    answer = judge.answers({"v": "SELECT a FROM t WHERE a < 500"}, {"t": t})["v"]
    assert isinstance(answer, pa.Table) and len(answer) == 2_000


def test_a_query_that_spark_cannot_analyse_is_a_defect(judge: SparkJudge) -> None:
    """It is raised, not taken for an error of the data."""
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException):
        judge.answers({"q": "SELECT nothing FROM t"}, {"t": pa.table({"a": [1]})})


def test_a_check_leaves_sparks_errors_as_they_are(
    spark: SparkSession, judge: SparkJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the process's first query was a check, what Spark refuses afterwards is refused in Spark's words."""
    from pyspark.errors import AnalysisException

    monkeypatch.delitem(logging.root.manager.loggerDict, "SQLQueryContextLogger", raising=False)
    judge.answers({"q": "SELECT a FROM t"}, {"t": pa.table({"a": [1]})})
    with pytest.raises(AnalysisException, match="nothing"):
        spark.sql("SELECT nothing")


def test_the_users_session_is_left_alone(spark: SparkSession, judge: SparkJudge) -> None:
    """Settings and temporary views of the session that was given stay as they were."""
    before, tables = spark.conf.get("spark.sql.shuffle.partitions"), spark.catalog.listTables()
    judge.answers({"q": "SELECT a FROM t"}, {"t": pa.table({"a": [1]})})
    assert spark.conf.get("spark.sql.shuffle.partitions") == before and spark.catalog.listTables() == tables


def run(judge: SparkJudge, case: Case) -> list[str]:
    """Checks what the evaluator says of each view against Spark; returns who judged."""
    bound = BoundCase(case)
    bound.apply_all()
    reports = check_views(bound.evidence(), [view.name for view in bound.catalog.views], judge)
    for report in reports:
        assert report.ok, f"{report}\n{bound.catalog.find(report.view).sql}"  # type: ignore[union-attr]
    return [report.judge for report in reports]


def test_the_evaluator_answers_as_spark_does(judge: SparkJudge) -> None:
    """Whatever the tables, rows and views: Spark's answer is the evaluator's, but for what 02 says."""
    judges: list[str] = []

    @settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
    @given(cases(views=3, operations=25, plain=True))
    def differential(case: Case) -> None:
        judges.extend(run(judge, case))

    differential()
    assert judges.count("spark") > len(judges) / 2


NUMBERS = table("t", "id", id=BIGINT, a=TINYINT, b=INT, c=BIGINT, d=decimal(5, 2), e=decimal(38, 10), f=decimal(18, 0))
RAISING = ["a + a", "a - b", "b * b", "c + 1", "c * a", "-a", "-b", "-c", "e + e", "e * d", "e - 1", "e * e", "d * f",
           "CASE WHEN a > 0 THEN a + a ELSE a END", "COALESCE(CASE WHEN b > 0 THEN b END, b - 1)",
           "c + c + c"]  # fmt: skip


def test_exactly_the_rows_raise_that_raise_in_spark(judge: SparkJudge) -> None:
    """Of one table without filters, Spark answers over the rows that do not raise, and raises over each that does."""
    domains = [domain(column.type, extremes=True) for column in NUMBERS.columns[1:]]
    given = [(i, *(values[i * (k + 1) % len(values)] for k, values in enumerate(domains))) for i in range(40)]
    tables, queries, expected = {}, {}, {}
    for n, expression in enumerate(RAISING):
        bound = BoundCase(Case((NUMBERS,), (f"CREATE VIEW v AS SELECT {expression} AS x FROM t",), ()))
        (view,), (base,) = bound.catalog.views, bound.catalog.tables
        answers = [(row, evaluate(bound.relations["v"], {base.id: Answer([row])})) for row in given]
        good = [(row, answer) for row, answer in answers if not answer.errors]
        bad = {answer.errors[0].code: row for row, answer in answers if answer.errors}
        for code, rows in {"": [row for row, _ in good], **{code: [row] for code, row in bad.items()}}.items():
            name = f"t{n}{code}"
            tables[name] = table_of(NUMBERS.columns, rows)
            queries[name] = view.sql.replace("FROM t", f"FROM {name}")
            expected[name] = code or table_of(view.columns, [answer.rows[0] for _, answer in good])
    assert len(tables) > len(RAISING)
    for name, answer in judge.answers(queries, tables).items():
        wanted = expected[name]
        if isinstance(wanted, str):
            assert isinstance(answer, SparkRaised) and wanted in answer.condition, queries[name]
        else:
            assert compare(answer, wanted).equal, queries[name]


def test_the_evaluator_answers_as_spark_does_at_the_ends_of_types(judge: SparkJudge) -> None:
    """The same with extremes; where Spark or the evaluator raises, rows are not compared."""

    @settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
    @given(cases(views=3, operations=15, extremes=True, plain=True))
    def differential(case: Case) -> None:
        run(judge, case)

    differential()

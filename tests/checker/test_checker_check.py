"""A check proves DELTA first, then judges each view; whatever is wrong is found and shown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest

from viewkeeper.catalog.model import Catalog, Column, StateSpec, Stored, Table, View
from viewkeeper.catalog.types import BIGINT, DOUBLE, STRING
from viewkeeper.checker.check import StoreRows, check_view, check_views
from viewkeeper.checker.delta_proof import LoggedOperation
from viewkeeper.checker.row_evaluator import ErrorRow
from viewkeeper.checker.spark_judge import SparkRaised
from viewkeeper.checker.tables import table_of
from viewkeeper.errors import CheckFailed, NotFound
from viewkeeper.plans.expressions import ColumnRef, Literal, comparison
from viewkeeper.plans.relations import AggregateCall, Filter, GroupBy, Relation, Scan, SparkQuery
from without_streams import WithoutStreams

NOWHERE = Stored(StateSpec(99, "keyed", (), 0), ())
T = Table(16, "t", (Column("k", BIGINT, False), Column("g", STRING), Column("x", DOUBLE)), (0,), NOWHERE)
ROWS = [(1, "a", 0.5), (2, "a", 0.25), (3, "b", 1.0)]
BIG = replace(T, columns=(Column("k", BIGINT, False), Column("g", STRING), Column("x", BIGINT)))

X = ColumnRef(DOUBLE, True, (1, 15), 2, "x")
HAS_X = Filter(Scan(16, "t", T.columns), comparison(">", X, Literal(DOUBLE, False, None, 0.3)))


def sums(relation: Relation, column: int) -> GroupBy:
    columns = relation.columns
    wide = BIGINT if columns[column].type == BIGINT else DOUBLE
    argument = ColumnRef(columns[column].type, True, (1, 15), column, columns[column].name)
    total = AggregateCall("sum", argument, wide, True, (1, 11))
    return GroupBy(relation, (ColumnRef(STRING, True, None, 1, "g"),), ("g",), (total,), ("s",))


def view(id_: int, name: str, relation: Relation, reads: tuple[int, ...]) -> View:
    return View(id_, name, f"text of {name}", relation.columns, (0,), True, reads, NOWHERE, 1)


@dataclass
class Fake(WithoutStreams):
    """A database that says whatever a test wants."""

    catalog: Catalog
    relations: dict[str, Relation]
    rows: dict[str, pa.Table]
    stored: StoreRows
    errors: dict[str, list[ErrorRow]] = field(default_factory=dict)
    version: int = 7

    def delta(self, table: Table) -> pa.Table:
        return self.rows[table.name]

    def store(self, table: Table) -> StoreRows:
        return self.stored

    def view_rows(self, view: View) -> pa.Table:
        return self.rows[view.name]

    def error_rows(self, view: View) -> Sequence[ErrorRow]:
        return self.errors.get(view.name, [])

    def relation(self, view: View) -> Relation:
        return self.relations[view.name]


class FakeSpark:
    """Answers from a dictionary; remembers what it was asked."""

    def __init__(self, answers: dict[str, object]) -> None:
        self.known, self.asked = answers, list[str]()

    def answers(self, queries: Mapping[str, str], tables: Mapping[str, pa.Table]) -> Mapping[str, object]:
        self.asked += queries
        return {name: self.known[name] for name in queries}


FILTERED = view(20, "f", HAS_X, (16,))
SUMS = view(21, "s", sums(HAS_X, 2), (16,))
OVER = view(22, "over", Filter(Scan(20, "f", FILTERED.columns), HAS_X.predicate), (20,))


def database() -> Fake:
    table = table_of(T.columns, ROWS)
    return Fake(
        Catalog((T, FILTERED, SUMS, OVER)),
        {"f": HAS_X, "s": sums(HAS_X, 2), "over": Filter(Scan(20, "f", FILTERED.columns), HAS_X.predicate)},
        {"t": table, "f": table.filter(pa.array([True, False, True])),
         "s": pa.table({"g": ["a", "b"], "s": [0.5, 1.0]}), "over": table.filter(pa.array([True, False, True]))},
        StoreRows(table, []),
    )  # fmt: skip


def test_a_right_view_is_right_by_spark() -> None:
    """Spark's answer is compared with the view's rows, and the report says so."""
    db = database()
    report = check_view(db, "F", FakeSpark({"f": db.rows["f"]}))
    assert report.ok and report.judge == "spark" and report.rows == 2 and report.version == 7
    report.raise_if_wrong()


def test_a_wrong_state_is_found_and_shown() -> None:
    """A row planted in the view is named, with how often it stands on each side."""
    db = database()
    right = db.rows["f"]
    db.rows["f"] = table_of(T.columns, [(1, "a", 0.5), (3, "b", 2.0)])
    report = check_view(db, "f", FakeSpark({"f": right}))
    assert report.verdict == "wrong" and report.differing_rows == 2
    with pytest.raises(CheckFailed, match=r"k=3, g='b', x=2.0\): expected 0 times, found 1"):
        report.raise_if_wrong()
    assert json.loads(report.to_json())["differing"][0]["row"]["k"] == 3


def test_a_wrong_delta_is_found_before_any_view() -> None:
    """If DELTA and the log do not give the store's rows, nothing follows for the views above."""
    db = database()
    db.stored = StoreRows(table_of(T.columns, [*ROWS[:2], (3, "b", 7.0)]), [])
    report = check_view(db, "f", FakeSpark({"f": db.rows["f"]}))
    assert report.verdict == "base wrong" and "DELTA of t" in report.problem and report.differing_rows == 2


def test_the_log_after_the_version_is_part_of_the_proof() -> None:
    """The store may be ahead: what the log says in between is replayed."""
    db = database()
    db.stored = StoreRows(table_of(T.columns, ROWS[1:]), [LoggedOperation("delete", (1,), {}, 0, 4)])
    assert check_view(db, "f", None).ok


def test_rejected_keys_are_left_out_by_name() -> None:
    """A key whose operation was rejected is not compared with the store, and the report names it."""
    db = database()
    db.stored = StoreRows(table_of(T.columns, [*ROWS, (9, "z", 0.0)]), [], rejected=[(9,)])
    report = check_view(db, "f", None)
    assert report.ok and report.left_out == ["t 9"] and "t 9" in str(report)


def test_without_spark_the_evaluator_judges() -> None:
    """A judge is always there."""
    report = check_view(database(), "f", None)
    assert report.ok and report.judge == "row by row"


def test_where_spark_itself_breaks_the_evaluator_judges() -> None:
    """Of a query that only Spark can answer nothing is said then."""
    db = database()
    broken = FakeSpark({"f": SparkRaised(None, "INTERNAL_ERROR")})
    assert check_view(db, "f", broken).judge == "row by row"
    db.relations["f"] = SparkQuery("SELECT * FROM t", (("t", T.id),), T.columns, "of no reason")
    report = check_view(db, "f", broken)
    assert report.verdict == "not judged" and "INTERNAL_ERROR" in report.unjudged[0]


def test_float_sums_are_judged_exactly_and_spark_must_come_near() -> None:
    """The exact sum is the judge; a finite answer of Spark that is too far away is itself reported."""
    db = database()
    near = pa.table({"g": ["b", "a"], "s": [1.0, 0.5 + 2**-53]})
    assert check_view(db, "s", FakeSpark({"s": near})).judge == "exact"
    assert check_view(db, "s", FakeSpark({"s": near})).ok
    far = check_view(db, "s", FakeSpark({"s": pa.table({"g": ["b", "a"], "s": [1.0, 0.6]})}))
    assert not far.ok and "too far" in far.problem
    db.rows["s"] = near
    assert not check_view(db, "s", FakeSpark({"s": near})).ok


def overflowing() -> Fake:
    table = table_of(BIG.columns, [(1, "a", 2**63 - 1), (2, "a", 1), (3, "b", 1)])
    relation = sums(Scan(16, "t", BIG.columns), 2)
    broken = view(21, "s", relation, (16,))
    above = Filter(Scan(21, "s", relation.columns), Literal(relation.columns[0].type, False, None, True))
    rows = {"t": table, "s": pa.table({"g": ["b"], "s": [1]}), "up": pa.table({"g": ["b"], "s": [1]})}
    errors = {"s": [ErrorRow("ARITHMETIC_OVERFLOW", "1:11", "g=a")]}
    return Fake(Catalog((BIG, broken, view(22, "up", above, (21,)))), {"s": relation, "up": above}, rows,
                StoreRows(table, []), errors)  # fmt: skip


def test_a_view_that_rightly_raises_is_right() -> None:
    """Its error rows are those the evaluator finds: Spark is not asked, and the report lists them."""
    db, spark = overflowing(), FakeSpark({})
    report = check_view(db, "s", spark)
    assert report.ok and not spark.asked and "raises ARITHMETIC_OVERFLOW at 1:11: g=a" in str(report)


@pytest.mark.parametrize("errors", [[], [ErrorRow("ARITHMETIC_OVERFLOW", "2:1", "g=a")]])
def test_a_view_that_should_raise_and_does_not_is_wrong(errors: list[ErrorRow]) -> None:
    """A missing error row, or one at another place, is found."""
    db = overflowing()
    db.errors["s"] = errors
    report = check_view(db, "s", FakeSpark({"s": "spark raised"}))
    assert not report.ok and "no error row for ARITHMETIC_OVERFLOW at 1:11" in report.problem


def test_a_view_over_a_broken_one_raises_as_well() -> None:
    """An error of a lower view is an error of each view that reads it."""
    lower, upper = check_views(overflowing(), ["up"], None)
    assert lower.ok and upper.ok and upper.errors == lower.errors


def test_a_view_over_a_wrong_one_is_not_called_right() -> None:
    """Lower views are checked too: what stands on a wrong one cannot be trusted."""
    db = database()
    db.rows["f"] = db.rows["over"] = db.rows["t"].slice(0, 1)
    lower, upper = check_views(db, ["over"], None)
    assert (lower.view, lower.verdict) == ("f", "wrong") and upper.verdict == "base wrong" and "view f" in upper.problem


@pytest.mark.parametrize(
    ("behind", "why"),
    [
        ({"filled": None}, "it is not filled yet; db.catch_up()"),
        ({"stopped": "it fell"}, "it is stopped, and behind: it fell"),
    ],
)
def test_a_view_that_is_not_filled_or_stopped_is_not_called_wrong(behind: dict[str, Any], why: str) -> None:
    """Nor is one over it."""
    db = database()
    db.catalog = Catalog((T, replace(FILTERED, **behind), SUMS, OVER))
    db.rows["f"] = db.rows["over"] = db.rows["t"].slice(0, 1)
    lower, upper = check_views(db, ["over"], None)
    assert (lower.verdict, upper.verdict, lower.ok) == ("not judged", "not judged", False)
    assert why in lower.unjudged[0] and "view f below it is not judged" in upper.unjudged[0]


def test_many_views_are_one_question() -> None:
    """Spark is asked once for all views, the lower ones included."""
    db = database()
    spark = FakeSpark({name: db.rows[name] for name in ("f", "s", "over")})
    assert [report.view for report in check_views(db, ["over", "s"], spark)] == ["f", "over", "s"]
    assert spark.asked == ["f", "over", "s"]


def test_names_listed_before_the_query_are_the_views() -> None:
    """CREATE VIEW v (a, b, c) AS ...: Spark answers by the query's names, the view has its own."""
    db = database()
    answer = db.rows["f"]
    columns = tuple(replace(column, name=f"other_{column.name}") for column in T.columns)
    db.catalog = Catalog((T, replace(FILTERED, columns=columns)))
    db.rows["f"] = answer.rename_columns([column.name for column in columns])
    assert check_view(db, "f", FakeSpark({"f": answer})).ok


def test_only_views_are_checked() -> None:
    """A name that is no view's is refused."""
    with pytest.raises(NotFound, match="there is no view t"):
        check_view(database(), "t", None)

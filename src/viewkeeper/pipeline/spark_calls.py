"""Views that our own operators keep but for some calls, which Spark computes for what a batch brings (`plan.Memo`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import TypeVar

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.arrow_tables import logical_table
from viewkeeper.catalog.model import Catalog, Column
from viewkeeper.catalog.types import BIGINT, physical_type, to_physical
from viewkeeper.compiler.bind import BoundView, bind_view
from viewkeeper.compiler.outside_calls import bind_with_outside_calls
from viewkeeper.compiler.part_references import quoted
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.compiler.statements import CreateView
from viewkeeper.compiler.ties import settled
from viewkeeper.errors import DeclarationError, Error, NotSupported, reason_of
from viewkeeper.evaluation.error_codes import CODES, FUNCTION_RAISED, pack_error
from viewkeeper.maintenance.operators.memo import NewValues
from viewkeeper.maintenance.rules.rewriter import rewritten
from viewkeeper.maintenance.task import Sent
from viewkeeper.maintenance.zones import OperatorFailed
from viewkeeper.pipeline.work import Answers, QueryRaised, SparkQuestion
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.outside import SparkAggregate, SparkCall, outside_call_in
from viewkeeper.plans.relations import ComputedColumn, Project, Relation, expressions_of
from viewkeeper.plans.subqueries import relations_in
from viewkeeper.streams.analyst import Analyst

_Wanted = TypeVar("_Wanted")

ROWS = "outside rows"
"""What a call is asked over; it is no name that a query could have."""


class OtherSpark(RuntimeError):
    """Another Spark than that which has computed what is kept."""


class ManyRaise(RuntimeError):
    """More values raise than can be found one by one while all other views wait."""


RAISING_MAX = 200
"""Each value that raises costs a dozen queries or so."""


def spark_version() -> str:
    """That of the Spark that runs with this process."""
    return metadata.version("pyspark")


def bind_with_spark_calls(
    catalog: Catalog, statement: CreateView, columns: Sequence[Column], analyst: Analyst
) -> BoundView:
    """CREATE VIEW where Spark computes some calls, and our own operators do the rest.

    `columns` are those that Spark says the query has.  Raises NotSupported where that is not enough.
    """

    def typed(sql: str, given: tuple[Column, ...], aggregate: bool, ordered: bool) -> Column:
        by_rows = None if aggregate else ROWS
        query = typed_by(sql, aggregate, ordered)
        (column,) = analyst.columns(query, {ROWS: given}, (), catalog.zone, by_rows, None, True)
        return column

    def bind(query: QueryText) -> BoundView:
        found = bind_view(catalog, replace(statement, query=query, refused=None))
        return replace(found, asked=settled(query, found.relation, len(columns)))

    try:
        bound = bind_with_outside_calls(statement.query, typed, spark_version(), bind)
    except DeclarationError as refused:  # Spark takes the query, so it is only that ours cannot be cut so
        raise NotSupported(reason_of(refused)) from None
    if bound.asked is None:
        raise NotSupported("no text makes Spark settle ties as the view does")
    if [c.type for c in bound.columns] != [c.type for c in columns]:
        raise NotSupported("Spark gives its columns other types where it computes single calls")
    if not _is_kept(bound.relation, catalog.zone):
        raise NotSupported("a call stands where only rows of our own operators can be computed")
    assert isinstance(bound.relation, Project)
    if not statement.columns:
        names = tuple(column.name for column in columns)
        bound = replace(bound, relation=replace(bound.relation, names=names))
    return replace(bound, columns=bound.relation.columns)


def typed_by(sql: str, aggregate: bool, ordered: bool) -> str:
    """The query by which Spark says what a call gives, or an aggregate, or one of rows in an order (`ordered`).  What
    makes rows cannot stand there, nor can what takes rows together where a call is meant."""
    if ordered:
        return f"SELECT {sql} OVER (ORDER BY 1) AS value FROM {quoted(ROWS)}"
    clause = "HAVING" if aggregate else "WHERE"
    return f"SELECT {sql} AS value FROM {quoted(ROWS)} {clause} ({sql}) IS NOT NULL"


def _is_kept(relation: Relation, zone: str) -> bool:
    """Whether the rules have a place for all calls."""
    whole = rewritten(relation, zone)[0]
    return all(
        isinstance(each, ComputedColumn) or all(outside_call_in(e) is None for e in expressions_of(each))
        for each in relations_in(whole)
    )


def of_another_spark(catalog: Catalog) -> set[int]:
    """The operators of `catalog` that keep what another Spark has computed."""
    found = set()
    for operator in plan.plan_of(catalog).operators:
        calls: tuple[object, ...] = operator.calls if isinstance(operator, plan.SparkGroups) else ()
        if isinstance(operator, plan.Memo):
            calls = (operator.call,)
        if any(isinstance(call, SparkCall | SparkAggregate) and call.version != spark_version() for call in calls):
            found.add(operator.id)
    return found


def require_version(call: SparkCall | SparkAggregate) -> None:
    """Raises OtherSpark where another Spark has computed what is kept of a call."""
    if call.version != spark_version():
        raise OtherSpark(f"its values of {call.name} were computed by Spark {call.version}, and this is Spark "
                         f"{spark_version()}; drop the view and create it again")  # fmt: skip


@dataclass(frozen=True)
class CallWanted:
    """Values for which a MEMO wants to know what its call says."""

    memo: plan.Memo
    new: NewValues

    @property
    def call(self) -> SparkCall:
        """The call."""
        assert isinstance(self.memo.call, SparkCall)
        return self.memo.call


def computed(answered: Answers, wanted: Sequence[CallWanted], title: str, zone: str) -> list[Sent]:
    """What Spark says to each of `wanted`, in one query for all; a value that it raises at is found by halves."""
    return asked_alone(wanted, lambda some: _computed(answered, some, title, zone), lambda each: each.memo.id)


def asked_alone(
    wanted: Sequence[_Wanted], ask: Callable[[Sequence[_Wanted]], list[Sent]], operator: Callable[[_Wanted], int]
) -> list[Sent]:
    """What `ask` gives for all of `wanted`, one answer for each; where it fails each is asked for alone, and the
    `operator` whose fault it is fails."""
    try:
        return ask(wanted)
    except (Error, OSError, MemoryError):
        raise  # a shortage, or the loss of Spark: no fault of the views'
    except Exception as error:
        if len(wanted) > 1:  # whose fault it is shows when each is asked for alone
            return [each for one in wanted for each in asked_alone([one], ask, operator)]
        raise OperatorFailed(f"operator {operator(wanted[0])} failed: {type(error).__name__}: {error}") from error


def _computed(answered: Answers, wanted: Sequence[CallWanted], title: str, zone: str) -> list[Sent]:
    for each in wanted:
        require_version(each.call)
    question, given = _question(wanted)
    errors = [each.new.errors.copy() for each in wanted]
    number, row = given[0].to_numpy(), given[1].to_numpy()
    said: list[list[tuple[np.ndarray, pa.Array]]] = [[] for _ in wanted]
    waiting, raising = [np.flatnonzero(np.concatenate(errors) == 0)], 0
    while waiting:
        places = waiting.pop()
        if not len(places):
            continue
        rows = [column.take(pa.array(places)) for column in given]
        table = logical_table(question.inputs, rows, zone)
        answer = answered(SparkQuestion(title, zone, question.sql, {ROWS: table}, question.outputs))
        if isinstance(answer, QueryRaised) and len(places) > 1:
            waiting += np.array_split(places, 2)
        elif isinstance(answer, QueryRaised):
            raising += 1
            if raising > RAISING_MAX:
                raise ManyRaise(f"more than {RAISING_MAX} new values of one batch raise, the last of them "
                                f"{answer.code}; mend the rows, then drop the view and create it again")  # fmt: skip
            errors[number[places[0]]][row[places[0]]] = pack_error(CODES.get(answer.code, FUNCTION_RAISED), None)
        elif len(answer) != len(places):
            raise RuntimeError(f"Spark gives {len(answer)} values for {len(places)}: a call is none of each row alone")
        else:
            _sort_in(answer, number, row, said, wanted)
    return [each.new.answered(_in_order(parts, each), raised)
            for each, parts, raised in zip(wanted, said, errors, strict=True)]  # fmt: skip


@dataclass(frozen=True)
class _Question:
    """One query for several calls, over one table that has the rows of each one behind the other's."""

    sql: str
    inputs: tuple[Column, ...]
    outputs: tuple[Column, ...]


def _question(wanted: Sequence[CallWanted]) -> tuple[_Question, list[pa.Array]]:
    """The query, and the table: of which of `wanted` a row is, which of its rows, which row of all, and what arguments
    have which name.  A call sees its own rows alone."""
    lengths = [len(each.new) for each in wanted]
    names: dict[str, tuple[Column, list[pa.Array]]] = {}
    for at, each in enumerate(wanted):
        for i, given in enumerate(each.call.given):
            column = replace(given, nullable=True)
            empty = [pa.nulls(length, physical_type(column.type)) for length in lengths]
            names.setdefault(column.name, (column, empty))[1][at] = each.new.arguments[i]
    number = np.repeat(np.arange(len(wanted)), lengths)
    row = np.concatenate([np.arange(length) for length in lengths])
    columns = [pa.array(number), pa.array(row), pa.array(np.arange(len(row)))]
    columns += [pa.concat_arrays(parts) for _, parts in names.values()]
    inputs = (
        *(Column(name, BIGINT, False) for name in ("call", "row", "n")),
        *(column for column, _ in names.values()),
    )
    says = [f"CASE WHEN call = {i} THEN {each.call.sql} END AS v{i}" for i, each in enumerate(wanted)]
    outputs = (Column("n", BIGINT, False), *(Column(f"v{i}", each.call.type) for i, each in enumerate(wanted)))
    return _Question(f"SELECT n, {', '.join(says)} FROM {quoted(ROWS)}", inputs, outputs), columns


def _sort_in(
    answer: pa.Table, number: np.ndarray, row: np.ndarray, said: list[list[tuple[np.ndarray, pa.Array]]],
    wanted: Sequence[CallWanted],
) -> None:  # fmt: skip
    """Adds what an answer says to what was `said` of each of `wanted`: its rows, and their values."""
    places = answer.column(0).to_numpy()
    for i, each in enumerate(wanted):
        mine = np.flatnonzero(number[places] == i)
        values = answer.column(i + 1).take(pa.array(mine)).combine_chunks()
        said[i].append((row[places[mine]], to_physical(values, each.call.type)))


def _in_order(parts: Sequence[tuple[np.ndarray, pa.Array]], wanted: CallWanted) -> pa.Array:
    """The values of all rows of `wanted`, NULL where nothing was said."""
    at = np.full(len(wanted.new), -1)
    rows = np.concatenate([rows for rows, _ in parts] or [np.zeros(0, np.int64)])
    at[rows] = np.arange(len(rows))
    values = pa.concat_arrays([pa.array([], physical_type(wanted.call.type)), *(values for _, values in parts)])
    return values.take(pa.array(at, mask=at < 0))

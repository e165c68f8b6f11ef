"""What Spark, and functions of Python's, are asked between two zones of a pass, and how the answers go on: whole
queries (`plan.SparkAnswer`), groups (`plan.SparkGroups`), and what a MEMO knows nothing of.

The rows that a query reads are those of the version that is being made: what the version before has, and what the zones
before have written since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.arrow_tables import logical_table
from viewkeeper.catalog.model import Column, StateSpec
from viewkeeper.catalog.types import physical_type, to_physical
from viewkeeper.errors import Error
from viewkeeper.functions.python_calls import FunctionUnfit
from viewkeeper.jobs import ring
from viewkeeper.maintenance.operators.memo import NewValues, by_python, unknown
from viewkeeper.maintenance.operators.memo import target as memo_target
from viewkeeper.maintenance.operators.spark_answer import error_text, target
from viewkeeper.maintenance.operators.spark_groups import target as group_target
from viewkeeper.maintenance.operators.spark_groups import touched_groups
from viewkeeper.maintenance.task import Sent
from viewkeeper.maintenance.zone_programs import ZonePrograms
from viewkeeper.maintenance.zones import OperatorFailed
from viewkeeper.pipeline import batch_parcels
from viewkeeper.pipeline.context import ZoneContext
from viewkeeper.pipeline.programs import programs_without, state_of
from viewkeeper.pipeline.spark_calls import CallWanted, computed
from viewkeeper.pipeline.spark_groups import said_of_groups
from viewkeeper.pipeline.work import (
    Answers,
    DriverExecutor,
    QueryRaised,
    SparkQuestion,
    TableDifference,
    TableRows,
    ZoneWork,
)
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.outside import PythonCall, SparkInput
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.keys import canonical
from viewkeeper.trace.receipt import Receipt, RunRef
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.run import Run
from viewkeeper.trace.snapshot import Snapshot
from viewkeeper.trace.trace import Trace

Items = tuple[tuple[str, pa.Buffer], ...]
"""Items of a parcel."""


def answers(
    executor: DriverExecutor, work: ZoneWork, zone: int, receipts: Sequence[Receipt], carried: Sequence[Items]
) -> tuple[Items, ...]:
    """For each view server its share of what Spark answers before `zone`; `receipts` are those of earlier zones,
    `carried` is what these have sent on."""
    storage, base = state_of(work)
    program = programs_without(base.catalog, work.fill, work.left_out)
    source = work.source
    before = base
    if isinstance(source, TableRows | TableDifference):
        before = storage.at(*(source.at if isinstance(source, TableRows) else source.newer))
    written: dict[int, list[RunRef]] = {id_: list(runs) for id_, runs in work.private.items()}
    for run in (run for receipt in receipts for run in receipt.runs):
        written.setdefault(run.state, []).append(run)

    def now(spec: StateSpec) -> Trace:
        runs = [Run.open(work.disk, ref) for ref in written.get(spec.id, ())]
        return Trace(spec, [*before.trace(spec).runs, *runs])

    made: list[list[tuple[str, pa.Buffer]]] = [[] for _ in range(work.servers)]

    def send(target: str, sent: Sent) -> None:
        for server, positions in enumerate(ring.split(sent.hashes, work.servers)):
            share = Sent(sent.rows.take(positions), sent.hashes[positions])
            made[server].append(batch_parcels.encode(target, share))

    context = ZoneContext(work, storage, base, 0)
    sent: dict[str, list[Sent]] = {}
    for target_, payload in (item for items in carried for item in items):
        if program.zone_of(target_) == zone:
            sent.setdefault(target_, []).append(batch_parcels.decode(payload))
    for to, share in (*_of_memos(executor, work, zone, program, context, sent),
                      *_of_groups(executor, work, zone, program, context, sent, before)):  # fmt: skip
        send(to, share)
    for operator in program.spark_answers(zone):
        # A fill begins with an answer, and none of its rounds knows what the one before has read.
        if work.fill is None and not any(each.stored.state.id in written for each in operator.inputs):
            continue
        rows = _answer(_asked(executor), operator, work.title, base.catalog.zone, now)
        send(target(operator), Sent(rows, hash_columns(rows.columns, len(rows))))
    return tuple(map(tuple, made))


def _of_memos(
    executor: DriverExecutor, work: ZoneWork, zone: int, program: ZonePrograms, context: ZoneContext,
    sent: Mapping[str, list[Sent]],
) -> Iterator[tuple[str, Sent]]:  # fmt: skip
    """What MEMOs are to know of the values `sent` to them, and where it goes."""
    wanted = []
    for memo in program.memos(zone):
        shares = sent.get(f"x:{memo.exchange}")
        if shares:
            exchange, trace = program.exchanges[memo.exchange], context.trace(memo.state)
            new = unknown(memo, exchange, shares, trace, program.zone)
            if len(new) and isinstance(memo.call, PythonCall):
                yield memo_target(memo), _by_python(memo, memo.call, new, program.zone)
            elif len(new):
                wanted.append(CallWanted(memo, new))
    if wanted:
        said = computed(_asked(executor), wanted, work.title, program.zone)
        yield from ((memo_target(each.memo), answer) for each, answer in zip(wanted, said, strict=True))


def _of_groups(
    executor: DriverExecutor, work: ZoneWork, zone: int, program: ZonePrograms, context: ZoneContext,
    sent: Mapping[str, list[Sent]], before: Snapshot,
) -> Iterator[tuple[str, Sent]]:  # fmt: skip
    """What Spark says of the groups that the rows `sent` touch, and where it goes.  A fill finds what batches keep for
    other views as of `before`."""
    wanted = []
    for operator in program.spark_groups(zone):
        reverse = program.operators[operator.input]
        assert isinstance(reverse, plan.ReverseJoin)
        shares = sent.get(f"x:{reverse.exchange}")
        if not shares:
            continue
        trace, known = context.trace(reverse.state), context.trace(operator.state)
        groups = touched_groups(operator, reverse, program.exchanges[reverse.exchange], shares, trace, known)
        if groups is None:
            continue
        if program.writes(operator.state) is None:
            wanted.append(groups)
        else:
            kept = groups.keys.rows_of(before.trace(operator.state))
            yield group_target(operator), Sent(kept.rows, groups.keys.hashes[kept.key])
    if wanted:
        said = said_of_groups(_asked(executor), wanted, work.title, program.zone)
        yield from ((group_target(each.operator), share) for each, share in zip(wanted, said, strict=True))


def _by_python(memo: plan.Memo, call: PythonCall, new: NewValues, zone: str) -> Sent:
    try:
        return by_python(call, new, zone)
    except FunctionUnfit as error:
        raise OperatorFailed(f"operator {memo.id} failed: {error}") from error


def _asked(executor: DriverExecutor) -> Answers:
    if executor.answers is None:
        raise Error("this view's query is answered by Spark, and this driver runs without it")
    return executor.answers


def _answer(
    answered: Answers, operator: plan.SparkAnswer, title: str, zone: str, now: Callable[[StateSpec], Trace]
) -> Rows:
    """The rows of the operator's state, as Spark says now."""
    try:
        tables = {each.name: _table(each, now(each.stored.state), zone) for each in operator.inputs}
        answer = answered(SparkQuestion(title, zone, operator.sql, tables, operator.columns))
    except (Error, OSError, MemoryError):
        raise  # a shortage, or the loss of Spark: no fault of the view's
    except Exception as error:
        raise OperatorFailed(f"operator {operator.id} failed: {type(error).__name__}: {error}") from error
    if isinstance(answer, QueryRaised):
        columns = [pa.nulls(1, physical_type(column.type)) for column in operator.columns]
        text = error_text(answer.code, answer.place, answer.message)
        return Rows([*columns, pa.array([text], pa.large_string())], np.ones(1, np.int64))
    columns = physical_columns(answer, operator.columns)
    return Rows([*map(canonical, columns), pa.nulls(len(answer), pa.large_string())], np.ones(len(answer), np.int64))


def physical_columns(answer: pa.Table, columns: Sequence[Column]) -> list[pa.Array]:
    """What Spark answers, in the types of states."""
    return [_physical(answer.column(i), column) for i, column in enumerate(columns)]


def _physical(values: pa.ChunkedArray, column: Column) -> pa.Array:
    return pa.concat_arrays([pa.array([], physical_type(column.type)),
                             *(to_physical(chunk, column.type) for chunk in values.chunks)])  # fmt: skip


def _table(read: SparkInput, trace: Trace, zone: str) -> pa.Table:
    """The rows of a table or view as users see them, equal ones as often as there are."""
    rows = trace.scan()
    if read.stored.member is not None:
        rows = rows.filter(rows.columns[0].to_numpy() == read.stored.member)
    rows = rows.select(read.stored.order).repeated()
    return logical_table(read.columns, rows.columns, zone)

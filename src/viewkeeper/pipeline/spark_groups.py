"""Aggregates that no kernel of ours knows: Spark is asked for the groups that a batch touches (`plan.SparkGroups`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.arrow_tables import logical_table
from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import BIGINT, physical_type, to_physical
from viewkeeper.compiler.part_references import quoted
from viewkeeper.evaluation.error_codes import CODES, FUNCTION_RAISED, pack_error
from viewkeeper.maintenance.operators.spark_groups import TouchedGroups
from viewkeeper.maintenance.task import Sent
from viewkeeper.pipeline import spark_calls
from viewkeeper.pipeline.spark_calls import ROWS, ManyRaise, require_version
from viewkeeper.pipeline.work import Answers, QueryRaised, SparkQuestion
from viewkeeper.plans.expressions import ColumnRef
from viewkeeper.plans.outside import SparkAggregate

_LEADING = (Column("of", BIGINT, False), Column("part", BIGINT, False), Column("key", BIGINT, False))
"""What the rows of an answer say first: whose they are, of which of its SELECTs, and of which group."""

Numbers = list[tuple[int, np.ndarray]]
"""Numbers of groups, by the number of the operator that wants them."""


def said_of_groups(answered: Answers, wanted: Sequence[TouchedGroups], title: str, zone: str) -> list[Sent]:
    """What Spark says to each of `wanted`, in one query for all; a group that it raises at is found by halves."""
    return spark_calls.asked_alone(
        wanted, lambda some: _said(answered, some, title, zone), lambda each: each.operator.id
    )  # fmt: skip


def _said(answered: Answers, wanted: Sequence[TouchedGroups], title: str, zone: str) -> list[Sent]:
    for call in (call for each in wanted for call in each.operator.calls):
        require_version(call)
    asked = [_Asked(i, each, zone) for i, each in enumerate(wanted)]
    waiting: list[Numbers] = [[(each.number, each.groups.there) for each in asked if len(each.groups.there)]]
    raising = 0
    while waiting:
        groups = waiting.pop()
        if not groups:
            continue
        answer = answered(_question([(asked[i], numbers) for i, numbers in groups], title, zone))
        if not isinstance(answer, QueryRaised):
            behind = len(_LEADING)
            for i, _ in groups:
                behind = asked[i].take(answer, behind)
        elif sum(len(numbers) for _, numbers in groups) > 1:
            waiting += _halves(groups)
        else:
            raising += 1
            if raising > spark_calls.RAISING_MAX:
                raise ManyRaise(f"more than {spark_calls.RAISING_MAX} groups of one batch raise, the last of them "
                                f"{answer.code}; mend the rows, then drop the view and create it again")  # fmt: skip
            ((i, numbers),) = groups
            asked[i].errors[numbers] = pack_error(CODES.get(answer.code, FUNCTION_RAISED), None)
    return [each.answer() for each in asked]


def _halves(groups: Numbers) -> list[Numbers]:
    """The same groups in two parts."""
    if len(groups) > 1:
        return [groups[: len(groups) // 2], groups[len(groups) // 2 :]]
    ((i, numbers),) = groups
    return [[(i, half)] for half in np.array_split(numbers, 2)]


def _question(groups: Sequence[tuple[_Asked, np.ndarray]], title: str, zone: str) -> SparkQuestion:
    """One query for all, whose rows say first whose they are."""
    values = [column for each, _ in groups for column in each.outputs]
    selects = [select for each, _ in groups for select in each.selects([column.name for column in values])]
    tables = {each.table: each.rows(numbers) for each, numbers in groups}
    return SparkQuestion(title, zone, " UNION ALL ".join(selects), tables, (*_LEADING, *values))


class _Asked:
    """The groups that one operator wants, the question about them, and what was said."""

    def __init__(self, number: int, groups: TouchedGroups, zone: str) -> None:
        self.number, self.groups = number, groups
        self.errors = np.zeros(len(groups.keys), np.int64)
        self.table = f"{ROWS} {number}"
        calls = groups.operator.calls
        self.outputs = [Column(f"v{number} {i}", call.type) for i, call in enumerate(calls)]
        self._zone = zone
        self._said: list[list[tuple[np.ndarray, pa.Array]]] = [[] for _ in calls]
        self._read: dict[int, Column] = {}
        self._selects: list[tuple[dict[str, int], list[int]]] = []
        windows: list[str] = []
        for i, call in enumerate(calls):
            names: dict[str, int] = {}
            for argument, column in zip(call.arguments, call.given, strict=True):
                assert isinstance(argument, ColumnRef)
                names[column.name] = argument.index
                self._read[argument.index] = Column(f"a{argument.index}", column.type, True, column.declared)
            # Calls stand in one SELECT as long as one name means one thing.
            window = f"{call.sql} OVER {call.over}" if call.told else ""
            for at, (known, numbers) in enumerate(self._selects):
                if windows[at] == window and all(known.get(name, index) == index for name, index in names.items()):
                    known.update(names)
                    numbers.append(i)
                    break
            else:
                self._selects.append((names, [i]))
                windows.append(window)

    def selects(self, columns: Sequence[str]) -> Iterator[str]:
        """The queries that say the operator's outputs, in the places of these among `columns`."""
        for part, (names, numbers) in enumerate(self._selects):
            calls = {self.outputs[i].name: self._text(self.groups.operator.calls[i]) for i in numbers}
            values = ", ".join(f"{calls.get(name, 'NULL')} AS {quoted(name)}" for name in columns)
            given = ", ".join(f"{quoted(self._read[at].name)} AS {quoted(name)}" for name, at in names.items())
            rows = f"(SELECT key, {given} FROM {quoted(self.table)})"
            first = self.groups.operator.calls[numbers[0]]
            if first.told:
                more = f", row_number() OVER (PARTITION BY key, {first.peers} ORDER BY key) AS n" if first.peers else ""
                rows = f"(SELECT *, {first.sql} OVER {first.over} AS v{more} FROM {rows})"
                rows += " WHERE n = 1" if first.peers else ""
            key, grouped = ("0L", "") if self.groups.operator.always else ("key", " GROUP BY key")
            yield f"SELECT {self.number}L AS of, {part}L AS part, {key} AS key, {values} FROM {rows}{grouped}"

    @staticmethod
    def _text(call: SparkAggregate) -> str:
        """What says the call of a group; of rows in an order, all of them with what is said of each."""
        return f"collect_list(struct({call.told}, v))" if call.told else call.sql

    def rows(self, numbers: np.ndarray) -> pa.Table:
        """The rows of the groups `numbers` as Spark sees them, equal ones as often as there are."""
        held = self.groups.rows
        mine = np.flatnonzero(np.isin(held.key, numbers)) if len(numbers) < len(self.groups.there) else None
        key, rows = (held.key, held.rows) if mine is None else (held.key[mine], held.rows.take(mine))
        key = np.repeat(key, rows.weights)
        rows = rows.select(list(self._read)).repeated()
        columns = (Column("key", BIGINT, False), *self._read.values())
        return logical_table(columns, [pa.array(key), *rows.columns], self._zone)

    def take(self, answer: pa.Table, first: int) -> int:
        """Takes what an answer says of these groups, from its column `first` on; where those of the next begin."""
        of, part, key = (answer.column(i).to_numpy() for i in range(len(_LEADING)))
        for number, (_, calls) in enumerate(self._selects):
            mine = np.flatnonzero((of == self.number) & (part == number))
            for i in calls:
                values = answer.column(first + i).take(pa.array(mine)).combine_chunks()
                self._said[i].append((key[mine], to_physical(values, self.outputs[i].type)))
        return first + len(self.outputs)

    def answer(self) -> Sent:
        """All that was said, NULL where Spark raised."""
        there = self.groups.there
        values = []
        for output, parts in zip(self.outputs, self._said, strict=True):
            at = np.full(len(self.groups.keys), -1)
            keys = np.concatenate([keys for keys, _ in parts] or [np.zeros(0, np.int64)])
            at[keys] = np.arange(len(keys))
            said = pa.concat_arrays([pa.array([], physical_type(output.type)), *(values for _, values in parts)])
            values.append(said.take(pa.array(at[there], mask=at[there] < 0)))
        return self.groups.answered(values, self.errors[there])

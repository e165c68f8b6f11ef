"""The zone programs over states in memory: no files, no Spark, no store; any number of view servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from oracle.model import Operation
from oracle.model import canonical as canonical_value
from viewkeeper.catalog.model import ERRORS, Catalog, Column, Index, PythonFunction, StateSpec, Table, View
from viewkeeper.catalog.types import logical_type, physical_type, to_logical, to_physical
from viewkeeper.compiler.bind import BoundView, bind_table, bind_view
from viewkeeper.compiler.outside_calls import bind_with_outside_calls
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.compiler.statements import CreateTable, CreateView
from viewkeeper.errors import NotSupported
from viewkeeper.evaluation.error_codes import FUNCTION_RAISED, pack_error
from viewkeeper.maintenance import declare_tables
from viewkeeper.maintenance.operators import memo
from viewkeeper.maintenance.operators.spark_groups import target as group_target
from viewkeeper.maintenance.operators.spark_groups import touched_groups
from viewkeeper.maintenance.task import Sent
from viewkeeper.maintenance.zone_programs import ZonePrograms
from viewkeeper.maintenance.zones import run_zone
from viewkeeper.pipeline.sources import key_hashes
from viewkeeper.pipeline.spark_groups import said_of_groups
from viewkeeper.pipeline.spark_views import bind_any_view
from viewkeeper.pipeline.work import Answers
from viewkeeper.plans.maintenance import ReverseJoin
from viewkeeper.plans.outside import PythonCall, outside_call_in
from viewkeeper.plans.relations import Relation, SparkQuery, expressions_of
from viewkeeper.plans.subqueries import relations_in
from viewkeeper.streams.analyst import Analyst
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.run import Run
from viewkeeper.trace.trace import Trace, difference


class Context:
    """One task's context: reads `states`, keeps what it writes and sends apart."""

    def __init__(self, states: dict[int, list[Run]], seed: bool) -> None:
        self.states, self.seed = states, seed
        self.written: list[tuple[StateSpec, Rows]] = []
        self.sent: list[tuple[str, Rows, np.ndarray]] = []
        self.rejected: list[str] = []

    def trace(self, spec: StateSpec) -> Trace:
        return Trace(spec, self.states.get(spec.id, []))

    def write(self, spec: StateSpec, rows: Rows) -> None:
        self.written.append((spec, rows))

    def send(self, target: str, rows: Rows, hashes: np.ndarray) -> None:
        self.sent.append((target, rows, hashes))

    def reject(self, table: Table, operations: Rows, reasons: Sequence[str]) -> None:
        self.rejected += reasons

    def count(self, name: str, number: int) -> None:
        pass


class MemoryEngine:
    """Tables and views kept by the zone programs on `servers` view servers.

    `gives` are functions that no kernel knows, with what they give; `outside(name, *arguments)` computes them.
    `functions` are Python's.  With `asked`, who analyses and who answers, Spark computes aggregates that no
    kernel knows.
    """

    def __init__(
        self, tables: Sequence[str], servers: int = 1, outside: Callable[..., Any] | None = None,
        gives: Mapping[str, Column] | None = None, functions: Sequence[PythonFunction] = (),
        asked: tuple[Analyst, Answers] | None = None,
    ) -> None:  # fmt: skip
        self.asked = asked
        self.outside = outside or _nobody
        self.gives = gives or {}
        self.catalog = Catalog(functions=tuple(functions))
        self.servers = servers
        self.states: dict[int, list[Run]] = {}
        self.sequence = 0
        self.rejected: list[str] = []
        self.relations: dict[str, Relation] = {}
        self.row_ids: dict[Any, list[int]] = {}
        for text in tables:
            (statement,) = parse_script(text)
            assert isinstance(statement, CreateTable)
            bound = bind_table(statement, self.catalog.zone)
            self.catalog = declare_tables.declare_table(self.catalog, statement.name.name, bound)

    def declare(self, views: Sequence[str], *, together: bool = False) -> None:
        """Declares views, one after another or in one declaration (then none reads another)."""
        texts = [";".join(views)] if together else views
        for text in texts:
            statements = [s for s in parse_script(text) if isinstance(s, CreateView)]
            bound = [self._bound(statement) for statement in statements]
            self.catalog = declare_tables.declare_views(self.catalog, bound)
            self.relations.update({view.name: view.relation for view in bound})

    def _bound(self, statement: CreateView) -> BoundView:
        if self.asked is not None:
            bound = bind_any_view(self.catalog, statement, self.asked[0])
            every = [e for each in relations_in(bound.relation) for e in expressions_of(each)]
            if isinstance(bound.relation, SparkQuery) or any(map(outside_call_in, every)):
                raise NotSupported("this takes more of Spark than groups")
            return bound

        def typed(sql: str, columns: tuple[Column, ...], aggregate: bool, ordered: bool) -> Column:
            return self.gives[sql.split("(")[0]]

        def bind(query: QueryText) -> BoundView:
            return bind_view(self.catalog, replace(statement, query=query, refused=None) if self.gives else statement)

        return bind_with_outside_calls(statement.query, typed, "", bind) if self.gives else bind(statement.query)

    def unfilled(self) -> frozenset[int]:
        items: list[View | Index] = [*self.catalog.views, *self.catalog.indexes]
        return frozenset(i.id for i in items if i.filled is None)

    def fill(self) -> None:
        """Fills what is declared and not filled, from all rows."""
        self.start_fill()
        self.finish_fill()

    def start_fill(self) -> None:
        """Reads the tables as they are now; changes after it are taken by `finish_fill`."""
        self.filling = self.unfilled()
        self.held = {id_: list(runs) for id_, runs in self.states.items()}
        program = ZonePrograms(self.catalog, self.filling)
        inbox = {}
        for id_ in program.tables:
            rows = self._declared_order(program.table(id_), self._delta(program.table(id_), self.held).scan())
            inbox[f"delta:{id_}"] = rows
        self.private = self._run(program, self._sent(program, inbox), {}, seed=True)

    def finish_fill(self) -> None:
        """Takes the changes since `start_fill`, and makes the views readable."""
        program = ZonePrograms(self.catalog, self.filling)
        inbox = {}
        for id_ in program.tables:
            table = program.table(id_)
            changes = difference(self._delta(table, self.held), self._delta(table, self.states))
            inbox[f"delta:{id_}"] = self._declared_order(table, changes)
        before = {id_: list(runs) for id_, runs in self.held.items()}
        _add(before, self.private)
        _add(self.private, self._run(program, self._sent(program, inbox), before, seed=False))
        for id_, runs in self.private.items():
            self.states[id_] = runs + self.states.get(id_, [])
        self.catalog = declare_tables.mark_filled(self.catalog, self.filling, 1)

    def apply(self, batch: Sequence[Operation]) -> None:
        """One batch of operations."""
        blocks: dict[str, list[Rows]] = {}
        for operation in batch:
            table = self.catalog.find(operation.table)
            assert isinstance(table, Table)
            for row in operation.rows:
                self.sequence += 1
                row_id = None if table.key else self._row_id(table, operation, row)
                if table.key or row_id is not None:
                    blocks.setdefault(f"ops:{table.id}", []).append(self._block(table, operation, row, row_id))
        self.take({target: Rows.concat(rows) for target, rows in blocks.items()})

    def take(self, inbox: dict[str, Rows]) -> None:
        """One batch of operations as zone 1 gets them, by target."""
        program = ZonePrograms(self.catalog)
        _add(self.states, self._run(program, self._sent(program, inbox), self.states, seed=False))

    def rows(self, view: str) -> list[tuple[Any, ...]]:
        """What the view holds, columns in declared order, as many times as it holds it; arrays, structs and maps as the
        bytes that they are held as."""
        item = self.catalog.find(view)
        assert isinstance(item, (View, Table, Index)) and not isinstance(item, Index)
        stored = item.stored
        rows = Trace(stored.state, self.states.get(stored.state.id, [])).scan()
        if stored.member is not None:
            rows = rows.filter(rows.columns[0].to_numpy() == stored.member)
        columns = [rows.columns[p] if c.type.is_nested else to_logical(rows.columns[p], c.type)
                   for p, c in zip(stored.order, item.columns, strict=True)]  # fmt: skip
        found = zip(*(c.to_pylist() for c in columns), strict=True)
        return [row for row, weight in zip(found, rows.weights, strict=True) for _ in range(weight)]

    def errors(self, view: str) -> list[tuple[Any, ...]]:
        item = self.catalog.find(view)
        assert isinstance(item, View)
        rows = Trace(ERRORS, self.states.get(ERRORS.id, [])).scan()
        found = zip(*(c.to_pylist() for c in rows.columns), rows.weights.tolist(), strict=True)
        return [row for *row, weight in found for _ in range(weight) if row[0] == item.id]  # type: ignore[misc]

    def _delta(self, table: Table, states: dict[int, list[Run]]) -> Trace:
        return Trace(table.stored.state, states.get(table.stored.state.id, []))

    @staticmethod
    def _declared_order(table: Table, rows: Rows) -> Rows:
        order = table.stored.order if table.key else (*table.stored.order, 0)
        return rows.select(order)

    def _sent(self, program: ZonePrograms, inbox: dict[str, Rows]) -> list[tuple[str, Rows, np.ndarray]]:
        sent = []
        for target, rows in inbox.items():
            table = program.table(int(target.split(":")[1]))
            sent.append((target, rows, key_hashes(table, rows)))
        return sent

    def _run(
        self,
        program: ZonePrograms,
        waiting: list[tuple[str, Rows, np.ndarray]],
        states: dict[int, list[Run]],
        seed: bool,
    ) -> dict[int, list[Run]]:
        new: dict[int, list[Run]] = {}
        for zone in range(1, program.depth + 1):
            here = [w for w in waiting if program.zone_of(w[0]) == zone]
            waiting = [w for w in waiting if program.zone_of(w[0]) != zone]
            here += self._said(program, zone, here, states)
            for server in range(self.servers):
                inbox: dict[str, list[Sent]] = {}
                for target, rows, hashes in here:
                    mine = np.flatnonzero((hashes >> np.uint64(56)) % np.uint64(self.servers) == server)
                    if len(mine):
                        inbox.setdefault(target, []).append(Sent(rows.take(mine), hashes[mine]))
                context = Context(states, seed and zone == 1 and server == 0)
                run_zone(program, zone, inbox, context)
                waiting += context.sent
                self.rejected += context.rejected
                for spec, rows in context.written:
                    run = Run.of(spec, rows)
                    if run is not None:
                        new.setdefault(spec.id, []).append(run)
        assert not waiting, "everything that was sent has been taken"
        return new

    def _said(
        self, program: ZonePrograms, zone: int, here: list[tuple[str, Rows, np.ndarray]], states: dict[int, list[Run]]
    ) -> list[tuple[str, Rows, np.ndarray]]:
        """What `outside` says to the MEMOs of a zone, each value by itself."""
        answers = list(self._of_groups(program, zone, here, states))
        for operator in program.memos(zone):
            sent = [Sent(rows, hashes) for to, rows, hashes in here if to == f"x:{operator.exchange}"]
            if not sent:
                continue
            trace = Trace(operator.state, states.get(operator.state.id, []))
            new = memo.unknown(operator, program.exchanges[operator.exchange], sent, trace, program.zone)
            if isinstance(operator.call, PythonCall):
                answer = memo.by_python(operator.call, new, program.zone)
                answers.append((memo.target(operator), answer.rows, answer.hashes))
                continue
            values, errors = [], new.errors.copy()
            types = [argument.type for argument in operator.call.arguments]
            columns = [to_logical(c, type_).to_pylist() for c, type_ in zip(new.arguments, types, strict=True)]
            for i, arguments in enumerate(zip(*columns, strict=True)):
                value = None
                if not errors[i]:
                    try:
                        value = self.outside(operator.call.name, *arguments)
                    except ArithmeticError:
                        errors[i] = pack_error(FUNCTION_RAISED, None)
                values.append(value)
            said = to_physical(pa.array(values, logical_type(operator.call.type)), operator.call.type)
            answer = new.answered(said, errors)
            answers.append((memo.target(operator), answer.rows, answer.hashes))
        return answers

    def _of_groups(
        self, program: ZonePrograms, zone: int, here: list[tuple[str, Rows, np.ndarray]], states: dict[int, list[Run]]
    ) -> Iterator[tuple[str, Rows, np.ndarray]]:
        """What Spark says of the touched groups of a zone."""
        wanted = []
        for operator in program.spark_groups(zone):
            reverse = program.operators[operator.input]
            assert isinstance(reverse, ReverseJoin)
            sent = [Sent(rows, hashes) for to, rows, hashes in here if to == f"x:{reverse.exchange}"]
            if sent:
                trace, known = (Trace(each, states.get(each.id, [])) for each in (reverse.state, operator.state))
                groups = touched_groups(operator, reverse, program.exchanges[reverse.exchange], sent, trace, known)
                wanted += [] if groups is None else [groups]
        assert not wanted or self.asked is not None
        if wanted and self.asked is not None:
            for each, said in zip(wanted, said_of_groups(self.asked[1], wanted, "", program.zone), strict=True):
                yield group_target(each.operator), said.rows, said.hashes

    def _row_id(self, table: Table, operation: Operation, row: dict[str, Any]) -> int | None:
        """The hidden row id of a put row, or of one row equal to a deleted one, as the store finds it."""
        values = tuple(repr(canonical_value(row.get(c.name))) for c in table.columns)
        held = self.row_ids.setdefault((table.name, values), [])
        if operation.kind in ("put", "put_many"):
            held.append(self.sequence)
            return self.sequence
        return held.pop() if held else None

    def _block(self, table: Table, operation: Operation, row: dict[str, Any], row_id: int | None) -> Rows:
        names = [c.name for c in table.columns]
        kind = {"put": 0, "put_many": 0, "delete": 1, "delete_columns": 2}[operation.kind]
        values = dict(row)
        if kind == 2:
            values.update(dict.fromkeys(operation.columns))
        columns = []
        for column in table.columns:
            one = pa.array([values.get(column.name)], logical_type(column.type))
            columns.append(to_physical(one, column.type))
        if not table.key:
            columns.append(pa.array([row_id], physical_type(table.stored.state.columns[0].type)))
        bits = sum(1 << i for i, name in enumerate(names) if name in values)
        mask = bits.to_bytes((len(names) + 7) // 8, "little")
        columns += [
            pa.array([kind], pa.int8()), pa.array([mask], pa.binary(len(mask))), pa.array([0], pa.int32()),
            pa.array([self.sequence], pa.int64()), pa.array([self.sequence], pa.int64()),
        ]  # fmt: skip
        return Rows(columns, np.ones(1, dtype=np.int64))


def _nobody(name: str, *arguments: Any) -> Any:
    raise AssertionError(f"nobody computes {name}")


def _add(states: dict[int, list[Run]], new: dict[int, list[Run]]) -> None:
    for id_, runs in new.items():
        states[id_] = [*states.get(id_, []), *runs]

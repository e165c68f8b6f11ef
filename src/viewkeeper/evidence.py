"""What a check is shown of a database: DELTA, the store, the logs, the views and the parts as readers get them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.arrow_tables import logical_table
from viewkeeper.catalog.model import (
    ERRORS,
    REJECTED,
    Catalog,
    Column,
    InParts,
    PartView,
    StateSpec,
    Stream,
    Table,
    View,
)
from viewkeeper.catalog.operation_kinds import DELETE, FROM, TO
from viewkeeper.catalog.outside_store import NEVER
from viewkeeper.catalog.types import BIGINT, logical_type
from viewkeeper.changes.operations import TableForm
from viewkeeper.changes.positions import Cut, LogPlace, Positions, logs_of, of_nodes
from viewkeeper.changes.verify import operation_from_bytes
from viewkeeper.checker.cell_replay import Cells, KeyRange, KnownCells
from viewkeeper.checker.check import ROW_ID, StoreRows, Unproved
from viewkeeper.checker.delta_proof import Key, KeyedTable, LoggedOperation, replay
from viewkeeper.checker.row_evaluator import ErrorRow
from viewkeeper.checker.value_rules import canonical
from viewkeeper.compiler.bind import bind_rows_of_view
from viewkeeper.compiler.namespace import PART_TIMESTAMP, of_whole_parts
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.statements import SelectStatement
from viewkeeper.errors import Damaged, Error, LayoutChanged
from viewkeeper.pipeline.whole_parts import arrivals_below
from viewkeeper.plans.cell_states import CellStates
from viewkeeper.plans.maintenance import Delta, Memo, plan_of
from viewkeeper.plans.outside import PythonCall
from viewkeeper.plans.relations import Relation, SparkQuery
from viewkeeper.stores.logs import Logs, ends_behind, require_same_identity
from viewkeeper.stores.outside.said import untagged
from viewkeeper.stores.value_conversion import to_python
from viewkeeper.streams.existing import ExistingParts
from viewkeeper.streams.part_files import PART, read_part, verify_part_file
from viewkeeper.streams.part_index import PartIndex, read_index
from viewkeeper.streams.subscripts import UNBOUNDED
from viewkeeper.streams.view_progress import ViewProgress
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.trace import Trace
from viewkeeper.views.parts_at_version import Parts
from viewkeeper.views.shape import Shape
from viewkeeper.views.version import Version

_KINDS = ("put", "delete", "delete_columns", "update", "from", "behind", "to", "before")


def as_kept(catalog: Catalog) -> Catalog:
    """`catalog` with each function of Python's as views call it that can be read: its new code may be on its way."""
    calls = (o.call for o in plan_of(catalog).operators if isinstance(o, Memo))
    called = [call.function for call in calls if isinstance(call, PythonCall)]
    oldest = {each.name.lower(): each for each in sorted(called, key=lambda each: -each.version)}
    return replace(catalog, functions=tuple(oldest.get(each.name.lower(), each) for each in catalog.functions))


class DatabaseEvidence:
    """One database at one version (`checker.check.Evidence`)."""

    def __init__(self, version: Version, logs: Logs) -> None:
        self.catalog, self.version = as_kept(version.catalog), version.number
        self._version, self._logs, self._store = version, logs, logs.store

    def delta(self, table: Table) -> pa.Table:
        """DELTA's rows, the hidden row id last where there is no primary key."""
        rows = self._verified(table.stored.state).scan()
        order = table.stored.order if table.key else (*table.stored.order, 0)
        return logical_table(_columns(table), rows.select(order).columns, self.catalog.zone)

    def store(self, table: Table) -> StoreRows:
        """The store's rows in one read, and the log from this version's positions up to it."""
        schema = self.delta(table).slice(0, 0).schema
        if table.outside is not None:
            try:
                return self._outside(table, schema)
            except (Damaged, LayoutChanged):  # these are of our own files
                raise
            except Error as error:
                raise Unproved(untagged(str(error))) from error
        with self._store.scan(table) as scan:
            self._require_same_log()
            # A store may hold NULL where the table takes none: its own schema says nothing here.
            batches = [pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in scan.batches]
            rows = pa.Table.from_batches(batches, schema)
        operations = list(self._logged(table, scan.positions, of_nodes(self._version.snapshot.positions)))
        return StoreRows(rows, operations, list(self._rejected_keys(table)))

    def _outside(self, table: Table, schema: pa.Schema) -> StoreRows:
        """The rows of a table in an outside store, which others write meanwhile: those that are read, with what the
        log says from before the first on; or all that the log says, where there is nothing else."""
        opened = self._logs.outside.of(table)
        snapshot = self._version.snapshot
        if opened.has_rows:
            begin = ends_behind(opened, snapshot.positions, snapshot.hashes)
            scanned = list(opened.scan(begin.positions))
        else:
            begin, scanned = opened.start(), []
            require_same_identity(table, snapshot.hashes, begin)
        read = [self._decoded(table, opened.form.as_rows(rows, -1, np.zeros(len(rows), np.int64), stamps))
                for each in scanned for rows, stamps in each.operations]  # fmt: skip
        bad = [each for block in scanned for each in block.bad]
        ends = opened.ends()
        require_same_identity(table, logs_of(table.id, begin.identities), ends)
        since = list(self._logged(table, logs_of(table.id, ends.positions), logs_of(table.id, begin.positions)))
        operations = list(self._logged(table, logs_of(table.id, ends.positions), snapshot.positions))
        cells = self._cells(table, operations)
        if cells is not None:
            nothing = replace(cells, keys={}, ranges=())
            rows = list(nothing.replay([*chain(*read), *since], _keyed(table), None).rows.values())
        else:
            rows = list(replay({}, chain(*read, since), _keyed(table)).rows.values())
        unsure = _in_several_parts([*since, *operations]) if cells is None else []
        decoders = [to_python(table.columns[i].type, self.catalog.zone) for i in table.key]
        none = [tuple(value if decode is None else decode(value)
                      for value, decode in zip(each.key, decoders, strict=True))
                for each in bad if each.key is not None]  # fmt: skip
        left_out = [*self._rejected_keys(table), *unsure, *none]
        said = [untagged(each.message) for each in bad]
        return StoreRows(pa.Table.from_pylist(rows, schema), operations, left_out, cells, said)

    def _cells(self, table: Table, operations: Sequence[LoggedOperation]) -> KnownCells | None:
        """What DELTA has seen of cells with timestamps, of the keys that `operations` may touch."""
        (delta,) = (o for o in plan_of(self.catalog).operators if isinstance(o, Delta) and o.table == table.id)
        if delta.cells is None:
            return None
        key, zone = [table.columns[i] for i in table.key], self.catalog.zone
        names = [column.name for i, column in enumerate(table.columns) if i not in table.key]
        firsts = pa.array({op.key[0] for op in operations}, logical_type(key[0].type, zone))
        rows = {tuple(canonical(row[c.name]) for c in key): row
                for row in _having(self.delta(table), key[0].name, firsts).to_pylist()}  # fmt: skip
        seen = self._verified(delta.cells.stamps).scan()
        shown = logical_table([*key, *delta.cells.stamps.columns[len(key) :]], seen.columns, zone)
        keys = {}
        for seen_row in _having(shown, key[0].name, firsts).to_pylist():
            *at, deleted, made = (canonical(value) for value in list(seen_row.values())[: len(key) + 2])
            row, stamps = rows.get(tuple(at), {}), list(seen_row.values())[len(key) + 2 :]
            cells = {name: (stamp, row.get(name)) for name, stamp in zip(names, stamps, strict=True) if stamp > NEVER}
            keys[tuple(at)] = Cells(deleted, made, cells)
        partition = delta.state.together
        return KnownCells(delta.cells.ties, partition, keys, self._ranges(delta.cells, key, partition))

    def _ranges(self, cells: CellStates, key: list[Column], partition: int) -> list[KeyRange]:
        if cells.ranges is None:
            return []
        behind = key[partition:]
        shape = [replace(c, name=f"{side} {c.name}", nullable=True) for side in ("low", "high") for c in behind]
        rows = self._verified(cells.ranges).scan()
        width = partition + len(shape)
        named = logical_table([*key[:partition], *shape], rows.columns[:width], self.catalog.zone).to_pylist()
        numbers = zip(*(column.to_pylist() for column in rows.columns[width:]), strict=True)
        found = []
        for row, (lower, low_kind, upper, high_kind, stamp) in zip(named, numbers, strict=True):
            values = [canonical(value) for value in row.values()]
            low, high = values[partition : partition + lower], values[partition + len(behind) :][:upper]
            is_in = low_kind == FROM, high_kind == TO
            found.append(KeyRange(tuple(values[:partition]), tuple(low), is_in[0], tuple(high), is_in[1], stamp))
        return found

    def rows_of_parts(self, of: InParts) -> pa.Table:
        """The rows of all parts that are there, open ones too; of a stream, last PART_TIMESTAMP."""
        parts = self._version.parts_of(of)
        index, snapshot = read_index(self._version.snapshot).get(of.id, PartIndex()), self._version.snapshot
        for file in {piece.file for run in index.runs(-UNBOUNDED, UNBOUNDED) for piece in run.pieces}:
            verify_part_file(snapshot.storage.disk, snapshot.files[file])
        block, subscripts = parts.rows(index.filled(-UNBOUNDED, UNBOUNDED).tolist())
        if isinstance(of, PartView):
            return logical_table(of.columns, block.columns, self.catalog.zone)
        times = pa.array(subscripts * (of.length * 1_000_000))
        return logical_table((*of.columns, PART_TIMESTAMP), [*block.columns, times], self.catalog.zone)

    def beyond(self, view: View) -> str:
        """Which rows of the view are of parts that are gone."""
        known = ExistingParts(self._version.snapshot)
        gone = [(source, lost) for source in arrivals_below(self.catalog, view)
                if source.object in view.reads and not source.forgets
                and (lost := known.lost(source.object)) is not None and lost != source.since]  # fmt: skip
        why = "parts of {} before {} have expired, and the view may have their rows"
        return "; ".join(dict.fromkeys(why.format(source.name, lost) for source, lost in gone))

    def view_rows(self, view: View) -> pa.Table:
        """What readers get, error rows or not."""
        shape = Shape(view, None, self.catalog.zone)
        state = self._verified(view.stored.state).scan()
        return shape.table(shape.shown(state).repeated().columns)

    def error_rows(self, view: View) -> Sequence[ErrorRow]:
        """The view's own error rows."""
        found = self._verified(ERRORS).get([view.id])
        return [ErrorRow(*map(str, row[1:])) for row, weight in found for _ in range(weight)]

    def relation(self, view: View) -> Relation:
        """The view's query, bound anew, or as what Spark is asked."""
        if view.asked is not None:
            return SparkQuery(view.asked, (), view.columns, "")
        (select,) = parse_script(view.sql)
        assert isinstance(select, SelectStatement), "a view's text is a query"
        return bind_rows_of_view(of_whole_parts(self.catalog.seen_at(view.saw)), select)

    def _verified(self, state: StateSpec) -> Trace:
        """A state whose bytes are those that were written; raises `Damaged`, naming file and region."""
        trace = self._version.snapshot.trace(state)
        for run in trace.runs:
            run.verify()
        return trace

    def _require_same_log(self) -> None:
        """Raises StoreReplaced where the store is not the one that this version has read."""
        snapshot = self._version.snapshot
        for node in range(self._store.nodes):
            (place,) = self._store.compare(node, (snapshot.positions.get(node, 0), snapshot.hashes.get(node, "")))
            if place in (LogPlace.OTHER, LogPlace.BEYOND):
                self._store.require_same(snapshot.positions, snapshot.hashes)

    def _logged(self, table: Table, upto: Positions, after: Positions) -> Iterator[LoggedOperation]:
        log = self._logs.reader
        for slice_ in log.slices(Cut.between(after, upto)):
            for _, rows in log.read(slice_, {table.id: table}).operations:
                yield from self._decoded(table, rows)

    def _decoded(self, table: Table, rows: Rows) -> Iterator[LoggedOperation]:
        width = len(_columns(table))
        decoders = [to_python(column.type, self.catalog.zone) for column in _columns(table)]
        columns = [_values(column, decode) for column, decode in zip(rows.columns[:width], decoders, strict=True)]
        kinds, masks, nodes, sequences, stamps = (column.to_pylist() for column in rows.columns[width : width + 5])
        key = table.key or (width - 1,)
        entries = zip(kinds, masks, nodes, sequences, stamps, strict=True)
        for i, (kind, mask, node, sequence, stamp) in enumerate(entries):
            whole = {c.name: columns[j][i] for j, c in enumerate(table.columns)}
            named = {} if kind == DELETE else {c.name: whole[c.name] for j, c in enumerate(table.columns)
                                               if mask[j // 8] >> j % 8 & 1}  # fmt: skip
            unnamed = {name: value for name, value in whole.items() if name not in named}
            yield LoggedOperation(
                _KINDS[kind], tuple(columns[j][i] for j in key), named, node, sequence, unnamed, stamp
            )

    def _rejected_keys(self, table: Table) -> Iterator[Key]:
        """The keys of rejected operations, as far as their bytes name one."""
        zone = self.catalog.zone
        form = TableForm(table, zone)
        rejected = self._verified(REJECTED).scan()
        tables, operations = rejected.columns[0].to_pylist(), rejected.columns[5].to_pylist()
        for id_, operation in zip(tables, operations, strict=True):
            decoded = operation_from_bytes(operation, form) if id_ == table.id and table.key else None
            if decoded is not None:
                carried = form.carried(decoded.kind)
                keys = [_values(decoded.columns[carried.index(i)], to_python(form.types[i], zone)) for i in table.key]
                yield from zip(*keys, strict=True)


class PartEvidence:
    """Streams and the views over them at one version: what parts there are, their rows, and what was recorded for them.

    Rows are Arrow tables of logical types, in declared columns, of files whose bytes are those that were written: else
    `Damaged` is raised, naming the file.
    """

    def __init__(self, version: Version) -> None:
        self.catalog, self.version = version.catalog, version.number
        self._version = version
        self._verified: set[str] = set()

    def built(self, of: Stream | PartView) -> range:
        """The parts that are there."""
        parts = self._version.parts_of(of)
        return range(0) if parts.kept is None or parts.next is None else range(parts.kept, parts.next)

    def first(self, of: Stream | PartView) -> int | None:
        """The initial subscript, or a stream's first part, whether it is kept or not; None while there is none."""
        return self._version.parts_of(of).progress.first

    def stale(self, view: PartView) -> str | None:
        """Why the view is behind because of an error."""
        return self._version.parts_of(view).stale

    def with_rows(self, of: Stream | PartView, first: int, last: int) -> list[int]:
        """The parts from `first` to `last` that are there and have rows."""
        return self._version.parts_of(of).with_rows(first, last)

    def runs(self, of: Stream | PartView, first: int, last: int) -> list[tuple[int, int]]:
        """The same parts, those of a run that have the same pieces as one: (first, last)."""
        return [(run.part, run.last) for run in self._version.parts_of(of).runs(first, last)]

    def counts(self, of: Stream | PartView) -> Mapping[int, tuple[int, int]]:
        """For each part with rows, of equal ones in a run for the first: how many the part catalog says, and how many
        its pieces have."""
        built = self.built(of)
        runs = self._index(of.id).runs(built.start, built.stop - 1) if built else []
        return {run.part: (run.rows, sum(piece.rows for piece in run.pieces)) for run in runs}

    def rows_in(self, of: Stream | PartView) -> int:
        """How many rows all parts that are there have."""
        return self._version.parts_of(of).count()

    def numbered(self, of: Stream | PartView, parts: Iterable[int]) -> tuple[pa.Table, np.ndarray]:
        """The rows of some parts, behind them the part (`PART`) that the file itself says; and the part (int64) that
        the part catalog gives to each row."""
        chosen = list(parts)
        rows = [found for found in map(self._index(of.id).at, chosen) if found is not None]
        pieces = [piece for row in rows for piece in row.pieces]
        self._verify(piece.file for piece in pieces)
        columns = (*of.columns, Column(PART, BIGINT, False))
        wide = Parts(self._version.snapshot, replace(of, columns=columns), self._index(of.id))
        block, subscripts = wide.rows(chosen)
        lengths = [piece.rows for piece in pieces]
        if any(piece.part is not None for piece in pieces) and sum(lengths) == len(subscripts):
            marked = np.repeat(np.array([-1 if piece.part is None else piece.part for piece in pieces]), lengths)
            is_shared = np.repeat(np.array([piece.part is not None for piece in pieces]), lengths)
            block.columns[-1] = pa.array(_as_own(block.columns[-1].to_numpy(), marked, is_shared, subscripts))
        return logical_table(columns, block.columns, self.catalog.zone), subscripts

    def redo(self, view: PartView) -> int | None:
        """The part from which on all parts of a view wait to be computed anew; None: none does."""
        progress = self._version.parts_of(view).progress
        return progress.redo if isinstance(progress, ViewProgress) else None

    def rebuilt(self, view: PartView, part: int) -> Mapping[int, int] | None:
        """The versions of dimension tables with which a part was computed anew on request, by table id."""
        progress = self._version.parts_of(view).progress
        ranges = progress.rebuilt if isinstance(progress, ViewProgress) else ()
        return next((dict(each.dimensions) for each in reversed(ranges) if each.first <= part <= each.last), None)

    def recorded_runs(self, stream: Stream) -> Iterator[tuple[int, int, Mapping[int, int]]]:
        """What was recorded with the parts of a stream, by rows of the part catalog: (first, last, versions)."""
        for part in self._index(stream.id):
            yield part.part, part.last, part.dimensions

    def rows(self, of: Stream | PartView, first: int, last: int) -> pa.Table:
        """The rows of these parts, as far as they are there."""
        parts = self._version.parts_of(of)
        self._verify(piece.file for pieces in parts.pieces(first, last).values() for piece in pieces)
        return parts.table(parts.with_rows(first, last))

    def updated(self, of: Stream | PartView, part: int) -> int:
        """The version that made or last changed a part that is there."""
        return self._version.parts_of(of).last_updated(part).version

    def recorded(self, stream: Stream, part: int) -> Mapping[int, int]:
        """The versions of dimension tables that were recorded with a sealed part, by table id."""
        found = self._index(stream.id).at(part)
        return {} if found is None else found.dimensions

    def is_kept(self, dimension: int, version: int) -> bool:
        """Whether there is a copy of a dimension table (its id) as of a recorded version."""
        return self._index(dimension).at(version) is not None

    def dimension(self, of: Table | View, version: int) -> pa.Table:
        """The rows of a dimension table as of a recorded version, as views over streams read them."""
        found = self._index(of.id).at(version)
        pieces = () if found is None else found.pieces
        self._verify(piece.file for piece in pieces)
        block = read_part(self._version.snapshot.storage.disk, pieces, of.columns)
        return logical_table(of.columns, block.columns, self.catalog.zone)

    def _index(self, id_: int) -> PartIndex:
        return read_index(self._version.snapshot).get(id_, PartIndex())

    def _verify(self, files: Iterable[str]) -> None:
        snapshot = self._version.snapshot
        for file in set(files) - self._verified:
            verify_part_file(snapshot.storage.disk, snapshot.files[file])
            self._verified.add(file)


def _as_own(marks: np.ndarray, marked: np.ndarray, is_shared: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """What a file says of which part rows are, with the part that has them where equal parts share the rows and the
    file names the part (`marked`) in whose name they stand."""
    expected = np.where(is_shared, marked, parts)
    return np.where(marks == expected, parts, np.where(marks == parts, expected, marks))


def _keyed(table: Table) -> KeyedTable:
    columns = _columns(table)
    return KeyedTable(columns, tuple(columns[i].name for i in table.key or (len(table.columns),)))


def _having(rows: pa.Table, column: str, values: pa.Array) -> pa.Table:
    """The rows that have one of `values` in `column`."""
    return rows.filter(pc.is_in(rows[column], value_set=values))


def _in_several_parts(operations: Iterable[LoggedOperation]) -> list[Key]:
    """The keys of which no log says what came last: of a topic that has got more partitions, say."""
    nodes: dict[Key, set[int]] = {}
    for operation in operations:
        nodes.setdefault(operation.key, set()).add(operation.node)
    return [key for key, found in nodes.items() if len(found) > 1]


def _columns(table: Table) -> tuple[Column, ...]:
    return table.columns if table.key else (*table.columns, ROW_ID)


def _values(column: pa.Array, decode: Any) -> list[Any]:
    values = column.to_pylist()
    return values if decode is None else [None if value is None else decode(value) for value in values]

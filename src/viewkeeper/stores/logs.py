"""The logs of all base tables of a database: those of the embedded store, and those of tables in outside stores."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace

from viewkeeper.catalog.model import Catalog, Table
from viewkeeper.changes.operations import TableForm
from viewkeeper.changes.positions import (
    Cut,
    Hashes,
    LogName,
    Positions,
    by_part,
    is_reached,
    log_of,
    logs_of,
    of_nodes,
    operations_between,
    part_of,
    table_of,
)
from viewkeeper.changes.verify import LogBatch
from viewkeeper.errors import Error, LogLost, StoreAway
from viewkeeper.stores.contract import NO_HASHES, WHOLE_RING, Interval, LogReader, LogSlice, Store
from viewkeeper.stores.outside.contract import LogEnds, OutsideTable, PartRange, is_another
from viewkeeper.stores.outside.opened import OutsideTables
from viewkeeper.stores.outside.said import said_of, told_of, untagged

AWAY_SECONDS = (0.5, 10.0)
"""Between two looks at a store that does not answer: at first, and at most."""

UNASKED_SECONDS = 5.0

LOOK_SECONDS = 1.0
"""A look at a store that answers is over by then."""

_LOST = f"{LogLost.__module__}.{LogLost.__qualname__}: "
"""How Spark, which hands on text, names the class of what a task raised."""


class AllLogs:
    """Reads the embedded store's logs and outside ones (`contract.LogReader`), in any process."""

    def __init__(self, embedded: LogReader, zone: str) -> None:
        self._embedded, self._zone = embedded, zone

    def cut(self, limit: int, after: Positions, hashes: Hashes = NO_HASHES) -> Cut:
        """That of the embedded store alone."""
        return self._embedded.cut(limit, of_nodes(after), hashes)

    def slices(self, cut: Cut) -> tuple[LogSlice, ...]:
        """Those of the embedded store, then each part of an outside log."""
        nodes = replace(cut, positions=of_nodes(cut.positions))
        outside = [
            PartRange(table, part_of(log), cut.after.get(log, 0), upto, cut.hashes.get(log, ""))
            for log, upto in cut.positions.items()
            if isinstance(log, str) and upto > cut.after.get(log, 0) and (table := table_of(log)) is not None
        ]
        return (*self._embedded.slices(nodes), *outside)

    def read(self, slice_: LogSlice, tables: Mapping[int, Table], interval: Interval = WHOLE_RING) -> LogBatch:
        """See `contract.LogReader`."""
        if not isinstance(slice_, PartRange):
            return self._embedded.read(slice_, tables, interval)
        if slice_.table not in tables:
            raise Error(f"the log {log_of(slice_.table, slice_.part)} is of a table that is not there")
        table = opened_here(self._zone).of(tables[slice_.table])
        return table.read(slice_).as_batch(TableForm(table.table, self._zone), number_of(slice_.part))

    def forget(self, positions: Positions, older_than_seconds: float) -> int:
        """That of the embedded store alone."""
        return self._embedded.forget(of_nodes(positions), older_than_seconds)


def number_of(part: str) -> int:
    """What operations and `rejected` call a part of an outside log: its own number, if it is called by one."""
    return int(part) if part.isdecimal() and int(part) < 1 << 31 else 0


_here: dict[str, OutsideTables] = {}
_opening = threading.Lock()


def opened_here(zone: str) -> OutsideTables:
    """The tables that this process has open to read their logs, kept from task to task."""
    with _opening:
        return _here.setdefault(zone, OutsideTables(zone))


class Logs:
    """The logs of a database as its driver, and who waits for it, see them.

    The ends of outside logs are looked at by a thread a table, so that a store that does not answer holds nobody up: it
    is as if nothing more had been written there, and `away` says why.
    """

    def __init__(self, store: Store, outside: OutsideTables) -> None:
        self.store, self.outside = store, outside
        self.reader = AllLogs(store.log, outside.zone)
        self._watches: dict[int, _Watch] = {}
        self._held_up: dict[int, tuple[float, str]] = {}
        self._lost: dict[int, str] = {}
        self._new_parts: dict[str, dict[LogName, int]] = {}

    @staticmethod
    def of(store: Store, zone: str = "UTC") -> Logs:
        """Those of a store, with nothing open yet in others."""
        return Logs(store, OutsideTables(zone))

    def ends(self, catalog: Catalog) -> dict[LogName, int]:
        """The ends of all logs as they were last seen; never waits for an outside store."""
        found: dict[LogName, int] = dict(self.store.ends())
        for table in followed(catalog):
            ends = self._watch(table).ends()
            if ends is not None:
                found |= logs_of(table.id, ends.positions)
        return found

    def ends_now(
        self, catalog: Catalog, after: Positions, hashes: Hashes
    ) -> tuple[dict[LogName, int], dict[int, Error]]:
        """The ends of all logs that have been read up to `after`, but for those that are found to be lost; and, by id,
        why those of some tables in outside stores are not known: StoreAway where the store does not answer."""
        found: dict[LogName, int] = dict(self.store.ends())
        unknown: dict[int, Error] = {}
        for table in followed(catalog):
            try:
                ends = ends_behind(self.outside.of(table), after, hashes)
            except LogLost as lost:
                self._lost[table.id] = str(lost)
                continue
            except Error as error:
                kind = StoreAway if isinstance(error, StoreAway) else Error
                unknown[table.id] = kind(f"{table.name}: {untagged(str(error))}")
                continue
            found |= logs_of(table.id, ends.positions)
        return found, unknown

    def ends_of(self, table: Table, after: Positions, hashes: Hashes, now: bool) -> dict[str, int]:
        """The ends of the logs of a table in an outside store, by part: as they are now, or as they were last seen.

        `after` and `hashes` say how far logs have been read, and which these were.  Raises Error where the store did
        not answer, LogLost where it has other logs.
        """
        if not now:
            watch = self._watch(table)
            ends = watch.ends((after, hashes))
            if watch.error is not None:
                raise (StoreAway if watch.lost is None else LogLost)(watch.error)
            return {} if ends is None else ends.positions
        return ends_behind(self.outside.of(table), after, hashes).positions

    def cut(self, catalog: Catalog, limit: int, after: Positions, hashes: Hashes) -> Cut:
        """The end of the batch behind `after`, of about `limit` operations: a consistent cut of the embedded store, and
        what there is of outside logs, whose tables are held up for a while where they could not be read."""
        cut = self.reader.cut(limit, after, hashes)
        positions: dict[LogName, int] = dict(cut.positions)
        identities: dict[LogName, str] = dict(cut.hashes)
        operations, backlog = cut.operations, cut.backlog
        reading = followed(catalog)
        for table in catalog.outside:
            had = {log: position for log, position in after.items() if table_of(log) == table.id}
            positions |= had
            identities |= {log: hashes[log] for log in had if log in hashes}
            if table not in reading:
                continue
            watch = self._watch(table)
            ends = watch.ends((had, hashes))
            if watch.lost is not None:
                self._lost.setdefault(table.id, watch.lost)
            if ends is None or table.id in self._lost or self._is_held_up(table.id):
                continue
            opened = self.outside.of(table)
            room = max(0, limit - operations)
            for part, end in sorted(ends.positions.items()):
                log = log_of(table.id, part)
                if had and log not in had and not self._may_begin(log, had, ends):
                    backlog = True
                    continue
                at = after.get(log, 0)
                if (known := hashes.get(log)) is not None and known != ends.identities[part]:
                    self._lost[table.id] = _replaced(table, part)
                    continue
                count = opened.estimate(at, end)
                if end <= at or not room:
                    backlog |= end > at
                    continue
                upto = end if count <= room else opened.partway(part, at, end, room)
                positions[log], identities[log] = upto, ends.identities[part]
                done = opened.estimate(at, upto)
                operations, room, backlog = operations + max(1, done), max(0, room - done), backlog or upto < end
        return Cut(positions, operations, cut.stamp, backlog, identities, after, hashes)

    def _may_begin(self, log: str, had: Mapping[LogName, int], ends: LogEnds) -> bool:
        """Whether a part that has come to a log may be read: not before all that the other parts held when it was seen
        first, for keys may have moved from them to it."""
        held = self._new_parts.setdefault(
            log, {old: ends.positions.get(part_of(str(old)), position) for old, position in had.items()}
        )
        if not is_reached(held, had):
            return False
        del self._new_parts[log]
        return True

    def hold_up(self, error: BaseException) -> bool:
        """Whether `error`, which a batch failed with, is of one outside table only: its log is left alone for a while,
        or for good where it is lost."""
        table = told_of(str(error))
        if table is None:
            return False
        lines = str(error).strip().splitlines()
        why = next(line.strip() for line in lines if told_of(line) is not None)
        if isinstance(error, LogLost) or _LOST in why:
            self._lost[table] = why.rpartition(_LOST)[2]
        else:
            self._held_up[table] = (time.monotonic() + AWAY_SECONDS[0], why)
        return True

    def lost(self, catalog: Catalog) -> dict[int, str]:
        """By table id, why logs will not be read any more: each says which table it is of."""
        return {table.id: f"{table.name}: {untagged(self._lost[table.id])}"
                for table in catalog.outside if table.id in self._lost}  # fmt: skip

    def _is_held_up(self, table: int) -> bool:
        until, _ = self._held_up.get(table, (0.0, ""))
        if time.monotonic() >= until:
            self._held_up.pop(table, None)
            return False
        return True

    def away(self, catalog: Catalog) -> dict[int, str]:
        """By table id, why the logs of tables in outside stores are not read at present."""
        found = {}
        for table in catalog.outside:
            watch = self._watches.get(table.id)
            why = self._lost.get(table.id) or (watch.error if watch is not None else None)
            if why is None and self._is_held_up(table.id):
                why = self._held_up[table.id][1]
            if why is not None:
                found[table.id] = f"{table.name}: {untagged(why)}"
        return found

    def forget(self, catalog: Catalog, positions: Positions, older_than_seconds: float) -> None:
        """What lies before `positions` will not be read again."""
        self.reader.forget(positions, older_than_seconds)
        for table in followed(catalog):
            try:
                self.outside.of(table).forget(by_part(table.id, positions))
            except StoreAway:
                continue  # It is told of by whoever reads it, and this is done the next time.

    def operations_between(self, catalog: Catalog, after: Positions, upto: Positions) -> int:
        """About how many operations lie behind `after` and not behind `upto`."""
        count = operations_between(of_nodes(after), of_nodes(upto))
        for log, position in upto.items():
            table = catalog.by_id(table_of(log) or -1)
            if isinstance(table, Table) and position > after.get(log, 0):
                count += self.outside.of(table).estimate(after.get(log, 0), position)
        return count

    def close(self) -> None:
        """No log is looked at any more: what looks through a client that is closed under it may raise anything, so
        looks end first, but for those at stores that do not answer."""
        for watch in self._watches.values():
            watch.stop()
        until = time.monotonic() + LOOK_SECONDS
        for watch in self._watches.values():
            watch.join(until - time.monotonic())
        self._watches.clear()

    def _watch(self, table: Table) -> _Watch:
        watch = self._watches.get(table.id)
        if watch is None:
            watch = self._watches[table.id] = _Watch(self.outside, table)
        watch.table = table
        return watch


def ends_behind(opened: OutsideTable, after: Positions, hashes: Hashes) -> LogEnds:
    """The ends of an outside table's logs now; raises LogLost where they cannot be read on from `after`, up to where
    logs with these `hashes` have been read."""
    ends = opened.ends()
    require_same_identity(opened.table, hashes, ends)
    require_no_less(opened, after, ends)
    return ends


def require_same_identity(table: Table, hashes: Hashes, ends: LogEnds) -> None:
    """Raises LogLost where a log of an outside table is not the one that has been read, whose identities `hashes`
    are."""
    for part, identity in ends.identities.items():
        if hashes.get(log_of(table.id, part), identity) != identity:
            raise LogLost(_replaced(table, part))


def require_no_less(opened: OutsideTable, after: Positions, ends: LogEnds) -> None:
    """Raises LogLost where a part of an outside table's log is gone that may have had more than was read up to
    `after`, and what the table says (`OutsideTable.falls_back`) where one ends before that."""
    table = opened.table
    for part, position in by_part(table.id, after).items():
        if part not in ends.positions and not opened.is_finished(part, position):
            raise LogLost(said_of(
                table.id, table.name, f"its log {part} is gone, and was read up to {position} alone, behind which it "
                "may have had more; drop the table, and create it again",
            ))  # fmt: skip
    for part, end in ends.positions.items():
        if end < (at := after.get(log_of(table.id, part), 0)):
            raise opened.falls_back(part, end, at)


def followed(catalog: Catalog) -> list[Table]:
    """The tables in outside stores whose logs are read."""
    return [table for table in catalog.outside if table.outside is not None and table.outside.scanned is not None]


def _replaced(table: Table, part: str) -> str:
    return said_of(table.id, table.name, is_another(part, "table"))


class _Watch:
    """Looks at the ends of one table's logs, in a thread of its own, for as long as somebody asks."""

    def __init__(self, outside: OutsideTables, table: Table) -> None:
        self.table = table
        self.error: str | None = None
        self.lost: str | None = None
        self._outside = outside
        self._ends: LogEnds | None = None
        self._read: tuple[Positions, Hashes] = {}, NO_HASHES
        self._asked = time.monotonic()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def ends(self, read: tuple[Positions, Hashes] | None = None) -> LogEnds | None:
        """As they were last seen; None before that.  `read`: how far they have been read, and which they were."""
        self._asked = time.monotonic()
        if read is not None:
            self._read = read
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name=f"viewkeeper {self.table.name}", daemon=True)
                self._thread.start()
        return self._ends

    def stop(self) -> None:
        self._stopped.set()

    def join(self, seconds: float) -> None:
        """Waits until nothing is looked at any more, so long at most."""
        with self._lock:
            if self._thread is not None:
                self._thread.join(max(0.0, seconds))

    def _run(self) -> None:
        pause = AWAY_SECONDS[0]
        while not self._stopped.is_set() and time.monotonic() - self._asked < UNASKED_SECONDS:
            try:
                after, hashes = self._read  # before the store is asked
                opened = self._outside.of(self.table)
                self._ends = ends_behind(opened, after, hashes)
            except Error as error:
                self.error = str(error)
                self.lost = self.error if isinstance(error, LogLost) else None
                self._stopped.wait(pause)
                pause = min(2 * pause, AWAY_SECONDS[1])
            except Exception:
                if not self._stopped.is_set():
                    raise
                # The client was closed while the store did not answer.
            else:
                self.error, pause = None, AWAY_SECONDS[0]
                self._stopped.wait(opened.poll_seconds)

"""Views as tables of Cassandra (docs/stores/views.md, docs/decisions/101-views-in-cassandra.md)."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from cassandra.concurrent import execute_concurrent
from cassandra.query import UNSET_VALUE, BatchStatement, BatchType

from viewkeeper.catalog.outside_store import Target
from viewkeeper.errors import Error, InputError
from viewkeeper.stores.outside.cassandra.table_rows import ComparedRows, RowsThere, TableRow, bound, rows_of
from viewkeeper.stores.outside.cassandra.target_marker import JOURNAL, MARKERS, TargetMarker
from viewkeeper.stores.outside.cassandra.view_layout import VERSION, TableKey, ViewLayout, quoted
from viewkeeper.stores.outside.options import choice, filled_in, require_known
from viewkeeper.stores.outside.targets import (
    Begun,
    Deviation,
    LaterEpoch,
    Marker,
    Mending,
    RowForm,
    ViewTarget,
    Written,
)
from viewkeeper.trace.rows import Rows

CONSISTENCIES = ("quorum", "local_quorum", "all")
"""With fewer replicas nobody could be promised what he reads there."""

ROWS_A_BATCH, BATCH_BYTES = 10, 4_000
"""A request is at most so many rows, and about so many bytes: servers warn of more."""

BATCHES_AT_ONCE = 64

_OPTIONAL = ("port", "username", "password", "datacenter", "consistency")


class CassandraTarget(ViewTarget):
    """A view's rows in a table of their own."""

    what: ClassVar[str] = "a table of Cassandra"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        options = filled_in(dict(target.options))
        options["consistency"] = choice(options, "consistency", CONSISTENCIES, "quorum")
        self._marker = TargetMarker(options)
        self._layout: ViewLayout | None = None
        self._is_there = False

    @classmethod
    def check(cls, options: Mapping[str, str]) -> None:
        require_known("cassandra", options, ("contact_points", "keyspace", "table"), _OPTIONAL)
        consistency = choice(options, "consistency", CONSISTENCIES, "quorum")
        if consistency == "local_quorum" and "datacenter" not in options:
            raise InputError("OPTIONS (consistency 'local_quorum'): say of which datacenter, datacenter '...'")
        if not options.get("port", "9042").isdecimal():
            raise InputError(f"OPTIONS (port {options['port']!r}): expected a number")
        for name in ("keyspace", "table"):
            if not re.fullmatch(r"\w{1,48}", options[name], re.ASCII):
                raise InputError(f"OPTIONS ({name} {options[name]!r}): a name in Cassandra has letters, digits and _, "
                                 "48 at most")  # fmt: skip
        if options["table"] in (MARKERS, JOURNAL):
            raise InputError(f"OPTIONS (table {options['table']!r}): viewkeeper keeps something else in it")

    @classmethod
    def collide(cls, one: Mapping[str, str], other: Mapping[str, str]) -> bool:
        if (one["keyspace"], one["table"]) != (other["keyspace"], other["table"]):
            return False
        return one.get("port") == other.get("port") and not _points(one).isdisjoint(_points(other))

    def require_place(self) -> None:
        self._marker.require_keyspace()

    def marker(self) -> Marker | None:
        found = self._marker.read()
        return None if found is None else found.marker

    def begin(self, mine: Marker, *, force: bool = False) -> Marker | None:
        self._is_there = False
        found = self._marker.read()
        if found is not None and found.marker.database != mine.database:
            raise self._marker.taken(f"rows of another database ({found.marker.database})")
        if found is not None and found.marker.epoch > mine.epoch and not force:
            raise LaterEpoch(f"it was written in epoch {found.marker.epoch}, and this is {mine.epoch}")
        self._marker.begin(mine, found)
        return None if found is None else found.marker

    def prepare(self, form: RowForm) -> None:
        self._laid_out(form)
        if not self._is_there:
            self._make()
            self._is_there = True

    def write(self, form: RowForm, at: Written, came: Rows, gone: Rows) -> None:
        layout = self._laid_out(form)
        rows: dict[TableKey, TableRow | None] = dict.fromkeys(layout.keys(form.keys(gone)))
        for row in rows_of(layout.cells(came)):
            rows[_key(row, layout)] = row
        self._write(layout, at, list(rows.items()), whole=True)

    def complete(self, marker: Marker) -> None:
        self._marker.complete(marker)

    def deviations(self, form: RowForm, rows: Iterable[Rows]) -> Iterator[tuple[list[Deviation], Mending]]:
        layout = self._laid_out(form)
        there = self._marker.columns()
        if not layout.fits(there):
            found = {name: cql for name, (_, cql) in there.items()}
            yield [Deviation("its columns", dict(layout.columns), found)], []
            return
        late = self._marker.unsettled() if self._marker.mine is not None else set[TableKey]()
        with self._told():
            table = RowsThere(self._marker.connection, self._marker.place, layout)
            compared = ComparedRows(table, layout.width)
        for block in rows:
            columns = layout.cells(block)
            wrong = compared.wrong(columns)
            expected = rows_of(columns)
            deviating = [row for row, is_wrong in zip(expected, wrong.tolist(), strict=True) if is_wrong]
            with self._told():
                was = table.having([_key(row, layout) for row in deviating])
            compared.found(was)
            # What older writers may have on the way is written again, though it is right.
            mending = [(key, row) for row, is_wrong in zip(expected, wrong.tolist(), strict=True)
                       if (key := _key(row, layout)) in late or is_wrong]  # fmt: skip
            late.difference_update(key for key, _ in mending)
            yield ([Deviation(layout.key_text(_key(row, layout)), layout.shown(row),
                              None if found is None else layout.shown(found))
                    for row, found in zip(deviating, was, strict=True)], mending)  # fmt: skip
        with self._told():
            for left in compared.left():
                keys = [_key(row, layout) for row in left]
                yield ([Deviation(layout.key_text(key), None, layout.shown(row))
                        for key, row in zip(keys, left, strict=True)], [(key, None) for key in keys])  # fmt: skip
        yield [], [(key, None) for key in late]

    def mend(self, at: Written, mending: Mending) -> None:
        layout = self._layout
        assert layout is not None, "what is mended has been compared"
        self._write(layout, at, mending, whole=False)

    def clear(self) -> None:
        self._marker.remove()
        self._is_there = False

    def get(self, form: RowForm, key: Rows) -> list[dict[str, Any]]:
        layout = self._laid_out(form)
        with self._told():
            table = RowsThere(self._marker.connection, self._marker.place, layout)
            (found,) = table.having([layout.keys(key)[0]])
        if found is None:
            return []
        try:
            return [layout.row(found)] * layout.times(found)
        except ValueError as error:
            raise Error(
                f"the row in Cassandra is not as it was written: {error}; viewkeeper check --repair mends it"
            ) from error

    def close(self) -> None:
        self._marker.connection.close()

    def _laid_out(self, form: RowForm) -> ViewLayout:
        if self._layout is None or not self._layout.is_of(form):
            self._layout, self._is_there = ViewLayout(form), False
        return self._layout

    def _make(self) -> None:
        """Makes the table where it is not there, or cannot have the rows: another one, of another id."""
        assert self._layout is not None, "it is laid out"
        if self._marker.mine is None:
            raise Begun("nothing was begun")
        is_whole = self._marker.mine.marker.at.version >= 0
        there = self._marker.columns()
        if there and self._layout.fits(there) and self._marker.is_there():
            return
        if is_whole:  # all is to be written, and not what has changed
            self._marker.take_back()
            raise Begun("the table cannot have the view's rows")
        id_ = uuid.uuid4()
        self._marker.take_back(id_)
        with self._told():
            session = self._marker.connection.session()
            session.execute(f"DROP TABLE IF EXISTS {self._marker.place}")
            session.execute(self._layout.create(self._marker.place, id_))
        self._marker.connection.close()  # what was prepared for the other one

    def _write(
        self, layout: ViewLayout, at: Written, rows: Sequence[tuple[TableKey, TableRow | None]], *, whole: bool
    ) -> None:  # fmt: skip
        """Writes whole rows, each in one step of the store's; of None the row goes."""
        if not rows:
            return
        stamp = self._marker.note([key for key, _ in rows], at, whole)
        with self._told():
            batches = [(batch, None) for batch in self._batches(layout, at, rows, stamp)]
            execute_concurrent(self._marker.connection.session(), batches, concurrency=BATCHES_AT_ONCE)

    def _batches(
        self, layout: ViewLayout, at: Written, rows: Sequence[tuple[TableKey, TableRow | None]], stamp: int
    ) -> Iterator[BatchStatement]:  # fmt: skip
        place, names = self._marker.place, [*layout.names, quoted(VERSION)]
        where = " AND ".join(f"{name} = ?" for name in layout.key_names)
        insert = self._marker.connection.prepared(
            f"INSERT INTO {place} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) USING TIMESTAMP ?"
        )
        delete = self._marker.connection.prepared(f"DELETE FROM {place} USING TIMESTAMP ? WHERE {where}")
        version, now, before = (number.to_bytes(8, "big", signed=True) for number in (at.version, stamp, stamp - 1))
        batch, count, size = BatchStatement(BatchType.UNLOGGED), 0, 0
        for key, row in rows:
            weight = sum(len(cell) for cell in (*key, *(row or ())) if cell is not None)
            if count == ROWS_A_BATCH or (count and size + weight > BATCH_BYTES):
                yield batch
                batch, count, size = BatchStatement(BatchType.UNLOGGED), 0, 0
            if row is None:
                batch.add(bound(delete, (now, *key)))
            else:
                if None in row:  # what is not written of it must not stay
                    batch.add(bound(delete, (before, *key)))
                cells = (UNSET_VALUE if cell is None else cell for cell in row)
                batch.add(bound(insert, (*cells, version, now)))
            count, size = count + 1, size + weight
        if count:
            yield batch

    def _told(self) -> AbstractContextManager[None]:
        return self._marker.translated()


def _key(row: TableRow, layout: ViewLayout) -> TableKey:
    """The cells of the key of a row; none of them is NULL."""
    return tuple(cell or b"" for cell in row[: layout.width])


def _points(options: Mapping[str, str]) -> set[str]:
    return {each.strip() for each in options["contact_points"].split(",")}

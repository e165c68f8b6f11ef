"""The LMDB environment in which the appends to all streams of a database wait, and what its tables hold.

<root>/streams/   one LMDB environment with three tables: entries (stream, sequence -> entry), ids (stream, id of an
                  append -> what it did; and how far an outside store is read that feeds the stream), streams (stream
                  -> its record: see `Record`)
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import lmdb

from viewkeeper.durable import sync
from viewkeeper.errors import InputError
from viewkeeper.interrupts import uninterrupted
from viewkeeper.permissions import make_folder, make_root
from viewkeeper.stores.contract import Numbered
from viewkeeper.stores.forks import forks
from viewkeeper.stores.lmdb_folders import (
    LmdbFolder,
    OpenFile,
    OpenFolders,
    enlarge,
    half_full,
    open_environment,
    open_tables,
    translated,
)
from viewkeeper.stores.locks import WriterLock
from viewkeeper.stores.outside.contract import LogEnds
from viewkeeper.stores.words import LockWords, lock_page
from viewkeeper.streams.intake.entries import ENTRY_KEY, running_hash

_STREAM = struct.Struct(">Q")
_ID_BYTES_MAX = 400


@dataclass(frozen=True)
class Appended:
    """What an append did: rows `stored` and `rejected`.  A `duplicate` stored nothing; the numbers are those of the
    first append with its id.  `sequence` is that of its entry in the stream's log, None if it left none."""

    stored: int
    rejected: int
    duplicate: bool = False
    sequence: int | None = None


@dataclass(frozen=True)
class Advance:
    """An append's id by how far it reads an outside store: from `after`, where the last one of the stream ended (None:
    it is the first), to `upto`.  One that does not begin where the last one ended is a duplicate."""

    after: LogEnds | None
    upto: LogEnds


AppendId = str | Numbered | Advance | None


@dataclass
class Record:
    """What is known of a stream: last sequence, watermark (microseconds), lowest part with a row, lowest part that no
    seal names, wall time of the last append with rows (seconds), running hash of its log; `gone`: it was dropped."""

    end: int = 0
    watermark: int | None = None
    first: int | None = None
    unsealed: int | None = None
    last: float | None = None
    hash: str = ""
    gone: bool = False


class StreamEnvironment(LmdbFolder):
    """The environment in one folder, made where it is absent; its methods take a transaction on it."""

    def __init__(self, folder: Path) -> None:
        created = not folder.exists()
        if not folder.parent.exists():
            make_root(folder.parent)
        make_folder(folder)
        super().__init__(folder)
        if created:
            for each in (folder / "data.mdb", folder, folder.parent):
                sync(str(each))

    def _open_files(self) -> None:
        with translated(self.folder):
            self._page = lock_page(self.folder / "writer.lock")
            self._lock = WriterLock(self.folder / "writer.lock", LockWords(self._page, 0))
            self._lmdb = open_environment(self.folder, sync=True)
            self._file = OpenFile(self.folder)
            self._lmdb.reader_check()
            tables: dict[bytes, dict[str, bool]] = {b"entries": {}, b"ids": {}, b"streams": {}}
            self.entries, self.ids, self.streams = open_tables(self._lmdb, self._lock, tables)

    @contextmanager
    def transaction(self, write: bool) -> Iterator[Any]:
        """A transaction; the caller keeps forks out."""
        if self.pid != os.getpid():
            self.reopen()
        self._file.require_there()
        with ExitStack() as locks:
            if write:
                locks.enter_context(uninterrupted())
                locks.callback(self._lock.release, self._lock.take())
                if half_full(self._lmdb):
                    self._enlarge()
            try:
                txn = self._lmdb.begin(write=write)
            except lmdb.MapResizedError:
                self._enlarge()
                txn = self._lmdb.begin(write=write)
            with txn:
                yield txn

    def _enlarge(self) -> None:
        with forks.alone():
            enlarge(self._lmdb)

    def is_there(self) -> bool:
        return self._file.is_there()

    def close_files(self) -> None:
        self._lmdb.close()
        self._lock.close()
        self._page.close()

    def stream_ids(self, txn: Any) -> list[int]:
        """The ids of all streams that there have been."""
        with txn.cursor(self.streams) as cursor:
            return [_STREAM.unpack(key)[0] for key in cursor.iternext(keys=True, values=False)]

    def record(self, txn: Any, stream_id: int) -> Record:
        """What is known of a stream, whether there ever was one or not."""
        data = txn.get(_STREAM.pack(stream_id), db=self.streams)
        return Record() if data is None else Record(**json.loads(data))

    def set_record(self, txn: Any, stream_id: int, record: Record) -> None:
        """Changes what is known of a stream."""
        txn.put(_STREAM.pack(stream_id), json.dumps(asdict(record)).encode(), db=self.streams)

    def put_entry(self, txn: Any, stream_id: int, record: Record, entry: bytes) -> None:
        """Puts an entry behind the end of a stream's log; `record` is changed, but not yet set."""
        record.end, record.hash = record.end + 1, running_hash(entry)
        txn.put(ENTRY_KEY.pack(stream_id, record.end), entry, db=self.entries)

    def place(self, txn: Any, stream_id: int) -> LogEnds | None:
        """How far the outside store has been read that feeds a stream; None: not yet."""
        data = txn.get(_place_key(stream_id), db=self.ids)
        return None if data is None else LogEnds(*json.loads(data))

    def known(self, txn: Any, stream_id: int, id_: AppendId) -> Appended | None:
        """What the first append with this id did, if there was one."""
        if id_ is None:
            return None
        if isinstance(id_, Advance):
            return None if self.place(txn, stream_id) == id_.after else Appended(0, 0, duplicate=True)
        data = txn.get(_id_key(stream_id, id_), db=self.ids)
        if data is None:
            return None
        number, stored, rejected, sequence = json.loads(data)
        if isinstance(id_, Numbered) and id_.number != number:
            return None if id_.number > number else Appended(0, 0, duplicate=True)
        return Appended(stored, rejected, True, sequence)

    def remember(self, txn: Any, stream_id: int, id_: str | Numbered | Advance, appended: Appended) -> None:
        """What the append with this id did."""
        if isinstance(id_, Advance):
            place = json.dumps([id_.upto.positions, id_.upto.identities]).encode()
            txn.put(_place_key(stream_id), place, db=self.ids)
            return
        number = id_.number if isinstance(id_, Numbered) else 0
        data = json.dumps([number, appended.stored, appended.rejected, appended.sequence]).encode()
        txn.put(_id_key(stream_id, id_), data, db=self.ids)

    def forget_ids(self, txn: Any, stream_id: int) -> None:
        """Deletes the ids of all appends to a stream."""
        with txn.cursor(self.ids) as cursor:
            prefix = _STREAM.pack(stream_id)
            while cursor.set_range(prefix) and cursor.key()[: len(prefix)] == prefix:
                cursor.delete()


open_environments: OpenFolders[StreamEnvironment] = OpenFolders()


def _place_key(stream_id: int) -> bytes:
    return _STREAM.pack(stream_id) + b"p"


def _id_key(stream_id: int, id_: str | Numbered) -> bytes:
    kind, text = ("n", id_.source) if isinstance(id_, Numbered) else ("s", id_)
    if not isinstance(text, str) or not text:
        raise InputError(f"id={text!r}: the id of an append is a text that is not empty")
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > _ID_BYTES_MAX:
        kind, data = kind.upper(), hashlib.sha256(data).digest()
    return _STREAM.pack(stream_id) + kind.encode() + data

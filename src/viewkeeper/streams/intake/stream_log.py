"""`StreamLog`: the log in which the appends to all streams of a database wait for the driver.

<root>/streams/   the environment (`StreamEnvironment`), and files rejected-*.arrow of rejected rows that are too many
                  for an entry
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from viewkeeper.catalog.model import Catalog, Stream
from viewkeeper.errors import Error, InputError, NotFound, StoreReplaced
from viewkeeper.stores.forks import forks
from viewkeeper.stores.lmdb_folders import translated
from viewkeeper.stores.outside.contract import LogEnds
from viewkeeper.streams.intake import entries as bytes_of
from viewkeeper.streams.intake.entered import EnteredFiles
from viewkeeper.streams.intake.entries import ENTRY_KEY, Draft, Entry
from viewkeeper.streams.intake.stream_environment import (
    Appended,
    AppendId,
    Record,
    StreamEnvironment,
    open_environments,
)
from viewkeeper.streams.intake.taking import Reach, too_late
from viewkeeper.trace.disk import STATE, Disk, create_own
from viewkeeper.trace.garbage import LEFTOVER_SECONDS

_INLINE_BYTES_MAX = 1 << 20
"""Rejected rows of more bytes than this get a file."""

READ_BYTES, READ_ROWS = 1 << 26, 4_000_000
"""What entries that are read at once take up in memory, about, and the rows that they name; the last may go beyond."""

TRIMMED_AT_ONCE = 1_000
"""Entries that one transaction deletes, at most."""

STREAMS = "streams"

_closing = threading.Lock()
"""Once is enough, whoever closes."""


class WatermarkMoved(Exception):
    """Another append moved the watermark so that rows of a draft lie outside HORIZON now: they are to be rejected."""

    def __init__(self, watermark: int) -> None:
        self.watermark = watermark
        super().__init__(f"the watermark is now {watermark}")


class StreamLog:
    """The log of all streams of the database in `root`; entries of a stream are numbered from 1 without gaps.

    What a method has written is durable when it returns.  Objects, threads and processes may use one folder together.
    """

    def __init__(self, root: str | Path, disk: Disk) -> None:
        self.root, self._disk = Path(root).resolve(), disk
        self.folder = self.root / STREAMS
        self._environment = open_environments.take(self.folder, StreamEnvironment)
        self._entered = EnteredFiles()
        self._closed = False

    def close(self) -> None:
        """Let it go; the last one of a process closes the files."""
        with forks.kept_out(), _closing:
            if self._closed:
                return
            self._closed = True
        open_environments.give_back(self._environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    # Writing

    def append(self, stream: Stream, draft: Draft, id_: AppendId, now: float) -> Appended:
        """Enter a draft, whose files are durable, in one atomic step; a draft without rows leaves no entry.

        Raises WatermarkMoved where rows of the draft are too late by now, Error where one of its files was taken for
        what a killed append left.  Nothing is written then.
        """
        rejects = bytes_of.rejects_bytes(draft.rejected)
        file = self._write_rejects(rejects) if len(rejects) > _INLINE_BYTES_MAX else None
        try:
            appended = self._enter(stream, draft, id_, now, rejects if file is None else file.rpartition("/")[2])
        except BaseException:
            self._disk.delete([file] if file is not None else [])
            raise
        if file is not None and appended.duplicate:
            self._disk.delete([file])
        return appended

    def _enter(self, stream: Stream, draft: Draft, id_: AppendId, now: float, rejects: bytes | str) -> Appended:
        appended = Appended(draft.stored, len(draft.rejected))
        with self._transaction(write=True) as txn:
            record = self._environment.record(txn, stream.id)
            if record.gone:
                raise NotFound(f"the stream {stream.name!r} does not exist any more")
            if (known := self._environment.known(txn, stream.id, id_)) is not None:
                return known
            self._require_current(stream, draft, record.watermark)
            if draft.files or appended.rejected:
                data = bytes_of.encode_append(draft, _microseconds(now), rejects, record.hash)
                self._environment.put_entry(txn, stream.id, record, data)
                appended = replace(appended, sequence=record.end)
            if draft.files:
                times = [each.greatest for each in draft.files]
                record.watermark = max(times if record.watermark is None else [*times, record.watermark])
                parts = [int(each.parts[0]) for each in draft.files]
                record.first = min(parts if record.first is None else [*parts, record.first])
                record.last = now if record.last is None else max(record.last, now)
            self._environment.set_record(txn, stream.id, record)
            if id_ is not None:
                self._environment.remember(txn, stream.id, id_, appended)
        return appended

    def seal(self, stream: Stream, upto: int, reason: str = "by hand") -> int:
        """Seal all parts up to and including `upto`; the sequence of the entry."""
        if type(upto) is not int or not -(1 << 62) <= upto < 1 << 62:
            raise InputError(f"{stream.name}: seal takes a part's subscript, a whole number; not {upto!r}")
        with self._transaction(write=True) as txn:
            record = self._environment.record(txn, stream.id)
            if record.gone:
                raise NotFound(f"the stream {stream.name!r} does not exist any more")
            data = bytes_of.encode_seal(upto, reason, _microseconds(time.time()), record.hash)
            self._environment.put_entry(txn, stream.id, record, data)
            record.unsealed = upto + 1 if record.unsealed is None else max(record.unsealed, upto + 1)
            self._environment.set_record(txn, stream.id, record)
            return record.end

    def trim(self, stream_id: int, upto: int) -> None:
        """Delete the entries up to and including `upto`, some at a time: appends get in between.  Their files belong to
        whoever took them; ids stay known."""
        while self._trim_some(stream_id, upto):
            pass

    def _trim_some(self, stream_id: int, upto: int) -> bool:
        """Whether there may be more."""
        doomed, count = list[str](), 0
        with self._transaction(write=True) as txn, txn.cursor(self._environment.entries) as cursor:
            while count < TRIMMED_AT_ONCE and cursor.set_range(ENTRY_KEY.pack(stream_id, 0)):
                stream, sequence = ENTRY_KEY.unpack(cursor.key())
                if stream != stream_id or sequence > upto:
                    break
                doomed += self._rejects_file(cursor)
                cursor.delete()
                count += 1
        self._disk.delete(doomed)
        return count == TRIMMED_AT_ONCE

    def forget(self, stream_id: int) -> None:
        """Delete all that is known of a dropped stream, its follows' checkpoints too; appends to it are refused from
        now on."""
        self.trim(stream_id, (1 << 64) - 1)
        with self._transaction(write=True) as txn:
            self._environment.forget_ids(txn, stream_id)
            self._environment.set_record(txn, stream_id, Record(gone=True))
        shutil.rmtree(self.folder / "follow" / str(stream_id), ignore_errors=True)

    def forget_dropped(self, catalog: Catalog) -> None:
        """`forget` of all streams that `catalog`, the newest, does not have.  Ids are never used again; those that it
        has not given out yet belong to a newer one."""
        known = {stream.id for stream in catalog.streams}
        with self._transaction() as txn:
            found = set(self._environment.stream_ids(txn))
            gone = {id_ for id_ in found if self._environment.record(txn, id_).gone}
        follows = self.folder / "follow"
        if follows.is_dir():
            found |= {int(each.name) for each in follows.iterdir() if each.name.isdecimal()}
            gone = {id_ for id_ in gone if not (follows / str(id_)).exists()}
        for id_ in sorted(found - known - gone):
            if id_ < catalog.next_id:
                self.forget(id_)

    # Reading

    def require_there(self, stream: Stream) -> None:
        """Raises NotFound where `stream` was dropped."""
        if self._read(stream.id).gone:
            raise NotFound(f"the stream {stream.name!r} does not exist any more")

    def require_same(self, stream: Stream, position: int, hash_: str) -> None:
        """Raises StoreReplaced where the log of `stream` is not the one that had the running hash `hash_` up to
        `position`; costs microseconds."""
        with self._transaction() as txn:
            self._require_same(txn, stream.id, position, hash_)

    def _require_same(self, txn: Any, stream_id: int, position: int, hash_: str) -> None:
        record = self._environment.record(txn, stream_id)
        found = record.hash
        if record.end > position:
            data = txn.get(ENTRY_KEY.pack(stream_id, position + 1), db=self._environment.entries)
            if data is None:
                return  # Trimmed: whoever asks for it is told.
            found = bytes_of.header_of(data, self._name(stream_id, position + 1))["before"]
        if record.end < position or found != hash_:
            how = (
                f"ends at {record.end:,}" if record.end < position else f"is at {position:,} not the one that was read"
            )
            raise StoreReplaced(
                f"{self.folder}: the log of stream {stream_id} {how}, and its parts hold it up to {position:,}, as if "
                "an older copy of this folder had been put back. Put back the whole folder of the database as of one "
                "moment, or drop the stream and append its rows anew; nothing more of it is taken until then"
            )

    def reach(self, stream_id: int, after: int, hash_: str) -> Reach:
        """What all entries so far come to, however many there are behind `after`: none of them is read.  Raises as
        `entries` does."""
        with self._transaction() as txn:
            self._require_same(txn, stream_id, after, hash_)
            record = self._environment.record(txn, stream_id)
            next_ = ENTRY_KEY.pack(stream_id, after + 1)
            if record.end > after and txn.get(next_, db=self._environment.entries) is None:
                raise self._trimmed(stream_id, after + 1)
        return Reach(record.end, record.watermark, record.first, record.unsealed)

    def entries(self, stream_id: int, after: int, limit: int, hash_: str | None = None) -> list[Entry]:
        """The entries behind `after`, in order, at most `limit`, and no more at once than READ_BYTES and READ_ROWS
        allow, but one if there is any.  Raises Error where the next one has been trimmed, StoreReplaced where the log
        up to `after` has not the running hash `hash_`."""
        found, size, rows = list[Entry](), 0, 0
        with self._transaction() as txn, txn.cursor(self._environment.entries) as cursor:
            if hash_ is not None:
                self._require_same(txn, stream_id, after, hash_)
            more = cursor.set_range(ENTRY_KEY.pack(stream_id, after + 1))
            while more and len(found) < limit and size < READ_BYTES and rows < READ_ROWS:
                stream, sequence = ENTRY_KEY.unpack(cursor.key())
                if stream != stream_id:
                    break
                if sequence != after + len(found) + 1:
                    raise self._trimmed(stream_id, after + len(found) + 1)
                entry = self._decoded(cursor.value(), sequence, stream_id)
                found.append(entry)
                size, rows = size + entry.size, rows + entry.rows
                more = cursor.next()
        return found

    def _trimmed(self, stream_id: int, sequence: int) -> Error:
        return Error(f"{self._name(stream_id, sequence)} was trimmed, and is asked for: another driver has taken it")

    def end(self, stream_id: int) -> int:
        """The last sequence of a stream; 0 where it has no entry."""
        return self._read(stream_id).end

    def watermark(self, stream_id: int) -> int | None:
        """The greatest timestamp stored so far, in microseconds; None before there is a row."""
        return self._read(stream_id).watermark

    def last_append(self, stream_id: int) -> float | None:
        """The wall time, in seconds, of the last append that stored a row; None before there was one."""
        return self._read(stream_id).last

    def place(self, stream_id: int) -> LogEnds | None:
        """How far the outside store has been read that feeds a stream; None: not yet."""
        with self._transaction() as txn:
            return self._environment.place(txn, stream_id)

    def known(self, stream_id: int, id_: AppendId) -> Appended | None:
        """What the first append with this id did, if there was one."""
        with self._transaction() as txn:
            return self._environment.known(txn, stream_id, id_)

    def sweep(self, named: Collection[str], now: float, age_seconds: float = LEFTOVER_SECONDS) -> int:
        """Delete files of appends that no entry names, nor `named`: the files of all kept manifests.  Only the driver
        calls it.  Returns their number.

        Spared are files younger than `age_seconds`, which appends may be about to enter; one that does so later still
        finds its file gone, since both hold the write transaction, and writes it again.
        """
        found = [(name, f"{folder}/{name}") for folder, kind in ((STATE, "append-"), (STREAMS, "rejected-"))
                 for name in self._disk.list(folder) if name.startswith(kind)]  # fmt: skip
        old = [each for each in found if each[0] not in named and self._is_older(each[1], now - age_seconds)]
        if not old:
            return 0
        with self._transaction() as txn:  # beside appends: a backlog has many entries
            self._look_for_files(txn)
        garbage = [path for name, path in old if name not in self._entered]
        if not garbage:
            return 0
        with self._transaction(write=True) as txn:
            self._look_for_files(txn)
            garbage = [path for name, path in old if name not in self._entered]
            self._disk.delete(garbage)
        return len(garbage)

    def _look_for_files(self, txn: Any) -> None:
        self._entered.look(txn, self._environment.entries, self._environment.stream_ids(txn), self._name)

    # Within

    @contextmanager
    def _transaction(self, write: bool = False) -> Iterator[Any]:
        if self._closed:
            raise Error(f"{self.root}: this stream log is closed")
        with translated(self.folder), forks.kept_out(), self._environment.transaction(write) as txn:
            yield txn

    def _read(self, stream_id: int) -> Record:
        with self._transaction() as txn:
            return self._environment.record(txn, stream_id)

    def _require_current(self, stream: Stream, draft: Draft, watermark: int | None) -> None:
        least = too_late(stream, watermark)
        for file in draft.files:
            if least is not None and watermark is not None and file.least < least:
                raise WatermarkMoved(watermark)
            if not self._disk.exists(f"{STATE}/{file.ref.name}"):
                raise Error(f"{stream.name}: {file.ref.name} is gone, as if this append had stood still for an hour "
                            "and been taken for dead; append it again")  # fmt: skip

    def _decoded(self, data: bytes, sequence: int, stream_id: int) -> Entry:
        entry, file = bytes_of.decode(data, sequence, self._name(stream_id, sequence))
        if file is None or not isinstance(entry, bytes_of.Append):
            return entry
        rejected = bytes_of.rejects_from(self._disk.read(f"{STREAMS}/{file}"))
        return replace(entry, rejected=rejected)

    def _name(self, stream_id: int, sequence: int) -> str:
        return f"{self.folder}: entry {sequence} of stream {stream_id}"

    def _write_rejects(self, data: bytes) -> str:
        file = f"{STREAMS}/rejected-{secrets.token_hex(8)}.arrow"
        create_own(self._disk, file, data)
        return file

    def _rejects_file(self, cursor: Any) -> list[str]:
        header = bytes_of.header_of(cursor.value(), self._name(*ENTRY_KEY.unpack(cursor.key())))
        return [f"{STREAMS}/{header['rejects']}"] if "rejects" in header else []

    def _is_older(self, name: str, than: float) -> bool:
        with contextlib.suppress(FileNotFoundError):  # just entered, or deleted by its append
            return self._disk.stat(name).time < than
        return False


def _microseconds(seconds: float) -> int:
    return int(seconds * 1_000_000)

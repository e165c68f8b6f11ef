"""The client of the program that serves a node's change log (CassandraLog.java): requests, and ranges as columns."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewkeeper.stores.outside.cassandra.raw_columns import RawColumn

TIMEOUT_SECONDS = 20.0
"""So long it may say nothing: it reads segments from their beginning when it has been started anew."""

EXPIRES, TOMBSTONE = 1, 1
_LENGTH = struct.Struct(">i")


_UNIT_BITS = 5
"""See Place.java."""


def bytes_between(after: int, upto: int) -> int:
    """How many bytes lie between two places of one segment."""
    return max(0, upto - after) << _UNIT_BITS


class LogRefused(Exception):
    """The program cannot do what it was asked; `kind` is "lost", "schema" or "failed"."""

    def __init__(self, kind: str, why: str) -> None:
        self.kind = kind
        super().__init__(why)


@dataclass
class RangeDeletion:
    """The deletion, at `stamp`, of the rows of a partition whose clustering lies between two bounds: values of the
    first clustering columns, as Cassandra writes them; none of them: no bound.  It ends at `sequence` in the log."""

    sequence: int
    stamp: int
    partition: list[bytes]
    lower: list[bytes]
    lower_included: bool
    upper: list[bytes]
    upper_included: bool


@dataclass
class LogFrame:
    """Entries of one table, one a row that was changed.

    `sequences` say where each ends in the log; `live` when it was inserted, and `deleted` when all of it was, NEVER
    where it was not.  Of each column that is not in the key `stamps[:, i]` are the cells' timestamps, NEVER where there
    is none; the value of a cell that was deleted is NULL.  `expires`: which have a time to live.
    """

    sequences: np.ndarray
    live: np.ndarray
    deleted: np.ndarray
    expires: np.ndarray
    keys: list[RawColumn]
    values: list[RawColumn]
    stamps: np.ndarray
    ranges: list[RangeDeletion]
    unreadable: list[tuple[int, str]]

    def __len__(self) -> int:
        return len(self.sequences)


class NodeLog:
    """One such program, at `address` (HOST:PORT); `asked` may be called from any thread.

    Raises OSError where it does not answer, LogRefused where it cannot.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def asked(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request that has one; all of them may be done twice."""
        with self._lock:
            opened, self._socket = self._socket, None
            if opened is not None:
                with suppress(ConnectionError):  # it was started anew since
                    return _require_done(self._answer(opened, request))
            answer = self._answer(self._connected(), request)
        return _require_done(answer)

    def _answer(self, opened: socket.socket, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            _send(opened, request)
            answer = _header(opened)
        except BaseException:
            opened.close()
            raise
        self._socket = opened
        return answer

    def read(self, request: Mapping[str, Any], keys: int, values: int) -> Iterator[dict[str, Any] | LogFrame]:
        """What the program says of itself and the table, then the frames of a range."""
        with self._connected() as opened:
            _send(opened, request)
            yield _require_done(_header(opened))
            while True:
                header = _require_done(_header(opened))
                buffers = [_received(opened, size) for size in header["buffers"]]
                yield _frame(header, buffers, keys, values)
                if header["last"]:
                    return

    def close(self) -> None:
        with self._lock:
            if self._socket is not None:
                self._socket.close()
            self._socket = None

    def _connected(self) -> socket.socket:
        host, _, port = self.address.rpartition(":")
        opened = socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_SECONDS)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened


def _send(opened: socket.socket, request: Mapping[str, Any]) -> None:
    body = json.dumps(request).encode()
    opened.sendall(_LENGTH.pack(len(body)) + body)


def _header(opened: socket.socket) -> dict[str, Any]:
    (length,) = _LENGTH.unpack(_received(opened, _LENGTH.size))
    found: dict[str, Any] = json.loads(bytes(_received(opened, length)))
    return found


def _received(opened: socket.socket, length: int) -> bytearray:
    data = bytearray(length)
    view, at = memoryview(data), 0
    while at < length:
        count = opened.recv_into(view[at:])
        if not count:
            raise ConnectionResetError("it closed the connection")
        at += count
    return data


def _require_done(answer: dict[str, Any]) -> dict[str, Any]:
    if "failed" in answer:
        raise LogRefused(answer["failed"], answer["why"])
    return answer


def _frame(header: Mapping[str, Any], buffers: Sequence[bytearray], keys: int, values: int) -> LogFrame:
    """See FoundRows.java."""
    numbers = [np.frombuffer(each, "<i8") for each in buffers[:3]]
    at, columns = 4, list[RawColumn]()
    for _ in range(keys):
        columns.append(_column(buffers[at], buffers[at + 1]))
        at += 2
    stamps, found = [], list[RawColumn]()
    for _ in range(values):
        stamp, kinds = np.frombuffer(buffers[at], "<i8"), np.frombuffer(buffers[at + 1], np.int8)
        column = _column(buffers[at + 2], buffers[at + 3])
        column.lengths[kinds <= TOMBSTONE] = -1
        stamps.append(stamp)
        found.append(column)
        at += 4
    whole = np.column_stack(stamps) if stamps else np.zeros((header["rows"], 0), np.int64)
    ends, live, deleted = numbers
    return LogFrame(ends, live, deleted, np.frombuffer(buffers[3], np.int8) & EXPIRES != 0, columns, found, whole,
                    [_range(each) for each in header["ranges"]],
                    [(each["end"], each["why"]) for each in header["bad"]])  # fmt: skip


def _column(begins: bytearray, data: bytearray) -> RawColumn:
    offsets = np.frombuffer(begins, "<i4").astype(np.int64)
    return RawColumn(np.frombuffer(data, np.uint8), offsets[:-1], np.diff(offsets))


def _range(made: Mapping[str, Any]) -> RangeDeletion:
    partition, lower, upper = ([bytes.fromhex(each) for each in made[name]] for name in ("partition", "from", "to"))
    return RangeDeletion(
        made["end"], made["stamp"], partition, lower, made["from_included"], upper, made["to_included"]
    )

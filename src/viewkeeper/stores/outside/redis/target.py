"""Views as hashes in Redis: `<prefix>:<key>` is a row, `<prefix>` the marker (docs/stores/views.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    BusyLoadingError,
    ConnectionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TimeoutError,
)
from redis.retry import Retry

from viewkeeper.catalog.outside_store import Target
from viewkeeper.errors import Error, InputError, StoreAway
from viewkeeper.stores.outside.key_texts import key_texts
from viewkeeper.stores.outside.options import filled_in, require_known
from viewkeeper.stores.outside.targets import (
    RESERVED,
    Begun,
    Deviation,
    LaterEpoch,
    Marker,
    Mending,
    RowForm,
    TargetTaken,
    ViewTarget,
    Written,
)
from viewkeeper.stores.outside.values import texts_of, value_of
from viewkeeper.trace.rows import Rows

TIMEOUT_SECONDS = 10.0
"""So long the server may take to answer."""

WRITTEN_AT_ONCE, BYTES_AT_ONCE = 1_000, 4_000_000
"""At most so many rows, and about so many bytes, are one step of the server's."""

SCANNED_AT_ONCE = 10_000

VERSION, TIMES = f"{RESERVED}version".encode(), f"{RESERVED}times".encode()

Hash = list[bytes]
"""Names and values of a hash, one behind the other; empty: it is not there."""


class RedisTarget(ViewTarget):
    """A view's rows under a prefix of their own."""

    what: ClassVar[str] = "hashes"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        options = filled_in(dict(target.options))
        self._url, self._prefix = options["url"], options["prefix"].encode()
        self._client = redis.Redis.from_url(
            self._url, username=options.get("username"), password=options.get("password"),
            socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS / 2, retry=Retry(NoBackoff(), 0),
            decode_responses=False,
        )  # fmt: skip
        self._begin, self._write, self._complete = (
            self._client.register_script((Path(__file__).parent / f"{name}.lua").read_text())
            for name in ("begin", "write", "complete")
        )
        self._attempt, self._step = b"", 0

    @classmethod
    def check(cls, options: Mapping[str, str]) -> None:
        require_known("redis", options, ("url", "prefix"), ("username", "password"))
        url = urlsplit(options["url"])
        if url.scheme not in ("redis", "rediss", "unix"):
            raise InputError(f"OPTIONS (url {options['url']!r}): a URL of Redis is redis://host:port/database")
        if url.password is not None:
            raise InputError("OPTIONS (url ...): a password is not kept in the catalog; name the environment variable "
                             "that has it, password_env '...', or a file, password_file '...'")  # fmt: skip
        if not options["prefix"]:
            raise InputError("OPTIONS (prefix ''): what the keys of the view's rows begin with, before a colon")

    @classmethod
    def collide(cls, one: Mapping[str, str], other: Mapping[str, str]) -> bool:
        if _server(one["url"]) != _server(other["url"]):
            return False
        first, second = sorted((one["prefix"], other["prefix"]), key=len)
        return first == second or second.startswith(f"{first}:")

    def marker(self) -> Marker | None:
        with self._told():
            kind = self._client.type(self._prefix)
            if kind == b"none":
                self._require_empty()
                return None
            found = self._hash(self._prefix) if kind == b"hash" else {}
        if b"database" not in found:
            raise self._taken(f"the key {_text(self._prefix)!r}, which is not viewkeeper's")
        said = _readable(found)
        return _marker(*(said.get(name, "") for name in ("database", "view", "state", "at", "writing", "epoch")))

    def begin(self, mine: Marker, *, force: bool = False) -> Marker | None:
        with self._told():
            if not self._client.exists(self._prefix):
                self._require_empty()
            arguments: list[Any] = [mine.database, mine.view, mine.state, mine.epoch, int(force), str(Written())]
            said, *found = self._begin(keys=[self._prefix], args=arguments)
        if said == b"other":
            raise self._taken(f"rows of another database ({found[0].decode()})")
        if said == b"later":
            raise LaterEpoch(f"it was written in epoch {found[0].decode()}, and this is {mine.epoch}")
        self._attempt, self._step = found[0], 0
        return _marker(*map(_text, found[1:])) if found[1] else None

    def write(self, form: RowForm, at: Written, came: Rows, gone: Rows) -> None:
        hashes = self._hashes(form, came, at.version)
        names = {name for name, _ in hashes}
        hashes += [(name, []) for name in self._names(form, form.keys(gone)) if name not in names]
        self._send(at, hashes)

    def complete(self, marker: Marker) -> None:
        self._finish([marker.at.version, str(marker.at), marker.view, marker.state])

    def deviations(self, form: RowForm, rows: Iterable[Rows]) -> Iterator[tuple[list[Deviation], Mending]]:
        known: set[bytes] = set()
        for block in rows:
            expected = self._hashes(form, block, 0)
            known.update(name for name, _ in expected)
            for part in _cut(expected, WRITTEN_AT_ONCE):
                found = self._read([name for name, _ in part])
                wrong = [(name, hash_, was) for (name, hash_), was in zip(part, found, strict=True)
                         if was is None or was != _pairs(hash_)]  # fmt: skip
                yield ([Deviation(_text(name), _readable(_pairs(hash_)), None if was is None else _readable(was))
                        for name, hash_, was in wrong], [(name, hash_) for name, hash_, _ in wrong])  # fmt: skip
        with self._told():
            for names in _pages(self._client.scan_iter(self._below(), count=SCANNED_AT_ONCE)):
                more = sorted({name for name in names if name not in known})
                if more:
                    found = self._read(more)
                    yield ([Deviation(_text(name), None, {} if was is None else _readable(was))
                            for name, was in zip(more, found, strict=True)], [(name, []) for name in more])  # fmt: skip

    def mend(self, at: Written, mending: Mending) -> None:
        said = str(at.version).encode()
        self._send(at, [(name, [VERSION, said, *hash_[2:]] if hash_ else []) for name, hash_ in mending])

    def clear(self) -> None:
        with self._told():
            for names in _pages(self._client.scan_iter(self._below(), count=SCANNED_AT_ONCE)):
                self._send(Written(), [(name, list[bytes]()) for name in set(names)])
        self._finish([""])

    def get(self, form: RowForm, key: Rows) -> list[dict[str, Any]]:
        with self._told():
            found = self._hash(self._names(form, key)[0])
        if not found:
            return []
        try:
            row = {column.name: None if (text := found.get(column.name.encode())) is None
                   else value_of(column.type, text, form.zone) for column in form.columns}  # fmt: skip
            return [row] * int(found.get(TIMES, b"1"))
        except ValueError as error:
            raise Error(
                f"the row in Redis is not as it was written: {error}; viewkeeper check --repair mends it"
            ) from error

    def close(self) -> None:
        self._client.close()

    def _send(self, written: Written, hashes: Sequence[tuple[bytes, Hash]]) -> None:
        at = 0
        while at < len(hashes):
            arguments: list[Any] = [self._attempt, self._step, str(written)]
            size = 0
            for name, hash_ in islice(hashes, at, at + WRITTEN_AT_ONCE):
                arguments += [name, len(hash_), *hash_]
                size += len(name) + sum(map(len, hash_))
                at += 1
                if size > BYTES_AT_ONCE:
                    break
            with self._told():
                done = self._write(keys=[self._prefix], args=arguments)
            self._require_done(done)

    def _finish(self, said: list[Any]) -> None:
        with self._told():
            done = self._complete(keys=[self._prefix], args=[self._attempt, self._step, *said])
        self._require_done(done)

    def _require_done(self, done: Any) -> None:
        if not done:
            raise Begun("another writer has begun, or Redis has lost what was written")
        self._step += 1

    def _hashes(self, form: RowForm, rows: Rows, version: int) -> list[tuple[bytes, Hash]]:
        """Of each row its name and its hash."""
        names, columns = self._names(form, form.keys(rows)), list[list[Any]]()
        for column, values in zip(form.columns, rows.columns, strict=True):
            columns.append(texts_of(column.type, values).to_pylist())
        if not form.unique:
            columns.append([str(times).encode() for times in rows.weights.tolist()])
        fields = [column.name.encode() for column in form.columns] + [TIMES] * (not form.unique)
        said = [VERSION, str(version).encode()]
        made = []
        for name, *values in zip(names, *columns, strict=True):
            hash_ = said.copy()
            for field, value in zip(fields, values, strict=True):
                if value is not None:
                    hash_ += (field, value)
            made.append((name, hash_))
        return made

    def _names(self, form: RowForm, key: Rows) -> list[bytes]:
        """The names of the rows with these keys."""
        begin = self._prefix + b":"
        return [begin + text for text in key_texts([form.columns[i].type for i in form.key], key)]

    def _read(self, names: Sequence[bytes]) -> list[dict[bytes, bytes] | None]:
        """The hashes with these names, without their versions; None: there is none.  Of what is no hash, nothing."""
        found: list[dict[bytes, bytes] | None] = []
        with self._told():
            for part in _cut(names, WRITTEN_AT_ONCE):
                pipeline = self._client.pipeline(transaction=False)
                for name in part:
                    pipeline.hgetall(name)
                for hash_ in pipeline.execute(raise_on_error=False):
                    if isinstance(hash_, RedisError):
                        if "WRONGTYPE" not in str(hash_):
                            raise hash_
                        hash_ = {b"": b""}
                    found.append({name: value for name, value in hash_.items() if name != VERSION} if hash_ else None)
        return found

    def _hash(self, name: bytes) -> dict[bytes, bytes]:
        found: Any = self._client.hgetall(name)  # (texts are for clients that decode)
        return found

    def _require_empty(self) -> None:
        other = next(iter(self._client.scan_iter(self._below(), count=SCANNED_AT_ONCE)), None)
        if other is not None:
            raise self._taken(f"keys that are not viewkeeper's, such as {_text(other)!r}")
        parts = self._prefix.split(b":")
        for i in range(1, len(parts)):
            above = b":".join(parts[:i])
            if self._client.type(above) == b"hash" and self._client.hexists(above, "database"):
                raise self._taken(f"a view with the prefix {_text(above)!r}, whose rows these would be mixed with")

    def _taken(self, what: str) -> TargetTaken:
        return TargetTaken(f"{self._url}, prefix {_text(self._prefix)!r}, holds {what}; take another prefix, or delete "
                     "what is there")  # fmt: skip

    def _below(self) -> bytes:
        escaped = b"".join(b"\\" + bytes([each]) if each in b"\\*?[]^" else bytes([each]) for each in self._prefix)
        return escaped + b":*"

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (ConnectionError, TimeoutError, BusyLoadingError, ReadOnlyError, OutOfMemoryError) as error:
            raise StoreAway(f"Redis at {self._url} does not take it: {error}") from error
        except RedisError as error:
            raise Error(f"Redis at {self._url}: {error}") from error


def _marker(database: str, view: str, state: str, at: str, writing: str, epoch: str) -> Marker:
    return Marker(database, int(view), int(state), Written.parse(at), int(epoch),
                  Written.parse(writing) if writing else None)  # fmt: skip


def _server(url: str) -> tuple[Any, ...]:
    parts = urlsplit(url)
    return parts.hostname or parts.path, parts.port or 6379, parts.path.strip("/") or "0"


def _cut(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[at : at + size] for at in range(0, len(items), size))


def _pages(names: Iterator[bytes]) -> Iterator[list[bytes]]:
    while page := list(islice(names, SCANNED_AT_ONCE)):
        yield page


def _pairs(hash_: Hash) -> dict[bytes, bytes]:
    """A hash without its version, which stands first."""
    return dict(zip(hash_[2::2], hash_[3::2], strict=True))


def _text(name: bytes) -> str:
    return name.decode(errors="backslashreplace")


def _readable(hash_: Mapping[bytes, bytes]) -> dict[str, Any]:
    return {_text(name): _text(value) for name, value in hash_.items()}

"""Hashes as rows, with a stream as their log (`contract.OutsideTable`).

The log has one part, whose positions are the numbers of the stream's entries.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from viewkeeper.catalog.model import Table
from viewkeeper.changes.operations import Operations
from viewkeeper.errors import Error, InputError, LogLost, StoreAway
from viewkeeper.stores.outside.contract import (
    LogEnds,
    NoRow,
    OutsideTable,
    OutsideTraits,
    PartRange,
    ReadPart,
    Scanned,
    identity_of,
)
from viewkeeper.stores.outside.options import choice, filled_in, require_known
from viewkeeper.stores.outside.redis.log_entries import EntryDecoder, arguments
from viewkeeper.stores.outside.redis.look import Look, look_of
from viewkeeper.stores.outside.redis.scripts import (
    ARGUMENTS_AT_ONCE,
    FORMAT,
    WRITTEN_AT_ONCE,
    block_script,
    rows_script,
)
from viewkeeper.stores.outside.redis.texts import texts_of
from viewkeeper.stores.outside.said import said_of
from viewkeeper.stores.value_conversion import to_python

TIMEOUT_SECONDS = 10.0
"""So long a server may take to answer."""

PART = "0"
"""The only part of a table's log."""

READ_AT_ONCE = 10_000
SCANNED_AT_ONCE = 1_000
"""So many names one step of a scan goes through: a few milliseconds in which the server does nothing else."""

STEPS_TO_FIRST_ROWS = 100
"""So many steps a declaration looks for rows in, among the names of others: for a fraction of a second."""

ROWS_AT_ONCE = 20_000
"""About so many rows are decoded together."""

KEPT = 10_000
"""So many entries stay before those that will not be read again."""

LAST_MAX = 9 * 10**15
"""The greatest number of an entry, as the script has it, too: Lua's numbers are DOUBLEs."""

_SCHEMES = ("redis", "rediss", "unix")
_OLDEST = 7


class RedisTable(OutsideTable):
    """Rows that are hashes."""

    traits: ClassVar[OutsideTraits] = OutsideTraits(order="key", rows=True, writable=True, partial=True, keyless=False)

    def __init__(self, table: Table, zone: str) -> None:
        super().__init__(table, zone)
        assert table.outside is not None
        self._options = filled_in(dict(table.outside.options))
        self._prefix = self._options["prefix"]
        self._log, self._mark = f"{self._prefix}.log", f"{self._prefix}.log.id"
        self._trims = choice(self._options, "trim", ("true", "false"), "false") == "true"
        self.decoder = EntryDecoder(self.intake)
        self._lock = threading.Lock()
        self._connected: redis.Redis | None = None
        self._seen: Look | None = None
        self._trimmed = 0

    @classmethod
    def check(cls, options: Mapping[str, str], keyless: bool) -> None:
        require_known("redis", options, ("url", "prefix"), ("password", "trim"))
        parts = urlsplit(options["url"])
        if parts.scheme not in _SCHEMES:
            raise InputError(f"OPTIONS (url {options['url']!r}): expected redis://HOST:PORT/0, rediss:// or unix://")
        if parts.password is not None or any(name == "password" for name, _ in parse_qsl(parts.query)):
            raise InputError("OPTIONS (url ...): a password is not kept in the catalog; name the environment variable "
                             "that has it, password_env '...', or a file, password_file '...'")  # fmt: skip
        choice(options, "trim", ("true", "false"), "false")
        if not options["prefix"]:
            raise InputError("OPTIONS (prefix ''): the names of the table's hashes begin with it: it cannot be empty")
        if keyless:
            raise InputError("a table in redis needs a PRIMARY KEY: a row is the hash PREFIX:KEY")

    def require_there(self) -> None:
        told = self._asked(
            "its server cannot be looked at", lambda client: {**client.info("server"), **client.info("memory")}
        )
        if int(str(told["redis_version"]).split(".")[0]) < _OLDEST:
            raise Error(f"the server is Redis {told['redis_version']}; viewkeeper needs {_OLDEST} or newer")
        if (policy := told["maxmemory_policy"]) != "noeviction":
            raise Error(f"the server may evict rows, which no log tells: its maxmemory-policy is {policy}, and has to "
                        "be noeviction")  # fmt: skip
        look = self._look()
        if look.mark is not None and not look.mark.startswith(FORMAT + b" "):
            raise Error(f"{self._log} is written by another version of the script (viewkeeper script redis)")
        cursor = 0
        for _ in range(STEPS_TO_FIRST_ROWS):
            cursor, keys, values = self._block(cursor, look.mark)
            if keys:
                self._as_rows(keys, values).all_rows()  # what is wrong with one row is often so with the first
            if keys or not cursor:
                return

    def start(self) -> LogEnds:
        look = self._look()
        if look.mark is None or look.last is None:
            self._run("its log cannot be made", [])
        return self.ends()

    def ends(self) -> LogEnds:
        seen = self._seen
        look = self._look(None if seen is None else seen.last)
        if seen is not None and not look.continues(seen):
            raise self._lost("has lost entries that the server had acknowledged, as after a restart without its "
                             "append-only file")  # fmt: skip
        ends = self._as_ends(look)
        self._seen = look
        return ends

    def estimate(self, after: int, upto: int) -> int:
        """Entries of others may have numbers that are far from those before."""
        seen = self._seen
        between = super().estimate(after, upto)
        return between if seen is None else min(between, seen.length + 1)

    def read(self, range_: PartRange) -> ReadPart:
        found, at = ReadPart(), f"{range_.after + 1}-0"
        while True:
            entries = self._asked("its log cannot be read", lambda client, at=at: client.execute_command(
                "XRANGE", self._log, at, f"{range_.upto}-0", "COUNT", READ_AT_ONCE))  # fmt: skip
            if entries:
                self.decoder.read(entries, found)
            if len(entries) < READ_AT_ONCE:
                break
            at = f"({entries[-1][0].decode()}"
        # What is still there now was there when it was read.
        self._require_whole_part(self._look(), range_)
        return _not_falling(found)

    def scan(self, since: Mapping[str, int]) -> Iterator[Scanned]:
        mark, cursor = self._look().mark, 0
        keys: list[bytes] = []
        values: list[list[bytes | None]] = [[] for _ in self.decoder.values]
        while True:
            cursor, block_keys, block_values = self._block(cursor, mark)
            keys += block_keys
            for column, more in zip(values, block_values, strict=True):
                column += more
            if keys and (len(keys) >= ROWS_AT_ONCE or not cursor):
                yield self._as_rows(keys, values)
                keys, values = [], [[] for _ in self.decoder.values]
            if not cursor:
                return

    def get(self, key: Any) -> dict[str, Any] | None:
        columns = self.intake.deletes([key]).columns
        row = f"{self._prefix}:".encode() + self.decoder.keys.texts(columns)[0].as_py()

        def asked(client: redis.Redis) -> Any:
            with client.pipeline(transaction=True) as steps:
                steps.exists(row)
                steps.hmget(row, self._fields)
                return steps.execute()

        there, fields = self._asked("its rows cannot be read", asked)
        if not there:
            return None
        text = row[len(self._prefix.encode()) + 1 :]
        ((operations, _),) = self._as_rows([text], [[field] for field in fields[1:]]).all_rows()
        shown = {}
        for column, type_, array in zip(self.table.columns, self.form.types, operations.columns, strict=True):
            value, decode = array[0].as_py(), to_python(type_, self.zone)
            shown[column.name] = value if decode is None or value is None else decode(value)
        return shown

    def write(self, operations: Operations) -> Mapping[str, int]:
        made = arguments(operations, self.intake, self.decoder.keys,
                         lambda i, column: texts_of(column, self.form.types[i]))  # fmt: skip
        last, step = 0, list[Any]()
        for number, each in enumerate(made, 1):
            step += each
            if number == len(made) or number % WRITTEN_AT_ONCE == 0 or len(step) >= ARGUMENTS_AT_ONCE:
                last, step = self._run("rows cannot be written", step), []
        return {PART: last}

    def forget(self, positions: Mapping[str, int]) -> None:
        """Trims the log behind `positions`, if it was said that nobody else reads it; the last `KEPT` entries stay."""
        least = positions.get(PART, 0) - KEPT
        if self._trims and least > self._trimmed:
            trim = ("XTRIM", self._log, "MINID", "~", f"{least}-0")
            self._asked("its log cannot be trimmed", lambda client: client.execute_command(*trim))
            self._trimmed = least

    def close(self) -> None:
        with self._lock:
            if self._connected is not None:
                self._connected.close()
            self._connected = None

    @property
    def _fields(self) -> list[str]:
        """What is read of a hash: a row that has no columns but its key has none else."""
        return ["", *(self.table.columns[i].name for i in self.decoder.values)]

    def _run(self, what: str, operations: list[Any]) -> int:
        """Runs the script that writes; the number of the log's last entry."""
        return int(self._asked(what, lambda client: client.register_script(rows_script())([self._prefix], operations)))

    def _block(self, cursor: int, mark: bytes | None) -> tuple[int, list[bytes], list[list[bytes | None]]]:
        """The next cursor (0: there is no more), the keys of some rows, and their columns."""
        fields = self._fields
        given = [cursor, _escaped(self._prefix) + ":*", SCANNED_AT_ONCE, *fields]
        next_, now, expiring, flat = self._asked(
            "its rows cannot be read", lambda client: client.register_script(block_script())([self._prefix], given)
        )
        if mark is not None and now != mark:
            raise self._lost("was made anew while the rows were read")
        if expiring is not None:
            raise Error(self._said(f"the row {expiring.decode(errors='backslashreplace')} expires (EXPIRE), which no "
                                   "log tells: PERSIST it, and delete rows with the script instead"))  # fmt: skip
        width, start = 1 + len(fields), len(self._prefix.encode()) + 1
        columns = [flat[at::width] for at in range(width)]
        return int(next_), [name[start:] for name in columns[0]], columns[2:]

    def _as_rows(self, keys: list[bytes], values: list[list[bytes | None]]) -> Scanned:
        operations, reasons = self.decoder.rows(keys, values)
        bad = []
        for row, reason in sorted(reasons.items()):
            name = f"{self._prefix}:{keys[row].decode(errors='backslashreplace')}"
            key = tuple(operations.columns[i][row].as_py() for i in self.form.key)
            bad.append(NoRow(self._said(f"the hash {name} is no row of it: {reason}; mend or delete it, or choose a "
                                        "prefix that no other keys have"), None if None in key else key))  # fmt: skip
        good = operations.take(np.setdiff1d(np.arange(len(keys)), list(reasons))) if reasons else operations
        return Scanned([(good, np.full(len(good), time.time_ns() // 1000))], bad)

    def _look(self, at: int | None = None) -> Look:
        """The log at this moment, and what its entry `at` holds."""

        def asked(client: redis.Redis) -> list[Any]:
            with client.pipeline(transaction=True) as steps:
                steps.execute_command("GET", self._mark)
                steps.execute_command("XINFO", "STREAM", self._log)
                steps.execute_command("XRANGE", self._log, f"{at or 0}-0", f"{at or 0}-0")
                return list(steps.execute(raise_on_error=False))

        told = self._asked("its log cannot be read", asked)
        for i, each in enumerate(told):
            if isinstance(each, Exception):
                if "no such key" not in str(each):
                    raise self._told(each, "its log cannot be read") from each
                told[i] = None
        return look_of(*told)

    def _as_ends(self, look: Look) -> LogEnds:
        if look.mark is None or look.last is None:
            raise self._lost("is gone, as if by FLUSHALL or DEL")
        if look.last > LAST_MAX:
            raise self._lost("holds an entry of somebody else, whose id is too great to go on from")
        return LogEnds({PART: look.last}, {PART: identity_of(look.mark.decode(errors="replace"))})

    def _require_whole_part(self, look: Look, range_: PartRange) -> None:
        ends = self._as_ends(look)
        if range_.identity and ends.identities[PART] != range_.identity:
            raise self._lost("is not the one that was read before, as if it had been deleted and made anew")
        if ends.positions[PART] < range_.upto:
            raise self._lost(f"ends at entry {ends.positions[PART]}, and went on to {range_.upto}: the server has lost "
                             "entries that it had acknowledged")  # fmt: skip
        if look.begins_behind(range_.after):
            raise self._lost(f"does not go back to entry {range_.after + 1} any more: it was trimmed, or entries were "
                             "deleted, before they had been read")  # fmt: skip

    def _lost(self, how: str) -> LogLost:
        return LogLost(self._said(f"{self._log} {how}; drop the table, and create it again"))

    def _client(self) -> redis.Redis:
        with self._lock:
            if self._connected is None:
                # RESP2 and no retries: a write that was done, and not acknowledged, would be done twice.
                made = redis.Redis.from_url(
                    self._options["url"], password=self._options.get("password"), protocol=2,
                    socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS, retry=Retry(NoBackoff(), 0),
                )  # fmt: skip
                made.set_response_callback("XRANGE", lambda response, **_: response)
                self._connected = made
            return self._connected

    def _asked(self, what: str, ask: Any) -> Any:
        try:
            return ask(self._client())
        except redis.RedisError as error:
            raise self._told(error, what) from error

    def _told(self, error: Exception, what: str) -> Error:
        """The error for what the client says."""
        where = urlsplit(self._options["url"])
        message = self._said(f"{what}: {error} ({where.scheme}://{where.netloc.rpartition('@')[2]}{where.path})")
        away = isinstance(error, redis.ConnectionError | redis.TimeoutError) and not isinstance(
            error, redis.AuthenticationError
        )
        if isinstance(error, redis.ResponseError) and str(error).startswith("VIEWKEEPER "):
            return InputError(f"{self.table.name}: {str(error).removeprefix('VIEWKEEPER ')}")
        return StoreAway(message) if away else Error(message)

    def _said(self, message: str) -> str:
        return said_of(self.table.id, self.table.name, message)


def _escaped(prefix: str) -> str:
    """A prefix as a pattern of SCAN."""
    return "".join("\\" + each if each in "*?[]^\\" else each for each in prefix)


def _not_falling(found: ReadPart) -> ReadPart:
    """The same with stamps that do not fall along the log, as those of a server do whose clock was set back."""
    if not found.operations:
        return found
    sequences = np.concatenate([each for _, each, _ in found.operations])
    stamps = np.concatenate([each for _, _, each in found.operations])
    order = np.argsort(sequences)
    stamps[order] = np.maximum.accumulate(stamps[order])
    cuts = np.cumsum([len(each) for _, each, _ in found.operations])[:-1]
    operations = [(each, of, at) for (each, of, _), at in zip(found.operations, np.split(stamps, cuts), strict=True)]
    return ReadPart(operations, found.bad)

"""A database with one stream, to append to; what is stored is read from its files by Arrow alone."""

from __future__ import annotations

import datetime
import json
import os
import sys
from pathlib import Path

import pyarrow.parquet as pq

from viewkeeper.catalog.model import Catalog, Column, Stream
from viewkeeper.catalog.types import DOUBLE, INT, STRING, TIMESTAMP
from viewkeeper.streams.intake.append import StreamTarget, append
from viewkeeper.streams.intake.entries import Append, Seal
from viewkeeper.streams.intake.stream_environment import Appended
from viewkeeper.streams.intake.stream_log import StreamLog
from viewkeeper.trace.local_disk import LocalDisk, local_storage

NOW = 1_700_000_000.0
UTC = datetime.UTC
COLUMNS = (Column("ts", TIMESTAMP, False), Column("src", STRING), Column("loss", INT), Column("rtt", DOUBLE))


class Intake:
    """One stream in a database of its own."""

    def __init__(self, root: Path, columns: tuple[Column, ...] = COLUMNS, zone: str = "UTC", **more: object) -> None:
        self.root, self.zone, self.storage = root, zone, local_storage(root)
        self.storage.initialise(Catalog())
        self.stream = Stream(20, "m", columns, 0, **{"length": 60, **more})
        self.log = StreamLog(root, LocalDisk(str(root)))

    @property
    def target(self) -> StreamTarget:
        return StreamTarget(self.storage, self.stream, self.zone)

    def append(self, rows: object, id_: object = None, now: float = NOW) -> Appended:
        return append(self.target, rows, id_, now=now)

    def entries(self) -> list[Append | Seal]:
        return self.log.entries(20, 0, 10**6)

    def stored(self) -> list[dict]:
        """All rows with their parts, by the log's word of where each part's rows stand."""
        rows: list[dict] = []
        for entry in self.entries():
            for file in entry.files if isinstance(entry, Append) else ():
                found = pq.read_table(self.root / "state" / file.ref.name).to_pylist()
                for part, piece in file.pieces():
                    inside = found[piece.offset : piece.offset + piece.rows]
                    assert {row["__part"] for row in inside} == {part}
                    rows += inside
                assert len(found) == file.rows.sum()
        return rows

    def values(self, name: str) -> list:
        return [row[name] for row in self.stored()]

    def rejected(self) -> list[tuple[str, dict]]:
        return [(row["reason"], json.loads(row["operation"])) for entry in self.entries()
                if isinstance(entry, Append) for row in entry.rejected.to_pylist()]  # fmt: skip

    def files(self) -> set[str]:
        return {path.name for path in (self.root / "state").iterdir()}

    def named(self) -> set[str]:
        return {file.ref.name for entry in self.entries() if isinstance(entry, Append) for file in entry.files}


def at(seconds: float) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1, tzinfo=UTC) + datetime.timedelta(seconds=seconds)


def append_for_ever(root: str, seed: str) -> None:
    """Append until killed, and tell of each call when it is acknowledged: `loss` counts the calls, `rtt` the rows."""
    intake = Intake(Path(root))
    for call in range(1, 1_000_000):
        rows = [{"ts": at((call * 7 + n * 13) % 600), "src": seed, "loss": call, "rtt": float(n)}
                for n in range(call % 40)]  # fmt: skip
        print(call, intake.append(rows).stored, flush=True)


def append_with_ids(root: str, count: str, times: str) -> None:
    """Append under `count` ids, each `times` times; print how many calls stored something."""
    intake, first = Intake(Path(root)), 0
    for n in range(int(count) * int(times)):
        first += not intake.append([{"ts": at(n), "src": str(os.getpid())}] * 3, f"id {n % int(count)}").duplicate
    print(first)


def append_within_a_horizon(root: str, seed: str, times: str) -> None:
    """Append rows whose times rise, with a few far behind, to a stream with a horizon of 100 seconds."""
    intake = Intake(Path(root), horizon=100)
    for n in range(int(times)):
        late = [at(n * 20 - 95 - (n * 37 + int(seed) * 11) % 60) for _ in range(5)]
        intake.append([{"ts": t, "src": seed} for t in (*late, at(n * 20))])


def start(name: str, *arguments: object) -> list[str]:
    """The command line of a program of this file."""
    return [sys.executable, str(Path(__file__)), name, *map(str, arguments)]


if __name__ == "__main__":
    {f.__name__: f for f in (append_for_ever, append_with_ids, append_within_a_horizon)}[sys.argv[1]](*sys.argv[2:])

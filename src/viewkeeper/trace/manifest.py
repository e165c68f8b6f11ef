"""A manifest: one committed step of the database, as the change from the step before, and its file format.

A file holds one line of JSON and a second line with the CRC-32 of the first.  A *checkpoint* carries all runs and
files; a manifest names the checkpoint it builds on (`since`) and the manifest it follows.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from viewkeeper.errors import Damaged
from viewkeeper.trace.receipt import FileRef, RunRef

Kind = Literal["batch", "merge", "catalog", "fill", "epoch", "parts", "rebase", "adopt"]
"""What was committed.  A merge and an epoch keep the version, each other kind makes the next one."""

KEEPS_VERSION = ("merge", "epoch")

RunKey = tuple[int, str, int]
"""Which run: its state, file and section."""


class ManifestRef(NamedTuple):
    """Which manifest: its number, which says where it is, and its identity, which says that it is the one."""

    number: int
    identity: str


@dataclass(frozen=True)
class CatalogRef:
    """A catalog file: its name within the catalog folder, length in bytes, CRC-32."""

    name: str
    length: int
    checksum: int


@dataclass(frozen=True)
class Manifest:
    """One step.

    `positions` maps a node to the last sequence of its log that is in, `hashes` to the log's running hash there (in
    hexadecimal digits), and `rebased` to the greatest sequence that may also have been one of a log that was replaced.
    Beside nodes (numbers) there are the logs of tables in outside stores (texts; changes/positions.py).
    `stamp` is that of the newest entry, in microseconds.  `progress` says of each stream and part view how far it is
    (streams/progress.py), as plain data.
    `identity` is random, and `follows` that of the manifest before: a chain cannot be mixed from two.  `database` is
    random too, and the same in all manifests of a database.
    In a checkpoint `since` is its own number, `added` and `files_added` are everything.
    """

    number: int
    version: int
    epoch: int
    kind: Kind
    database: str
    identity: str
    follows: str
    since: int
    positions: dict[int | str, int]
    stamp: int
    catalog: CatalogRef
    added: tuple[RunRef, ...] = ()
    removed: tuple[RunKey, ...] = ()
    files_added: tuple[FileRef, ...] = ()
    files_removed: tuple[str, ...] = ()
    progress: dict[int, dict[str, Any]] = field(default_factory=dict)
    hashes: dict[int | str, str] = field(default_factory=dict)
    rebased: dict[int | str, int] = field(default_factory=dict)

    @property
    def is_checkpoint(self) -> bool:
        return self.since == self.number

    def encode(self) -> bytes:
        """The bytes of its file."""
        data = {
            "number": self.number, "version": self.version, "epoch": self.epoch, "kind": self.kind,
            "database": self.database, "id": self.identity, "follows": self.follows, "since": self.since,
            "stamp": self.stamp, "positions": self.positions,
            "catalog": [self.catalog.name, self.catalog.length, self.catalog.checksum],
            "runs_added": _group((run.file, _run_fields(run)) for run in self.added),
            "runs_removed": _group((file, [state, section]) for state, file, section in self.removed),
            "files_added": {file.name: [file.length, file.checksum] for file in self.files_added},
            "files_removed": self.files_removed,
            "progress": self.progress, "hashes": self.hashes, "rebased": self.rebased,
        }  # fmt: skip
        body = json.dumps(data, separators=(",", ":")).encode()
        return body + b"\n" + _checksum_line(body)

    @staticmethod
    def decode(text: bytes, name: str) -> Manifest:
        """The inverse of `encode`; `Damaged`, naming the file `name`, if these are not the bytes that were written."""
        body, _, checksum = text.partition(b"\n")
        if checksum != _checksum_line(body):
            raise Damaged(
                f"manifest {name} is damaged: its {len(body)} bytes of JSON do not have the checksum at its end"
            )
        data = json.loads(body)
        return Manifest(
            number=data["number"], version=data["version"], epoch=data["epoch"], kind=data["kind"],
            database=data["database"], identity=data["id"], follows=data["follows"], since=data["since"],
            stamp=data["stamp"],
            positions={_log(log): sequence for log, sequence in data["positions"].items()},
            catalog=CatalogRef(*data["catalog"]),
            added=tuple(_run(file, fields) for file, runs in data["runs_added"].items() for fields in runs),
            removed=tuple((run[0], file, run[1]) for file, runs in data["runs_removed"].items() for run in runs),
            files_added=tuple(FileRef(file, *fields) for file, fields in data["files_added"].items()),
            files_removed=tuple(data["files_removed"]),
            progress={int(object_): each for object_, each in data.get("progress", {}).items()},
            hashes={_log(log): hash_ for log, hash_ in data["hashes"].items()},
            rebased={_log(log): sequence for log, sequence in data["rebased"].items()},
        )  # fmt: skip


def _log(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _checksum_line(body: bytes) -> bytes:
    return b"%08x\n" % zlib.crc32(body)


def _group(pairs: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    """Values by file, so that a file's name, the longest part of a run, is written once."""
    groups: dict[str, list[Any]] = {}
    for file, value in pairs:
        groups.setdefault(file, []).append(value)
    return groups


def _run_fields(run: RunRef) -> list[int]:
    return [run.state, run.section, run.rows, run.bytes, run.low, run.high, run.first, run.last]


def _run(file: str, fields: list[int]) -> RunRef:
    state, section, rows, bytes_, low, high, first, last = fields
    return RunRef(state, file, section, rows, bytes_, low, high, first, last)

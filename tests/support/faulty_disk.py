"""Storage in memory whose answers are lost, come late, or say that nobody knows."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from viewkeeper.trace.commit import Storage
from viewkeeper.trace.disk import MANIFESTS, Created, CreateOutcome, Status, Taken, Unknown
from viewkeeper.trace.receipt import FileRef

LOST, LATE, NEVER, GONE = "lost", "late", "never", "gone"
"""What happens to a create: it is done and nobody knows, it is done later, or it is not; or what took the name is gone
before its taker can look."""


@dataclass(eq=False)
class Files:
    """What is stored: by name, the bytes, when they were made, and how many were before."""

    files: dict[str, tuple[bytes, float, int]] = field(default_factory=dict)
    made: int = 0

    def put(self, name: str, data: bytes) -> None:
        self.made += 1
        self.files[name] = (data, time.time(), self.made)


@dataclass(eq=False)
class FaultyDisk:
    """One process's way to `stored`: each create of a manifest meets the next of `faults`, until there are none."""

    stored: Files
    faults: deque[str | None] = field(default_factory=deque)
    late: list[tuple[str, bytes]] = field(default_factory=list)
    creates: int = 0

    def make_folders(self) -> None:
        """Nothing has to be made."""

    def create(self, name: str, data: bytes) -> CreateOutcome:
        fault = self.faults.popleft() if self.faults and name.startswith(MANIFESTS) else None
        self.creates += name.startswith(MANIFESTS)
        if fault == LATE:
            self.late.append((name, data))
        elif fault == GONE:
            return Taken()
        elif fault != NEVER:
            taken = name in self.stored.files
            if not taken:
                self.stored.put(name, data)
            if fault is None:
                return Taken() if taken else Created()
        return Unknown(TimeoutError("no answer"))

    def arrive(self) -> None:
        """What is late comes in now."""
        for name, data in self.late:
            if name not in self.stored.files:
                self.stored.put(name, data)
        self.late = []

    def put(self, name: str, data: bytes) -> None:
        self.stored.put(name, data)

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        return self._found(name)[0][start:][:length]

    def exists(self, name: str) -> bool:
        return name in self.stored.files

    def stat(self, name: str) -> Status:
        data, made, mark = self._found(name)
        return Status(len(data), made, mark)

    def folder_mark(self, folder: str) -> None:
        """A bucket has no folders."""

    def list(self, folder: str, after: str = "") -> list[str]:
        begin = f"{folder}/"
        names = (name.removeprefix(begin) for name in self.stored.files if name.startswith(begin))
        return sorted(name for name in names if name > after)

    def delete(self, names: Collection[str], lasting: bool = False) -> None:
        for name in names:
            self.stored.files.pop(name, None)

    def upload(self, file: Path, name: str) -> None:
        self.stored.put(name, file.read_bytes())

    def scratch(self, name: str) -> Path:
        raise NotImplementedError

    def local(self, name: str, ref: FileRef | None = None) -> Path:
        raise NotImplementedError

    def sweep(self, older: float) -> None:
        """Nothing is left half-made."""

    def _found(self, name: str) -> tuple[bytes, float, int]:
        if name not in self.stored.files:
            raise FileNotFoundError(2, "no such file", name)
        return self.stored.files[name]


def storage_on(stored: Files, *faults: str | None) -> tuple[Storage, FaultyDisk]:
    """A process's storage, and its way there, which has these faults."""
    disk = FaultyDisk(stored, deque(faults))
    return Storage(Path("/nowhere"), disk, keep_seconds=0.0), disk


def any_faults(chance: random.Random) -> list[str | None]:
    """What happens to the creates of one commit."""
    return [chance.choice([LOST, LATE, NEVER]) for _ in range(chance.choice([0, 0, 1, 2, 3, 5]))]

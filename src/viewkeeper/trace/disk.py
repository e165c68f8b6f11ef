"""What is asked of the storage of a database: whole files by name, and a lock for who may drive.

A `Disk` is handed to all that keeps something durable, in tasks of other processes too: it is small, is pickled, and
equal ones are the same storage.  Its names are relative to the database's root, as text: "manifests/000000000017.json".
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from pathlib import Path
from typing import NamedTuple, Protocol

from viewkeeper.trace.receipt import FileRef

STATE, MANIFESTS, CATALOGS, LEASES, REQUESTS = "state", "manifests", "catalogs", "leases", "requests"
FOLDERS = (STATE, MANIFESTS, CATALOGS, LEASES, REQUESTS)

TRIES = 3
"""How often a file is created before its maker is told that nobody knows whether it is there."""


class Created(NamedTuple):
    """The file is there, whole and durable, and this call made it."""


class Taken(NamedTuple):
    """The file was there: somebody else's, or that of an earlier call of this process whose answer was lost."""


class Unknown(NamedTuple):
    """The file is there, or will be, or will not: it has to be created again to find out."""

    reason: OSError


CreateOutcome = Created | Taken | Unknown


class Status(NamedTuple):
    """A file's length; when it was made or replaced, in seconds since 1970 by the storage's own clock; and a `mark`
    that it does not share with any other file, nor with what was under its name before or will be later."""

    bytes: int
    time: float
    mark: Hashable


class FolderMark(NamedTuple):
    """When a file was last created or deleted in a folder, in seconds since 1970 by the storage's own clock, and what
    else tells the folder from others of its name."""

    changed: float
    identity: Hashable


class Disk(Protocol):
    """Files that are whole or absent.

    Whatever fails raises OSError: FileNotFoundError where there is no such file.
    """

    def __hash__(self) -> int: ...

    def make_folders(self) -> None:
        """Ready the storage for a new database, as far as it needs that; harmless where it is done."""

    def create(self, name: str, data: bytes) -> CreateOutcome:
        """Make a file, whole, durably, and only if there is none of that name.  What raises has made nothing."""

    def put(self, name: str, data: bytes) -> None:
        """Make or replace a file, whole; it need not survive a power failure.  For beats and notes only."""

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file from `start` on, `length` of them at most."""

    def exists(self, name: str) -> bool:
        """Whether there is such a file, now."""

    def stat(self, name: str) -> Status:
        """What is known of a file without its content."""

    def folder_mark(self, folder: str) -> FolderMark | None:
        """What changes whenever a file is created or deleted in `folder`; None where the storage has no such thing, or
        there is no folder."""

    def list(self, folder: str, after: str = "") -> list[str]:
        """The names within `folder` of the finished files in it, ascending, those behind `after`.  None where there is
        no such folder, or FileNotFoundError: where there are folders, it was moved or deleted."""

    def delete(self, names: Collection[str], lasting: bool = False) -> None:
        """Delete the files that are there.  `lasting`: no power failure brings them back once this has returned."""

    def upload(self, file: Path, name: str) -> None:
        """Make the finished file `file` of this machine, which is where `scratch` said, the file `name`: durable on
        return."""

    def scratch(self, name: str) -> Path:
        """Where on this machine the file that will be `name` is to be written."""

    def local(self, name: str, ref: FileRef | None = None) -> Path:
        """A whole copy of a file on this machine, of the length that `ref` says; it stays for as long as it is
        mapped."""

    def sweep(self, older: float) -> None:
        """Delete what killed processes have left half-made before `older`, seconds since 1970."""


class Lock(Protocol):
    """Whom it lets in keeps others out, until it lets go or its process is gone.

    It avoids duels; what fences is the chain of manifests.
    """

    def acquire(self, purpose: str, wait_seconds: float) -> None:
        """Take it, for `purpose`; raises Busy, naming the holder, where it is held for longer than that."""

    def beat(self) -> None:
        """Show that the holder lives; raises Error where it holds the lock no longer."""

    def release(self) -> None:
        """Let it go; once is enough."""


def create_own(disk: Disk, name: str, data: bytes) -> None:
    """Make a file whose name is random, so that nobody else makes it: where it is taken, it is this one."""
    outcome = disk.create(name, data)
    for _ in range(TRIES - 1):
        if not isinstance(outcome, Unknown):
            return
        outcome = disk.create(name, data)
    if isinstance(outcome, Unknown):
        raise outcome.reason

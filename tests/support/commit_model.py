"""Made-up receipts and child processes, for the tests of the commit protocol: it never looks into a zone file."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from viewkeeper.catalog.model import Catalog
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.local_disk import local_storage
from viewkeeper.trace.naming import file_name
from viewkeeper.trace.receipt import FileRef, Receipt, RunRef
from viewkeeper.trace.snapshot import Snapshot

WORDS = 2**64 - 1


def receipt(
    version: int, states: list[int], *, first: int | None = None, epoch: int = 1, attempt: int = 0,
    words: tuple[int, int] = (0, WORDS), kind: str = "batch",
) -> Receipt:  # fmt: skip
    """A new file with one run for each of `states`, of versions `first` (default: `version`) to `version`."""
    name = file_name(version, epoch, 1, 0, attempt, kind)
    oldest = version if first is None else first
    runs = tuple(RunRef(state, name, section, 10, 640, *words, oldest, version) for section, state in enumerate(states))
    return Receipt(FileRef(name, 64 + 640 * len(runs), 0xC0FFEE), runs)


def write(storage: Storage, written: Receipt) -> Receipt:
    """Put a file of that name into the state folder."""
    assert written.file is not None
    (storage.root / "state" / written.file.name).write_bytes(b"x" * 100)
    return written


def database(root: Path, keep_seconds: float = 60.0, catalog: Catalog = Catalog()) -> tuple[Storage, Snapshot]:  # noqa: B008
    """A new database, with this process as its driver."""
    storage = local_storage(root, keep_seconds)
    return storage, storage.new_epoch(storage.initialise(catalog))


def contents(snapshot: Snapshot) -> dict[str, object]:
    """Everything that a snapshot says."""
    names = (
        "number", "version", "epoch", "database", "identity", "since", "positions", "stamp", "catalog_ref", "states",
        "files",
    )  # fmt: skip
    return {name: getattr(snapshot, name) for name in names}


def forked(work: Callable[[], None]) -> int:
    """Start a child process that does `work` and ends, with status 0 unless it raised; returns its pid."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return pid


def ended(pid: int) -> int:
    """Wait for a child; its exit status, negative for the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)

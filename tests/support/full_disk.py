"""A disk that is full from some durable step on: creating, writing, naming and syncing files fail then."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


class FullDisk:
    """`failed` counts the steps that failed; `steps` those that were taken."""

    def __init__(self, at: int, lasting: bool, after: bool) -> None:
        self.steps = self.failed = 0
        self._at, self._lasting, self._after = at, lasting, after

    def step(self, what: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Does `what`, or fails: before it, or (as where a device breaks) when it is done."""
        self.steps += 1
        fails = self.steps == self._at or (self._lasting and self.steps > self._at)
        if not fails:
            return what(*arguments, **named)
        self.failed += 1
        if self._after:
            done = what(*arguments, **named)
            if what is os_open:
                os.close(done)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


os_open, os_fsync = os.open, os.fsync


@contextmanager
def full_disk(at: int, *, lasting: bool = False, after: bool = False) -> Iterator[FullDisk]:
    """Within the block the `at`-th durable step of this process fails; `lasting`: all later ones, too, but for
    deletions and the syncing of folders, for which a full disk has room.  `after`: the step is done, and then fails."""
    disk = FullDisk(at, lasting, after)

    def opening(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
        if flags & os.O_CREAT:
            return disk.step(os_open, (path, flags, *arguments), named)
        return os_open(path, flags, *arguments, **named)

    def syncing(descriptor: int) -> None:
        if lasting and stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os_fsync(descriptor)
        else:
            disk.step(os_fsync, (descriptor,), {})

    def other(name: str) -> Callable[..., Any]:
        original = getattr(os, name)
        return lambda *arguments, **named: disk.step(original, arguments, named)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("link", "rename", "replace", "mkdir"):
            patch.setattr(os, name, other(name))
        patch.setattr(os, "open", opening)
        patch.setattr(os, "fsync", syncing)
        yield disk

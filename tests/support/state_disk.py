"""A folder that stands for the state folder of a database, for tests of the files alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from viewkeeper.trace.local_disk import LocalDisk


@dataclass(frozen=True)
class StateDisk(LocalDisk):
    """All files are in one folder.  Nothing is synced, which would take most of the time."""

    def upload(self, file: Path, name: str) -> None:
        assert str(file) == self._path(name)

    def _path(self, name: str) -> str:
        return f"{self.root}/{name.rpartition('/')[2]}"


def disk_in(folder: Path) -> StateDisk:
    """The disk whose state folder is `folder`."""
    return StateDisk(str(folder))

"""The local disk, and a file system that is mounted and behaves as one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from viewkeeper.durable import link_new, replace, sync
from viewkeeper.permissions import make_folder, make_root
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.disk import FOLDERS, STATE, Created, CreateOutcome, FolderMark, Status, Taken, Unknown
from viewkeeper.trace.receipt import FileRef


# The functions of `os` are used here: those of `pathlib` take three times as long.
@dataclass(frozen=True)
class LocalDisk:
    """A database in the folder `root`: its files are where their names say, and are mapped in place."""

    root: str

    def make_folders(self) -> None:
        """Make the folders of a new database, durably; harmless where they are there."""
        root = Path(self.root)
        if not root.exists():
            make_root(root)
        for folder in FOLDERS:
            make_folder(root / folder)
            sync(f"{self.root}/{folder}")
        sync(self.root)

    def create(self, name: str, data: bytes) -> CreateOutcome:
        """See `Disk`."""
        path = self._path(name)
        created = link_new(path, data)
        try:
            sync(os.path.dirname(path))  # noqa: PTH120
        except OSError as error:
            return Unknown(error)
        return Created() if created else Taken()

    def put(self, name: str, data: bytes) -> None:
        """See `Disk`."""
        replace(self._path(name), data)

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """See `Disk`."""
        with open(self._path(name), "rb", buffering=0) as file:  # noqa: PTH123
            if start:
                file.seek(start)
            data = file.read() if length is None else file.read(length)
        assert data is not None, "a file that blocks has always something"
        return data

    def exists(self, name: str) -> bool:
        """See `Disk`."""
        return os.path.exists(self._path(name))  # noqa: PTH110

    def stat(self, name: str) -> Status:
        """See `Disk`."""
        found = os.stat(self._path(name))  # noqa: PTH116
        return Status(found.st_size, found.st_ctime, (found.st_ino, found.st_ctime_ns))

    def folder_mark(self, folder: str) -> FolderMark | None:
        try:
            found = os.stat(self._path(folder))  # noqa: PTH116
        except FileNotFoundError:
            return None
        return FolderMark(found.st_ctime, found.st_ino)

    def list(self, folder: str, after: str = "") -> list[str]:
        """See `Disk`."""
        with os.scandir(self._path(folder)) as entries:
            return sorted(entry.name for entry in entries if entry.name > after and entry.name[0] != ".")

    def delete(self, names: Collection[str], lasting: bool = False) -> None:
        """See `Disk`."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(name))  # noqa: PTH108
        if lasting:
            with contextlib.suppress(FileNotFoundError):  # the folder was deleted, too
                self._sync_folders(names)

    def upload(self, file: Path, name: str) -> None:
        """See `Disk`."""
        path = self._path(name)
        assert str(file) == path, f"{file} was not written where `scratch` said"
        sync(path)
        self._sync_folders([name])

    def scratch(self, name: str) -> Path:
        """Its own place: what no manifest names does not exist."""
        return Path(self._path(name))

    def local(self, name: str, ref: FileRef | None = None) -> Path:
        """The file itself; who maps it looks at its length and checksums."""
        return Path(self._path(name))

    def sweep(self, older: float) -> None:
        """See `Disk`."""
        for folder in (Path(self.root), *(Path(self.root, each) for each in FOLDERS if each != STATE)):
            for path in folder.glob(".*"):
                with contextlib.suppress(FileNotFoundError):  # it has just got its final name
                    if path.is_file() and path.stat().st_mtime < older:
                        path.unlink()

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def _sync_folders(self, names: Iterable[str]) -> None:
        for folder in sorted({os.path.dirname(self._path(name)) for name in names}):  # noqa: PTH120
            sync(folder)


def local_storage(root: str | Path, keep_seconds: float = 60.0) -> Storage:
    """The database in the folder `root`."""
    return Storage(Path(root), LocalDisk(str(root)), keep_seconds)

"""Durability and exclusive creation on a local disk: all that the commit protocol asks of a kind of storage."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from viewkeeper.permissions import open_new


class LocalDisk:
    """Files that are whole or absent.  Another kind of storage is another class with these methods."""

    def publish(self, path: Path) -> None:
        """Return when the finished file `path` and its name are durable."""
        sync(path)
        sync(path.parent)

    def create(self, path: Path, data: bytes) -> None:
        """Make `path` with `data`, durably and in one step; FileExistsError if somebody else was first."""
        with _draft(path, data, durable=True) as draft:
            # A link never replaces a file, unlike a rename, and the name appears with all its bytes.
            path.hardlink_to(draft)
        sync(path.parent)

    def write(self, path: Path, data: bytes) -> None:
        """Give `path` the content `data`, durably and in one step."""
        with _draft(path, data, durable=True) as draft:
            draft.replace(path)
        sync(path.parent)

    def replace(self, path: Path, data: bytes) -> None:
        """Give `path` the content `data` in one step; need not survive a power failure."""
        with _draft(path, data, durable=False) as draft:
            draft.replace(path)


def sync(path: Path) -> None:
    """Return when what is in the file or folder `path` is durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _draft(path: Path, data: bytes, durable: bool) -> Iterator[Path]:
    """A file beside `path` that holds `data` and is gone after the block; its name begins with a dot, which no finished
    file's does."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(open_new(draft), "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        yield draft
    finally:
        with contextlib.suppress(FileNotFoundError):  # it has another name by now, or could not be made
            draft.unlink()

"""Durability and exclusive creation on a local disk: all that the commit protocol asks of a kind of storage."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


class LocalDisk:
    """Files that are whole or absent.  Another kind of storage is another class with these three methods."""

    def publish(self, path: Path) -> None:
        """Return when the finished file `path` and its name are durable."""
        _sync(path)
        _sync(path.parent)

    def create(self, path: Path, data: bytes) -> None:
        """Make `path` with `data`, durably and in one step; FileExistsError if somebody else was first."""
        temporary = _temporary(path)
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            # A link never replaces a file, unlike a rename, and the name appears with all its bytes.
            path.hardlink_to(temporary)
        finally:
            temporary.unlink()
        _sync(path.parent)

    def replace(self, path: Path, data: bytes) -> None:
        """Give `path` the content `data` in one step; need not survive a power failure."""
        temporary = _temporary(path)
        temporary.write_bytes(data)
        temporary.replace(path)


def _temporary(path: Path) -> Path:
    """A name beside `path` that is not taken; it begins with a dot, which no finished file does."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

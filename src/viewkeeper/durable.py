"""Files of this machine that are whole or absent, and outlive a power failure where that is asked for."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from viewkeeper.permissions import open_new


def sync(path: str) -> None:
    """Return when what is in the file or folder `path` is durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(path: str, data: bytes) -> None:
    """Give `path` the content `data` in one step; need not survive a power failure."""
    with _draft(path, data, durable=False) as draft:
        os.replace(draft, path)  # noqa: PTH105 (this is what a `Path` does)


def link_new(path: str, data: bytes) -> bool:
    """Make the file `path` with `data` in one step; False, and nothing is done, if it is there already.

    What is in it is durable, its name not before its folder is synced.
    """
    with _draft(path, data, durable=True) as draft:
        try:
            # A link never replaces a file, unlike a rename, and the name appears with all its bytes.
            os.link(draft, path)
        except OSError as error:
            # Where an answer is lost, as on NFS, the link of a call that "failed" is there: the draft has two names.
            if os.stat(draft).st_nlink > 1:  # noqa: PTH116
                return True
            if isinstance(error, FileExistsError):
                return False
            raise
    return True


@contextmanager
def _draft(path: str, data: bytes, durable: bool) -> Iterator[str]:
    """A file beside `path` that holds `data` and is gone after the block; its name begins with a dot, which no finished
    file's does."""
    folder, _, name = path.rpartition("/")
    draft = f"{folder}/.{name}.{secrets.token_hex(4)}"
    try:
        with os.fdopen(open_new(draft), "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        yield draft
    finally:
        with contextlib.suppress(OSError):  # it has another name by now, or could not be made; or it is swept up later
            os.unlink(draft)  # noqa: PTH108

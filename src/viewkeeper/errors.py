"""Every error that viewkeeper raises; each says what is wrong, where, and what to do."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager


class Error(Exception):
    """The root of all errors of viewkeeper."""


class StorageError(Error):
    """The database's folder cannot be read or written; the message names the file and what to do."""


@contextmanager
def storage_named(place: object) -> Iterator[None]:
    """Raises StorageError where the operating system refuses something in the folder `place`."""
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "see to the folder, then try again")
        raise StorageError(f"{error.filename or place}: {error.strerror or error}; {remedy}") from error


_REMEDIES = {
    errno.ENOSPC: "make room on the disk, then try again", errno.EDQUOT: "make room on the disk, then try again",
    errno.EROFS: "a database needs a folder that can be written, also to be read",
    errno.EACCES: "a database needs a folder that can be written, also to be read",
    errno.ENOENT: "was the database's folder moved or deleted? connect to where it is",
    errno.ENOTDIR: "name a folder",
}  # fmt: skip


class DeclarationError(Error):
    """A statement that is refused when it is declared.

    `line` and `column` are 1-based positions in the text given to `db.sql`, or None where no place is known.
    """

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        self.line, self.column = line, column
        where = f" (line {line}, column {column})" if line is not None else ""
        super().__init__(f"{message}{where}")


def reason_of(refused: DeclarationError) -> str:
    """Why something is refused, without a place."""
    return str(refused).removesuffix(f" (line {refused.line}, column {refused.column})")


class NotSupported(DeclarationError):
    """Valid Spark SQL that viewkeeper does not keep incrementally (yet)."""


class InputError(Error):
    """A value, key or column that `put`, `delete` or `get` cannot take."""


class LayoutChanged(Error):
    """The table has got other columns meanwhile: with the declaration of now it can be done."""


class RowError(InputError):
    """The same of row number `row` (from 0) of a call with many."""

    def __init__(self, before: str, row: int, after: str) -> None:
        self.row, self._around = row, (before, after)
        super().__init__(f"{before}rows[{row}]{after}")

    def at(self, place: str) -> InputError:
        """The same error, of a row that the user knows by its place."""
        return InputError(place.join(self._around))


class NotFound(Error):
    """A table, view, index or version that does not exist (any more)."""


class NotReady(Error):
    """A view that is still being filled; the message gives the progress."""


class ViewBroken(Error):
    """A view that holds error rows, or whose program failed; the message names the row."""


class QueryRaises(ViewBroken):
    """A query, or a statement that changes rows, that raises for a row; the message has the place in its own text."""


class Fenced(Error):
    """This driver has been replaced by a newer one; it must stop."""


class StoreReplaced(Error):
    """The store's log is not the one that the views have read, or that a token is of: an older copy of the store, or of
    the views, was put back.  `viewkeeper rebase` makes the views equal to the store."""


class StoreAway(Error):
    """An outside store that a table is in does not answer; what needs it waits, everything else goes on."""


class LogLost(Error):
    """The log of a table in an outside store was cut off, or replaced, before it had been read: the table must be made
    anew, and its views with it."""


class Busy(Error):
    """Another process maintains this database, or holds what was asked for."""


class Timeout(Error):
    """What was waited for did not happen in time; the message says how far it was."""


class Damaged(Error):
    """A file whose bytes are not the ones that were written; the message names file and region."""


class CheckFailed(Error):
    """Raised by `report.raise_if_wrong()`: a view differs from its query's answer."""


_NOTHING_MISSING = (FileNotFoundError, NotADirectoryError, ConnectionError)
"""A file or process that is gone does not come back by waiting."""

TOLD_SHORTAGE = re.compile(
    r"\bOSError: |MemoryError\b|No space left on device|Too many open files|Cannot allocate memory"
    r"|Resource temporarily unavailable|OutOfMemoryError|Python worker (exited|failed)|ExecutorLostFailure"
)
"""How Spark, which hands on what its workers raised as text, tells a shortage."""


def is_shortage(error: BaseException) -> bool:
    """Whether the machine lacks something, or somebody else has what is needed; Spark hands on what its workers raised
    as text."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, _NOTHING_MISSING):
            return False
        if isinstance(cause, OSError | MemoryError | StorageError | Busy):
            return True
        cause = cause.__cause__
    return bool(TOLD_SHORTAGE.search(str(error)))

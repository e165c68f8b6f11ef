"""Calling the program of a view: what it raises is the view's failure, not the work's."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import physical_type
from viewkeeper.errors import Damaged, StorageError, ViewBroken
from viewkeeper.streams.blocks import Block

DEFECT = "a defect in viewkeeper"

_Result = TypeVar("_Result")


class ProgramFailed(Exception):
    """The program of a view cannot go on; the text is for the user."""


def called(call: Callable[[], _Result]) -> _Result:
    """What `call` gives; raises ProgramFailed where the program raises.

    A file that is gone or damaged, or a shortage of memory, is not the program's doing, and is raised as it is.
    """
    try:
        return call()
    except ViewBroken as error:
        raise ProgramFailed(str(error)) from error
    except (Damaged, StorageError, OSError, MemoryError, ProgramFailed):
        raise
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}, line {frame.lineno}"
        raise ProgramFailed(f"{DEFECT}: {type(error).__name__}: {error} ({place})") from error


def require_shape(block: Block, columns: Sequence[Column], what: str) -> None:
    """Raises ProgramFailed where a program gave other columns than it said."""
    found = [(str(column.type), len(column)) for column in block.columns]
    if found != [(str(physical_type(column.type)), len(block.hashes)) for column in columns]:
        raise ProgramFailed(f"{DEFECT}: {what} came as columns {found} with {len(block.hashes)} hashes")

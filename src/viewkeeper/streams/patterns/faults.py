"""Errors of a pattern view's program, raised with the view, the place in its query, and the group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.errors import ViewBroken
from viewkeeper.maintenance.error_codes import format_error, pack_error


def raise_first(errors: np.ndarray | None, view: str) -> None:
    """Raises ViewBroken for the first error in `errors` (int64 a row, 0: none)."""
    if errors is None:
        return
    wrong = np.flatnonzero(errors)
    if len(wrong):
        raise ViewBroken(f"{view}: {format_error(int(errors[wrong[0]]))}; mend the data or the query")


def raise_where(wrong: np.ndarray | None, code: int, place: tuple[int, int] | None, view: str) -> None:
    """Raises ViewBroken with `code` at `place` if any row is `wrong`."""
    if wrong is not None:
        raise_first(np.where(wrong, np.int64(pack_error(code, place)), np.int64(0)), view)


def group_text(keys: Sequence[pa.Array], row: int) -> str:
    """The grouping values of a row, for people."""
    return "(" + ", ".join(str(key[row].as_py()) for key in keys) + ")"

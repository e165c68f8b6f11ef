"""Errors of a pattern view's program, raised with the view, the place in its query, and the group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import Type, to_logical
from viewkeeper.errors import ViewBroken
from viewkeeper.evaluation.error_codes import format_error


def raise_first(errors: np.ndarray | None, view: str) -> None:
    """Raises ViewBroken for the first error in `errors` (int64 a row, 0: none)."""
    if errors is None:
        return
    wrong = np.flatnonzero(errors)
    if len(wrong):
        raise ViewBroken(f"{view}: {format_error(int(errors[wrong[0]]))}; mend the data or the query")


def group_text(keys: Sequence[pa.Array], types: Sequence[Type], row: int) -> str:
    """The grouping values of a row, for people; `keys` are physical."""
    shown = [to_logical(key.slice(row, 1), type_)[0].as_py() for key, type_ in zip(keys, types, strict=True)]
    return "(" + ", ".join("NULL" if value is None else str(value) for value in shown) + ")"

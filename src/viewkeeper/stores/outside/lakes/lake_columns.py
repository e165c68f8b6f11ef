"""The columns of a lake's table, beside those that are declared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import Type
from viewkeeper.errors import NotSupported


class LakeColumn(NamedTuple):
    """`written` is its type as the lake calls it; `type` is None where no column here can have it, and `refused` says
    why."""

    name: str
    nullable: bool
    written: str
    type: Type | None
    refused: str = ""


def cannot_be(column: str, lake: str, written: object) -> NotSupported:
    """What is said of a column that has `written`, a type of `lake`, in it."""
    return NotSupported(f"the column {column} is of {lake}'s type {written}, which no column here can have; name the "
                        "columns that are wanted, without it")  # fmt: skip


def as_columns(found: Sequence[LakeColumn]) -> list[Column]:
    """Raises NotSupported where no column can be of a type."""
    columns = []
    for each in found:
        if each.type is None:
            raise NotSupported(each.refused)
        columns.append(Column(each.name, each.type, each.nullable))
    return columns


def misfit(found: Sequence[LakeColumn], columns: Sequence[Column]) -> str | None:
    """Why these are not, or do not hold, the declared `columns`; None where they do, whatever else they hold."""
    for column in columns:
        same = [each for each in found if each.name.lower() == column.name.lower()]
        if not same:
            return f"it has no column {column.name}; it has {', '.join(each.name for each in found)}"
        if len(same) > 1:
            return f"it has several columns {column.name}: {', '.join(each.name for each in same)}; rename one"
        if same[0].type != column.type:
            said = same[0].written if same[0].type is None else str(same[0].type)
            return f"its column {column.name} is of type {said}, and declared is {column.type}"
    return None


def spelled(found: Sequence[LakeColumn], columns: Sequence[Column]) -> list[str]:
    """`columns` as the lake spells them; they fit."""
    names = {each.name.lower(): each.name for each in found}
    return [names[column.name.lower()] for column in columns]

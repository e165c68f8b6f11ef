"""Types of Spark's that no column can have and no answer can hold, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from viewkeeper.spark.types import catalog_type

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_ADVICE = {
    "void": "NULL alone, or nothing, has no type; write CAST(... AS a type)",
    "array": "take an element, or make a row of each with explode",
    "map": "take a value by its key, or make a row of each entry with explode",
    "struct": "select its fields one by one",
    "interval": "write CAST(... AS STRING), or an interval that has an order: make_ym_interval, make_dt_interval",
    "time": "write CAST(... AS STRING), or use a TIMESTAMP, or a number of seconds",
    "variant": "take a value out of it with variant_get, or write to_json(...), which parse_json reads",
    "string": "columns hold texts that are told apart by their bytes: write (...) COLLATE UTF8_BINARY, and name the "
              "collation where you compare",
    "geometry": "write st_asbinary(...)", "geography": "write st_asbinary(...)",
}  # fmt: skip
"""By the beginning of a type's name."""


def why_no_column(name: str, type_: DataType, nested: bool = True) -> str:
    """Why there is no column `name` of a type that the catalog has not; without `nested` arrays and their like are
    none either."""
    part = _refused_within(type_, lambda part: catalog_type(part) is None) if nested else type_
    holds = "" if part is type_ else f": it holds {_written(part)}"
    advice = next((text for key, text in _ADVICE.items() if part.simpleString().startswith(key)),
                  "convert it to a type that a column can have")  # fmt: skip
    return f"the column {name} is of type {_written(type_)}, which no column can have{holds}; {advice}"


def unread_column(answer: StructType) -> str | None:
    """Why an answer cannot be read that has a column that Arrow cannot hold: a VARIANT (it takes none that is NULL), or
    an interval without an order; None where there is none."""
    from pyspark.sql.types import CalendarIntervalType, VariantType

    def unread(type_: DataType) -> bool:
        return _refused_within(type_, lambda part: isinstance(part, (CalendarIntervalType, VariantType))) is not type_

    kinds = (CalendarIntervalType, VariantType)
    found = next((each for each in answer.fields if isinstance(each.dataType, kinds) or unread(each.dataType)), None)
    return None if found is None else why_no_column(found.name, found.dataType)


def _refused_within(type_: DataType, refused: Callable[[DataType], bool]) -> DataType:
    """The innermost type within for whose sake `type_` is `refused`; `type_` itself where there is none."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    parts: list[DataType] = []
    if isinstance(type_, ArrayType):
        parts = [type_.elementType]
    elif isinstance(type_, MapType):
        parts = [type_.keyType, type_.valueType]
    elif isinstance(type_, StructType):
        parts = [field.dataType for field in type_.fields]
    for part in parts:
        within = _refused_within(part, refused)
        if within is not part or refused(part):
            return within
    return type_


def _written(type_: DataType) -> str:
    return type_.simpleString().upper()

"""Spark's types for the catalog's, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Type,
    array_of,
    decimal,
    map_of,
    struct_of,
)  # fmt: skip

if TYPE_CHECKING:
    from pyspark.sql import types

_NAMES = {
    BOOLEAN: "BooleanType", TINYINT: "ByteType", SMALLINT: "ShortType", INT: "IntegerType", BIGINT: "LongType",
    FLOAT: "FloatType", DOUBLE: "DoubleType", STRING: "StringType", BINARY: "BinaryType", DATE: "DateType",
    TIMESTAMP: "TimestampType", TIMESTAMP_NTZ: "TimestampNTZType",
}  # fmt: skip
_BACK = {name: ours for ours, name in _NAMES.items()}


def spark_type(type_: Type) -> types.DataType:
    """Spark's type for a column's."""
    from pyspark.sql import types

    if type_.is_nested:
        parts = [spark_type(part) for _, part in type_.parts]
        if type_.name == "STRUCT":
            return types.StructType([types.StructField(name, part) for (name, _), part in
                                     zip(type_.parts, parts, strict=True)])  # fmt: skip
        return types.ArrayType(parts[0]) if type_.name == "ARRAY" else types.MapType(parts[0], parts[1])
    if type_.is_decimal:
        return types.DecimalType(type_.precision, type_.scale)
    if type_.is_interval:
        kind = types.YearMonthIntervalType if type_.is_month_interval else types.DayTimeIntervalType
        ends = type_.name.split()[1::2]
        return kind(*(kind._inverted_fields[end.lower()] for end in (ends[0], ends[-1])))
    found: types.DataType = getattr(types, _NAMES[type_])()
    return found


def catalog_type(type_: types.DataType) -> Type | None:
    """The catalog's type for Spark's; None where a column cannot have it."""
    from pyspark.sql import types

    if isinstance(type_, (types.CharType, types.VarcharType)):  # these stand in what columns are declared as alone
        return Type(type_.typeName().upper(), type_.length)
    if isinstance(type_, types.DecimalType):
        return decimal(type_.precision, type_.scale)
    if isinstance(type_, (types.DayTimeIntervalType, types.YearMonthIntervalType)):
        return Type(type_.simpleString().upper())
    if isinstance(type_, types.ArrayType):
        element = catalog_type(type_.elementType)
        return None if element is None else array_of(element)
    if isinstance(type_, types.MapType):
        key, value = catalog_type(type_.keyType), catalog_type(type_.valueType)
        return None if key is None or value is None else map_of(key, value)
    if isinstance(type_, types.StructType):
        fields = [(field.name, part) for field in type_.fields if (part := catalog_type(field.dataType)) is not None]
        named = {name.lower() for name, _ in fields}
        return struct_of(fields) if fields and len(named) == len(type_.fields) else None
    found = _BACK.get(type(type_).__name__)
    # A STRING with a collation of its own, say, is another type of the same class.
    return found if found is not None and spark_type(found) == type_ else None


def schema(columns: Sequence[Column]) -> types.StructType:
    """The schema of a DataFrame with these columns."""
    from pyspark.sql import types

    return types.StructType([types.StructField(c.name, spark_type(c.type), c.nullable, metadata_of(c.declared))
                             for c in columns])  # fmt: skip


_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
"""By this in the metadata of a column Spark knows how it was declared: `CharVarcharUtils`."""


def metadata_of(declared: Type | str | None) -> dict[str, Any]:
    """What Spark is told of a column that is declared so (`Column.declared`)."""
    return {} if declared is None else {_DECLARED: str(declared)}


def declared_in(field: types.StructField) -> Type | None:
    """How the column was declared (`Column.declared`) that comes out of a query as `field`."""
    from pyspark.sql.types import DataType

    text = (field.metadata or {}).get(_DECLARED)
    return None if text is None else catalog_type(DataType.fromDDL(text))

"""The columns of an Iceberg table.  A field has an id, which stays when it is renamed, and is never given again."""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.schema import Schema, index_by_name
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Type,
    array_of,
    decimal,
    map_of,
    struct_of,
)  # fmt: skip
from viewkeeper.errors import NotSupported
from viewkeeper.stores.outside.lakes.lake_columns import LakeColumn, cannot_be, spelled

_TYPES: dict[type[IcebergType], Type] = {
    BooleanType: BOOLEAN, IntegerType: INT, LongType: BIGINT, FloatType: FLOAT, DoubleType: DOUBLE, StringType: STRING,
    BinaryType: BINARY, DateType: DATE, TimestamptzType: TIMESTAMP, TimestampType: TIMESTAMP_NTZ,
}  # fmt: skip


def columns_of(schema: Schema) -> list[LakeColumn]:
    """The columns of a schema."""
    found = []
    for field in schema.fields:
        try:
            type_, refused = _type(field.field_type, field.name), ""
        except NotSupported as error:
            type_, refused = None, str(error)
        found.append(LakeColumn(field.name, not field.required, str(field.field_type), type_, refused))
    return found


def projected(schema: Schema, columns: Sequence[Column]) -> Schema:
    """The fields of `columns`, which fit, in their order."""
    fields = {field.name: field for field in schema.fields}
    return Schema(*(fields[name] for name in spelled(columns_of(schema), columns)))


def changed_field(before: Schema, now: Schema, columns: Sequence[Column]) -> str | None:
    """Which of `columns`, which fit `now`, was another field before, by the name that it has there; None: none was."""
    earlier = {field.name.lower(): field for field in before.fields}
    for field in projected(now, columns).fields:
        old = earlier.get(field.name.lower())
        if old is not None and _ids(Schema(old)) != _ids(Schema(field)):
            return field.name
    return None


def _ids(schema: Schema) -> dict[str, int]:
    return {name.lower(): id_ for name, id_ in index_by_name(schema).items()}


def _type(written: IcebergType, column: str) -> Type:
    match written:
        case DecimalType():
            return decimal(written.precision, written.scale)
        case ListType():
            return array_of(_type(written.element_type, column))
        case MapType():
            return map_of(_type(written.key_type, column), _type(written.value_type, column))
        case StructType():
            return struct_of((field.name, _type(field.field_type, column)) for field in written.fields)
    if type(written) not in _TYPES:
        raise cannot_be(column, "Iceberg", written)
    return _TYPES[type(written)]

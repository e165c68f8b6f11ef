"""CAST of arrays, structs and maps to others: of what stands within them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from viewkeeper.catalog import nested
from viewkeeper.catalog.types import Type
from viewkeeper.evaluation.vectors import Vector, first_error, read, write
from viewkeeper.functions.nested_columns import listed_in, physical, within

Converted = Callable[[Vector, str], Vector]
CastOf = Callable[[Type, Type], Converted]


def nested_cast(source: Type, target: Type, of: CastOf) -> Converted:
    """The cast of a vector of one nested type to another of its shape; `of` gives the casts of what it is made of."""

    def run(argument: Vector, zone: str) -> Vector:
        constant = isinstance(argument.data, pa.Scalar)
        array, errors = write(argument, source, 1 if constant else len(argument.data))
        cast, raised = _cast(within(array, source), source, target, of, zone)
        made = physical(cast, target)
        result = read(made[0] if constant and raised is None else made, target)
        if errors is not None or raised is not None:
            errors = first_error(argument.errors, raised)
            assert errors is not None
            whole = errors == 0
            return Vector(result.data, whole if result.valid is None else result.valid & whole, errors)
        return result

    return run


def _cast(
    array: pa.Array, source: Type, target: Type, of: CastOf, zone: str
) -> tuple[pa.Array, np.ndarray | None]:  # fmt: skip
    """Arrow's values of one type as those of another, and each row's first error."""
    if source == target:
        return array, None
    if not source.is_nested:
        return write(of(source, target)(read(array, source), zone), target, len(array))
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    if source.name == "STRUCT":
        return _fields(array, source, target, of, zone)
    offsets, values = nested.elements(array)
    inner = _entries(source), _entries(target)
    made, raised = _cast(values, *inner, of, zone)
    return listed_in(offsets, made, valid), _of_rows(offsets, raised)


def _entries(type_: Type) -> Type:
    """What an array or map holds: a map structs of key and value."""
    return Type("STRUCT", parts=type_.parts) if type_.name == "MAP" else type_.parts[0][1]


def _fields(
    array: pa.Array, source: Type, target: Type, of: CastOf, zone: str
) -> tuple[pa.Array, np.ndarray | None]:  # fmt: skip
    made, errors = [], None
    for column, (_, old), (_, new) in zip(array.flatten(), source.parts, target.parts, strict=True):
        cast, raised = _cast(column, old, new, of, zone)
        made.append(cast)
        errors = first_error(errors, raised)
    fields = [pa.field(name, column.type) for (name, _), column in zip(target.parts, made, strict=True)]
    return pa.StructArray.from_arrays(made, fields=fields, mask=array.is_null()), errors


def _of_rows(offsets: np.ndarray, errors: np.ndarray | None) -> np.ndarray | None:
    """The first error among the elements of each row."""
    if errors is None:
        return None
    found = np.zeros(len(offsets) - 1, np.int64)
    places = np.flatnonzero(errors)[::-1]
    found[np.repeat(np.arange(len(found)), np.diff(offsets))[places]] = errors[places]
    return found

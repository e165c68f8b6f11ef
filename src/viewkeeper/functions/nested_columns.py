"""What kernels of arrays, structs and maps share: whole columns of them as Arrow's, and back to bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog import nested
from viewkeeper.catalog.types import Type, form_of


@dataclass(frozen=True)
class Listed:
    """A column of arrays, or of maps (whose elements are structs of key and value).

    Row i has the elements `values[offsets[i]:offsets[i + 1]]`, none where it is NULL; `rows` says of each element the
    row in which it stands.
    """

    offsets: np.ndarray
    values: pa.Array

    @property
    def counts(self) -> np.ndarray:
        return np.diff(self.offsets)

    @property
    def rows(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.offsets) - 1), self.counts)

    def first_where(self, hit: pa.Array) -> np.ndarray:
        """For each row where in `values` its first element stands for which `hit` is TRUE; -1 for none."""
        places = np.flatnonzero(_true(hit))
        found = np.full(len(self.offsets) - 1, -1, np.int64)
        found[self.rows[places][::-1]] = places[::-1]
        return found

    def any_where(self, hit: pa.Array) -> np.ndarray:
        """Whether a row has an element for which `hit` is TRUE."""
        found = np.zeros(len(self.offsets) - 1, np.bool_)
        found[self.rows[np.flatnonzero(_true(hit))]] = True
        return found


def _true(hit: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(hit, False).to_numpy(zero_copy_only=False))


def within(array: pa.Array, type_: Type) -> pa.Array:
    """Physical values of `type_` as Arrow's arrays and structs of physical values."""
    return nested.decoded(array, form_of(type_)) if type_.is_nested else array


def physical(array: pa.Array, type_: Type) -> pa.Array:
    """The inverse of `within`."""
    return nested.encoded(array, form_of(type_)) if type_.is_nested else array


def listed(array: pa.Array, type_: Type) -> Listed:
    """The elements of a physical column of arrays or maps."""
    return Listed(*nested.elements(within(array, type_)))


def listed_in(offsets: np.ndarray, values: pa.Array, valid: np.ndarray | None = None) -> pa.Array:
    """Arrow's array of what stands in `values` between one offset and the next; NULL where not `valid`."""
    buffers = [None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little")),
               pa.py_buffer(np.ascontiguousarray(offsets, np.int32))]  # fmt: skip
    return pa.Array.from_buffers(pa.list_(values.type), len(offsets) - 1, buffers, children=[values])


def equal_form(values: pa.Array, type_: Type) -> pa.Array:
    """Values as `within` gives them in a form in which equal ones are equal to Arrow, NULL where they are."""
    if type_.is_nested or type_.is_float:
        return nested.encoded(values, form_of(type_))
    return values


def side_by_side(columns: Sequence[pa.Array]) -> pa.Array:
    """What stands in a row of each of `columns`, row by row behind one another."""
    count, length = len(columns), len(columns[0])
    if count == 1:
        return columns[0]
    order = np.arange(count * length).reshape(count, length).T.ravel()
    return pa.concat_arrays(list(columns)).take(pa.array(order))


def taken(values: pa.Array, places: np.ndarray, there: np.ndarray) -> pa.Array:
    """`values` at `places`, NULL where not `there`."""
    return values.take(pa.array(places, pa.int64(), mask=~there))

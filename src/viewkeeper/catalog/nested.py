"""Arrays, structs and maps as bytes, so that states, deltas and logs hold them like any other text of bytes.

Two values are equal where their bytes are: each value has one form.  -0.0 within is 0.0 and every NaN is one, and a
map's entries stand in the order of its keys.  Numbers are little-endian:

| value               | bytes                                                                                   |
|---------------------|-----------------------------------------------------------------------------------------|
| of a fixed width    | 1, and its physical form; for NULL zeros                                                |
| STRING, BINARY      | 1 (NULL: 0), length (4 bytes), the bytes                                                |
| STRUCT              | 1 (NULL: 0), each field's value                                                         |
| ARRAY               | 1 (NULL: 0), number of elements (4 bytes), the length of each (4 bytes; not where all   |
|                     | are of one width), the elements                                                         |
| MAP                 | as an ARRAY of STRUCTs of key and value                                                 |

All of it is done for a whole column at once, by the offsets of its elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_BYTES = pa.large_binary()
_HEAD = 5
"""Bytes before what a text or an array holds: whether it is there, and how much it is."""


@dataclass(frozen=True)
class Leaf:
    """A value of a physical type of its own: numbers, moments, texts."""

    physical: pa.DataType

    @property
    def width(self) -> int | None:
        """The bytes of a value; None where they differ."""
        return None if self.physical in (pa.large_string(), _BYTES) else 1 + self.physical.bit_width // 8


@dataclass(frozen=True)
class Fields:
    """A struct: names, and what they are of."""

    names: tuple[str, ...]
    parts: tuple[NestedForm, ...]

    @property
    def width(self) -> int | None:
        """As for a leaf."""
        widths = [part.width for part in self.parts]
        return None if None in widths else 1 + sum(width for width in widths if width is not None)


@dataclass(frozen=True)
class Elements:
    """An array; a map, which is `sorted` by key, is one of structs."""

    part: NestedForm
    sorted: bool = False
    width: None = None


NestedForm = Leaf | Fields | Elements


def encoded(array: pa.Array, form: NestedForm) -> pa.Array:
    """`array`, of physical types within, as large_binary; NULL stays NULL.

    Raises ValueError where a key stands in a map twice.
    """
    return pc.if_else(array.is_valid(), _pieces(array, form), pa.scalar(None, _BYTES))


def decoded(array: pa.Array, form: NestedForm) -> pa.Array:
    """The inverse of `encoded`."""
    whole = pc.fill_null(array, bytes(_HEAD) if form.width is None else bytes(form.width))
    if isinstance(form, Fields):
        whole = pc.if_else(array.is_valid(), array, _pieces(pa.nulls(1, arrow_type(form)), form)[0])
    return _read(_data(whole), _offsets(whole)[:-1], form)[0]


def arrow_type(form: NestedForm) -> pa.DataType:
    """The Arrow type of what `encoded` takes; a map as a list of structs."""
    if isinstance(form, Leaf):
        return form.physical
    if isinstance(form, Elements):
        return pa.list_(arrow_type(form.part))
    return pa.struct([pa.field(name, arrow_type(part)) for name, part in zip(form.names, form.parts, strict=True)])


# Writing


def _pieces(array: pa.Array, form: NestedForm) -> pa.Array:
    """The bytes of each value, those of NULL too."""
    if isinstance(form, Elements):
        return _pieces_of_elements(array, form)
    if isinstance(form, Fields):
        parts = [_head(array)]
        parts += [_pieces(field, part) for field, part in zip(array.flatten(), form.parts, strict=True)]
        return _joined(*parts)
    if form.width is None:
        lengths = pc.fill_null(pc.binary_length(array), 0).to_numpy()
        return _joined(_head(array, lengths), pc.fill_null(array.cast(_BYTES), b""))
    if not len(array):
        return _rows(np.zeros((0, form.width), np.uint8))
    body = _numbers(array).reshape(len(array), -1)
    present = _present(array)
    body = np.where(present[:, None], body, body.dtype.type(0)).view(np.uint8)
    return _rows(np.concatenate([present.view(np.uint8)[:, None], body], axis=1))


def _pieces_of_elements(array: pa.Array, form: Elements) -> pa.Array:
    offsets, values = elements(array)
    if form.sorted:
        values = _by_key(offsets, values, form)
    inner = _pieces(values, form.part)
    parts = [_head(array, np.diff(offsets))]
    if form.part.width is None:
        lengths = np.diff(_offsets(inner)).astype("<u4")
        parts.append(_cut(4 * offsets, lengths.view(np.uint8)))
    parts.append(_cut(_offsets(inner)[offsets], _data(inner)))
    return _joined(*parts)


def elements(array: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Where the elements of each list (of a map: structs of key and value) begin and end, and all of them."""
    if pa.types.is_map(array.type):
        names, columns = ["key", "value"], [array.keys, array.items]
        values: pa.Array = pa.StructArray.from_arrays(columns, names)
    else:
        values = array.values
    wide = pa.types.is_large_list(array.type)
    kind = np.dtype(np.int64 if wide else np.int32)
    if not len(array):
        return np.zeros(1, np.int64), values.slice(0, 0)
    begins = np.frombuffer(array.buffers()[1], kind, len(array) + 1, array.offset * kind.itemsize).astype(np.int64)
    lengths = np.where(_present(array), np.diff(begins), 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if offsets[-1] == begins[-1] - begins[0]:
        return offsets, values.slice(begins[0], offsets[-1])
    return offsets, values.take(pa.array(_spread(begins[:-1], lengths)))


def _by_key(offsets: np.ndarray, entries: pa.Array, form: Elements) -> pa.Array:
    """The entries of each row by their keys."""
    assert isinstance(form.part, Fields)
    keys = entries.field(0)
    written = _pieces(keys, form.part.parts[0])
    if not isinstance(form.part.parts[0], Leaf):
        keys = written
    row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = pc.sort_indices(pa.table({"row": row, "key": keys, "form": written}),
                            sort_keys=[("row", "ascending"), ("key", "ascending"), ("form", "ascending")])  # fmt: skip
    row, written = row[order.to_numpy()], written.take(order)
    again = pc.equal(written.slice(1), written.slice(0, max(len(written) - 1, 0))).to_numpy(zero_copy_only=False)
    if (again & (row[1:] == row[:-1])).any():
        raise ValueError("a key stands in a map twice")
    return entries.take(order)


def _joined(*parts: pa.Array) -> pa.Array:
    """What stands in a row of each, one behind the other."""
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", _BYTES))


def _head(array: pa.Array, counts: np.ndarray | None = None) -> pa.Array:
    present = _present(array).view(np.uint8)[:, None]
    if counts is None:
        return _rows(present)
    return _rows(np.concatenate([present, counts.astype("<u4").view(np.uint8).reshape(-1, 4)], axis=1))


def _numbers(array: pa.Array) -> np.ndarray:
    """Shape (n, ...); floats in one form for each value."""
    if pa.types.is_decimal128(array.type):
        return _memory(array.buffers()[1], np.dtype(np.int64), 2 * array.offset, 2 * len(array)).reshape(-1, 2)
    values = _memory(array.buffers()[1], array.type.to_pandas_dtype(), array.offset, len(array))
    if not pa.types.is_floating(array.type):
        return values
    return np.where(np.isnan(values), values.dtype.type(np.nan), values + values.dtype.type(0))


# Reading


def _read(data: np.ndarray, starts: np.ndarray, form: NestedForm) -> tuple[pa.Array, np.ndarray]:
    """The values that begin at `starts`, and where they have ended."""
    if isinstance(form, Elements):
        return _read_elements(data, starts, form)
    if isinstance(form, Fields):
        return _read_fields(data, starts, form)
    if form.width is None:
        present, lengths = _read_head(data, starts)
        text = _cut(np.concatenate([[0], np.cumsum(lengths)]), data[_spread(starts + _HEAD, lengths)])
        return _masked(text, present).cast(form.physical), starts + _HEAD + lengths
    found = data[starts[:, None] + np.arange(form.width)]
    validity = _bits(found[:, 0] != 0)
    body = pa.py_buffer(np.ascontiguousarray(found[:, 1:]))
    return pa.Array.from_buffers(form.physical, len(starts), [validity, body]), starts + form.width


def _read_fields(data: np.ndarray, starts: np.ndarray, form: Fields) -> tuple[pa.Array, np.ndarray]:
    columns, ends = [], starts + 1
    for part in form.parts:
        column, ends = _read(data, ends, part)
        columns.append(column)
    buffers = [_bits(data[starts] != 0)]
    return pa.Array.from_buffers(_arrow_of(columns, form), len(starts), buffers, children=columns), ends


def _arrow_of(columns: Sequence[pa.Array], form: Fields) -> pa.DataType:
    return pa.struct([pa.field(name, column.type) for name, column in zip(form.names, columns, strict=True)])


def _read_elements(data: np.ndarray, starts: np.ndarray, form: Elements) -> tuple[pa.Array, np.ndarray]:
    present, counts = _read_head(data, starts)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    if form.part.width is None:
        places = _spread(starts + _HEAD, 4 * counts)
        lengths = data[places].view("<u4").astype(np.int64)
        bodies = starts + _HEAD + 4 * counts
    else:
        lengths = np.full(offsets[-1], form.part.width)
        bodies = starts + _HEAD
    ends = np.concatenate([[0], np.cumsum(lengths)])
    inner = np.repeat(bodies - ends[offsets[:-1]], counts) + ends[:-1]
    values = _read(data, inner, form.part)[0]
    buffers = [_bits(present), pa.py_buffer(offsets.astype(np.int32))]
    array = pa.Array.from_buffers(pa.list_(values.type), len(starts), buffers, children=[values])
    return array, bodies + ends[offsets[1:]] - ends[offsets[:-1]]


def _read_head(data: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    head = data[starts[:, None] + np.arange(_HEAD)]
    return head[:, 0] != 0, np.ascontiguousarray(head[:, 1:]).view("<u4").reshape(-1).astype(np.int64)


# Arrow's buffers


def _rows(bytes_: np.ndarray) -> pa.Array:
    """Each row of a matrix of bytes."""
    return _cut(np.arange(len(bytes_) + 1) * bytes_.shape[1], np.ascontiguousarray(bytes_))


def _cut(offsets: np.ndarray, data: np.ndarray) -> pa.Array:
    """The bytes of `data` between one offset and the next."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets, np.int64)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(_BYTES, len(offsets) - 1, buffers)


def _offsets(array: pa.Array) -> np.ndarray:
    return _memory(array.buffers()[1], np.dtype(np.int64), array.offset, len(array) + 1)


def _data(array: pa.Array) -> np.ndarray:
    buffer = array.buffers()[2]
    return np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)


def _memory(buffer: pa.Buffer | None, dtype: np.dtype, start: int, count: int) -> np.ndarray:
    if buffer is None or not buffer.size:
        return np.zeros(count, dtype)
    return np.frombuffer(buffer, dtype, count, start * np.dtype(dtype).itemsize)


def _spread(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """All places from each start on, as many as its length."""
    ends = np.cumsum(lengths)
    return np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1] if len(ends) else 0)


def _present(array: pa.Array) -> np.ndarray:
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    return array.is_valid().to_numpy(zero_copy_only=False)


def _bits(present: np.ndarray) -> pa.Buffer | None:
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))


def _masked(array: pa.Array, present: np.ndarray) -> pa.Array:
    return pa.Array.from_buffers(array.type, len(array), [_bits(present), *array.buffers()[1:]])

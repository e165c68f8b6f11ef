"""How values of columns stand in cells and in the keys of rows: those of HBase's own `Bytes`, and texts.

| encoding | bytes | columns |
|----------|-------|---------|
| long, int, short, byte | 8, 4, 2 or 1, big-endian, two's complement | TINYINT .. BIGINT |
| ordered_long, ordered_int, ordered_short | the same, the sign's bit turned round: rows sort as numbers do | the same |
| double, float | 8 or 4, IEEE 754, big-endian | DOUBLE; FLOAT |
| boolean | 1: 0 is false, all else true | BOOLEAN |
| millis | 8, as long: milliseconds since 1970 | TIMESTAMP, TIMESTAMP_NTZ |
| text | UTF-8 of the text (`outside.values`); text(n) in keys: of n bytes | all but BINARY and nested ones |
| binary | itself; binary(n) in keys: n bytes | BINARY |
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import Type
from viewkeeper.changes.layout import numbers
from viewkeeper.errors import InputError
from viewkeeper.files import Texts
from viewkeeper.stores.columns import ColumnIntake
from viewkeeper.stores.outside.hbase.byte_spans import ByteSpans
from viewkeeper.stores.outside.values import scalar_texts

DecodedColumn = tuple[pa.Array, dict[int, str]]
"""A physical column, and by row why there is no value: it is NULL there."""

TRUE = b"\xff"
_TEXT_LENGTH = re.compile(r"(text|binary)\(([1-9][0-9]{0,4})\)")


class Encoding(ABC):
    """`width` bytes each, None where that depends on the value; `unique`: different bytes are different values."""

    def __init__(self, name: str, width: int | None, unique: bool) -> None:
        self.name, self.width, self.unique = name, width, unique

    @abstractmethod
    def holds(self, type_: Type) -> bool:
        """Whether values of a type can be written so."""

    @abstractmethod
    def decode(self, pieces: ByteSpans, intake: ColumnIntake) -> DecodedColumn:
        """What pieces, which are `width` long, are in the column of `intake`."""

    @abstractmethod
    def encode(self, column: pa.Array, type_: Type) -> list[bytes | None]:
        """Values of a physical column; None is NULL.  Raises InputError where one cannot be written so."""

    def is_unique(self, intake: ColumnIntake) -> bool:
        """Whether different bytes are different values of the column of `intake`."""
        return self.unique

    def column(self, pieces: ByteSpans, intake: ColumnIntake) -> DecodedColumn:
        """What pieces of any length are."""
        if self.width is None:
            return self.decode(pieces, intake)
        wrong = np.flatnonzero(pieces.lengths != self.width)
        if not len(wrong):
            return self.decode(pieces, intake)
        right = np.flatnonzero(pieces.lengths == self.width)
        found, reasons = self.decode(pieces.take(right), intake)
        column = scattered(found, right, len(pieces))
        told = {int(right[at]): why for at, why in reasons.items()}
        lengths = pieces.lengths[wrong].tolist()
        return column, told | {row: f"{length} bytes, and {self.name} has {self.width}"
                               for row, length in zip(wrong.tolist(), lengths, strict=True)}  # fmt: skip

    def cells(self, pieces: ByteSpans, intake: ColumnIntake) -> DecodedColumn:
        """What the values of cells are: an empty one is NULL, but for a STRING or BINARY, which can be empty."""
        there = np.flatnonzero(pieces.lengths)
        if len(there) == len(pieces) or intake.type.is_bytes:
            return self.column(pieces, intake)
        found, reasons = self.column(pieces.take(there), intake)
        return scattered(found, there, len(pieces)), {int(there[at]): why for at, why in reasons.items()}


class _Whole(Encoding):
    """A whole number; `flip` turns the bit of its sign round."""

    def __init__(self, name: str, width: int, flip: bool = False) -> None:
        super().__init__(name, width, unique=True)
        self._flip = flip

    def holds(self, type_: Type) -> bool:
        return type_.is_integer

    def decode(self, pieces: ByteSpans, intake: ColumnIntake) -> DecodedColumn:
        assert self.width is not None
        found = pieces.fixed(self.width)
        if self._flip:
            found[:, 0] ^= 0x80
        values = np.ascontiguousarray(found).view(f">i{self.width}")[:, 0]
        return intake.each(pa.array(values.astype(f"i{self.width}")))

    def encode(self, column: pa.Array, type_: Type) -> list[bytes | None]:
        assert self.width is not None
        values = numbers(column).astype(np.int64)
        low, high = -1 << 8 * self.width - 1, (1 << 8 * self.width - 1) - 1
        beyond = values[(values < low) | (values > high)]
        if len(beyond):
            raise InputError(f"{beyond[0]} does not fit into the {self.width} bytes of {self.name}")
        made = values.astype(f">i{self.width}").view(np.uint8).reshape(-1, self.width)
        if self._flip:
            made[:, 0] ^= 0x80
        return _pieces(made, column)


class _Real(Encoding):
    """A floating-point number of the type called `of`."""

    def __init__(self, name: str, width: int, of: str) -> None:
        super().__init__(name, width, unique=False)
        self._of = of

    def holds(self, type_: Type) -> bool:
        return type_.name == self._of

    def decode(self, pieces: ByteSpans, intake: ColumnIntake) -> DecodedColumn:
        assert self.width is not None
        values = pieces.fixed(self.width).view(f">f{self.width}")[:, 0]
        return intake.each(pa.array(values.astype(f"f{self.width}")))

    def encode(self, column: pa.Array, type_: Type) -> list[bytes | None]:
        assert self.width is not None
        return _pieces(numbers(column).astype(f">f{self.width}").view(np.uint8).reshape(-1, self.width), column)


class _Boolean(Encoding):
    def holds(self, type_: Type) -> bool:
        return type_.name == "BOOLEAN"

    def decode(self, pieces: ByteSpans, intake: ColumnIntake) -> DecodedColumn:
        return intake.each(pa.array(pieces.fixed(1)[:, 0] != 0))

    def encode(self, column: pa.Array, type_: Type) -> list[bytes | None]:
        return [None if value is None else TRUE if value else b"\0" for value in column.to_pylist()]


class _Millis(Encoding):
    def holds(self, type_: Type) -> bool:
        return type_.name in ("TIMESTAMP", "TIMESTAMP_NTZ")

    def decode(self, pieces: ByteSpans, intake: ColumnIntake) -> DecodedColumn:
        values = pa.array(pieces.fixed(8).view(">i8")[:, 0].astype(np.int64))
        return intake.each(values.view(pa.timestamp("ms", "UTC" if intake.type.name == "TIMESTAMP" else None)))

    def encode(self, column: pa.Array, type_: Type) -> list[bytes | None]:
        values = numbers(column)
        if (values % 1000).any():
            raise InputError("a time has microseconds, and millis has milliseconds")
        return _pieces((values // 1000).astype(">i8").view(np.uint8).reshape(-1, 8), column)


class _Text(Encoding):
    def holds(self, type_: Type) -> bool:
        return not (type_.name == "BINARY" or type_.is_nested or type_.is_interval)

    def decode(self, pieces: ByteSpans, intake: ColumnIntake) -> DecodedColumn:
        bad: dict[int, str] = {}
        texts = _decoded(pieces, bad)
        column, reasons = intake.each(texts if intake.type.name == "STRING" else Texts(texts.cast(pa.string())))
        return column, {**reasons, **bad}

    def encode(self, column: pa.Array, type_: Type) -> list[bytes | None]:
        texts = column if type_.name == "STRING" else scalar_texts(type_, column)
        return texts.cast(pa.large_string()).cast(pa.large_binary()).to_pylist()

    def is_unique(self, intake: ColumnIntake) -> bool:
        return intake.type.name == "STRING" and intake.declared in (None, intake.type)


class _Binary(Encoding):
    def holds(self, type_: Type) -> bool:
        return type_.name == "BINARY"

    def decode(self, pieces: ByteSpans, intake: ColumnIntake) -> DecodedColumn:
        return intake.each(pieces.binary())

    def encode(self, column: pa.Array, type_: Type) -> list[bytes | None]:
        return column.to_pylist()


_MADE: dict[str, Callable[[str, int | None], Encoding]] = {
    "text": lambda name, width: _Text(name, width, unique=False),
    "binary": lambda name, width: _Binary(name, width, unique=True),
}

ENCODINGS: dict[str, Encoding] = {
    **{name: _Whole(name, width) for name, width in (("long", 8), ("int", 4), ("short", 2), ("byte", 1))},
    **{f"ordered_{name}": _Whole(f"ordered_{name}", width, flip=True)
       for name, width in (("long", 8), ("int", 4), ("short", 2))},
    "double": _Real("double", 8, "DOUBLE"), "float": _Real("float", 4, "FLOAT"),
    "boolean": _Boolean("boolean", 1, unique=False), "millis": _Millis("millis", 8, unique=True),
    **{name: made(name, None) for name, made in _MADE.items()},
}  # fmt: skip


def encoding_of(name: str) -> Encoding | None:
    """The encoding called `name`; None where there is none."""
    found = _TEXT_LENGTH.fullmatch(name)
    return _MADE[found[1]](name, int(found[2])) if found is not None else ENCODINGS.get(name)


def scattered(column: pa.Array, places: np.ndarray, length: int) -> pa.Array:
    """`length` values: those of `column` at `places`, of several at one the last; NULL elsewhere."""
    source = np.full(length, -1, np.int64)
    source[places] = np.arange(len(places))
    return column.take(pa.array(source, mask=source < 0))


def _pieces(rows: np.ndarray, column: pa.Array) -> list[bytes | None]:
    """Rows of bytes, uint8[n, width], one a value of `column`; None where that is NULL."""
    made: list[bytes | None] = np.ascontiguousarray(rows).view(f"V{rows.shape[1]}")[:, 0].tolist()
    if not column.null_count:
        return made
    return [piece if valid else None for piece, valid in zip(made, column.is_valid().to_pylist(), strict=True)]


def _decoded(pieces: ByteSpans, bad: dict[int, str]) -> pa.Array:
    """Texts (large_string); `bad` gets those that are none."""
    column = pieces.binary()
    try:
        return column.cast(pa.large_string())
    except pa.ArrowInvalid:
        texts: list[str | None] = []
        for row, piece in enumerate(column.to_pylist()):
            try:
                texts.append(piece.decode())
            except UnicodeDecodeError:
                bad[row] = f"{shown(piece)} is no UTF-8"
                texts.append(None)
        return pa.array(texts, pa.large_string())


def shown(piece: bytes, most: int = 60) -> str:
    """Bytes for people, as HBase's shell shows them."""
    text = "".join(chr(each) if 32 <= each < 127 and each != 92 else f"\\x{each:02X}" for each in piece[:most])
    return f"'{text}'" if len(piece) <= most else f"'{text}...'"

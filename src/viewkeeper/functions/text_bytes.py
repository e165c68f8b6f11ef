"""What the functions of texts share: bytes, characters, pieces."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def is_ascii(texts: pa.Array) -> bool:
    """Whether no text has a character beyond ASCII; the NULLs do not count."""
    return pc.all(pc.string_is_ascii(texts)).as_py() is not False


def by_text(texts: pa.Array, change: Callable[[str], str]) -> pa.Array:
    """`change` of each text, in Python: once for each that is different."""
    encoded = pc.dictionary_encode(texts)
    changed = pa.array([change(text) for text in encoded.dictionary.to_pylist()], texts.type)
    return changed.take(encoded.indices)


def bytes_of(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The n + 1 int64 offsets of the texts in their bytes (uint8), from 0."""
    _, offsets, data = texts.buffers()
    if not len(texts):
        return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.uint8)
    held = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    whole = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, dtype=np.uint8)
    return held - held[0], whole[held[0] : held[-1]]


def character_begins(data: np.ndarray, utf8: bool = True) -> np.ndarray:
    """Where a character begins (int64), ascending."""
    return np.flatnonzero((data & 0xC0) != 0x80) if utf8 else np.arange(len(data))


def pieces(texts: pa.Array, low: np.ndarray, high: np.ndarray, null: np.ndarray | None) -> pa.Array:
    """Of each text the bytes from `low` to `high` (both counted in the bytes of all); NULL where `null`."""
    _, data = bytes_of(texts)
    lengths = high - low
    ends = np.cumsum(lengths)
    index = np.arange(ends[-1] if len(ends) else 0) + np.repeat(low - ends + lengths, lengths)
    made = pa.Array.from_buffers(
        texts.type, len(texts), [None, pa.py_buffer(np.append(0, ends).astype(np.int64)), pa.py_buffer(data[index])]
    )
    return made if null is None or not null.any() else pc.if_else(pa.array(null), None, made)


def null_where(texts: pa.Array) -> np.ndarray | None:
    """Where (bool) they are NULL; None for nowhere."""
    return texts.is_null().to_numpy(zero_copy_only=False) if texts.null_count else None


def booleans(tests: pa.Array) -> pa.Array:
    """Arrow's booleans in the physical form of BOOLEAN."""
    return tests.cast(pa.int8())

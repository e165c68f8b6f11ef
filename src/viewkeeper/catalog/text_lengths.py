"""Texts for a VARCHAR(n): blanks behind character n are cut off, as Spark does on writing, and all else there is too
long."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def cut(texts: pa.Array, length: int) -> tuple[pa.Array, np.ndarray]:
    """`texts` as a VARCHAR(`length`) holds them, and which of them it cannot hold."""
    long = pc.fill_null(pc.greater(pc.utf8_length(texts), length), False)
    if not pc.any(long, min_count=0).as_py():
        return texts, np.zeros(len(texts), bool)
    too_long = pc.fill_null(pc.greater(pc.utf8_length(pc.utf8_rtrim(texts, " ")), length), False)
    kept = pc.if_else(long, pc.utf8_slice_codeunits(texts, 0, length), texts)
    return kept, too_long.to_numpy(zero_copy_only=False)


def cut_one(text: str, length: int) -> str | None:
    """The same for one text; None where it is too long."""
    return text[:length] if len(text.rstrip(" ")) <= length else None

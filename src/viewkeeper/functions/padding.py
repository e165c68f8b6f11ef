"""lpad, rpad, repeat, space and reverse of a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import INT, STRING, Type
from viewkeeper.functions.function import Computed, Function, taking


def _padded(name: str, join: Callable[[pa.Array, pa.Array], Sequence[pa.Array]]) -> Function:
    def kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
        texts, width, pad = arguments
        cut = pc.utf8_slice_codeunits(texts, 0, max(width, 0))
        if width <= 0 or not pad:
            return cut, None
        missing = np.maximum(width - pc.fill_null(pc.utf8_length(texts), width).to_numpy(), 0)
        lengths, which = np.unique(missing, return_inverse=True)  # each length of padding is made once
        paddings = [(pad * (length // len(pad) + 1))[:length] for length in lengths.tolist()]
        padding = pa.array(paddings, texts.type).take(pa.array(which))
        return pc.binary_join_element_wise(*join(cut, padding), pa.scalar("", texts.type)), None

    return Function(name, "a STRING, a constant INT and a constant STRING", taking(STRING, STRING, INT, STRING), kernel,
                    2, 3, defaults=(" ",), constants=(1, 2))  # fmt: skip


def _repeated(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    texts, times = arguments
    return pc.binary_repeat(texts, pc.max_element_wise(times, pa.scalar(0, times.type), skip_nulls=False)), None


def _blanks(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    times = pc.max_element_wise(arguments[0], pa.scalar(0, arguments[0].type), skip_nulls=False)
    return pc.binary_repeat(pa.repeat(pa.scalar(" ", pa.large_string()), len(times)), times), None


def _reversed(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    return pc.utf8_reverse(arguments[0]), None


LPAD = _padded("lpad", lambda text, padding: (padding, text))
RPAD = _padded("rpad", lambda text, padding: (text, padding))
REPEAT = Function("repeat", "a STRING and an INT", taking(STRING, STRING, INT), _repeated, 2, 2)
SPACE = Function("space", "an INT", taking(STRING, INT), _blanks)
REVERSE = Function("reverse", "a STRING", taking(STRING, STRING), _reversed)

"""ascii(text), the number of the first character, and chr(number)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import BIGINT, INT, STRING, Type
from viewkeeper.functions.function import Computed, Function, made, numbers, taking
from viewkeeper.functions.text_bytes import bytes_of


@cache
def _characters() -> pa.Array:
    return pa.array([chr(number) for number in range(256)] + [""], pa.large_string())


def _number(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    offsets, data = bytes_of(arguments[0])
    padded = np.append(data, np.zeros(4, np.uint8)).astype(np.int32)
    first, second, third, fourth = (padded[offsets[:-1] + i] for i in range(4))
    one, two, three = second & 0x3F, third & 0x3F, fourth & 0x3F
    number = np.select(
        [offsets[:-1] == offsets[1:], first < 0x80, first < 0xE0, first < 0xF0],
        [np.int32(0), first, (first & 0x1F) << 6 | one, (first & 0x0F) << 12 | one << 6 | two],
        (first & 0x07) << 18 | one << 12 | two << 6 | three,
    )
    return made(number.astype(np.int32), arguments[0]), None


def _character(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    held = numbers(arguments[0])
    return _characters().take(made(np.where(held < 0, 256, held & 0xFF), arguments[0])), None


ASCII = Function("ascii", "a STRING", taking(INT, STRING), _number)
CHR = Function("chr", "a BIGINT", taking(STRING, BIGINT), _character, aliases=("char",))

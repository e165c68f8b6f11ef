"""length, bit_length and octet_length of a text or bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import INT, STRING, Type
from viewkeeper.functions.function import Computed, Function, Signature, implicit


def _result(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    first = types[0] if types[0].is_bytes else STRING
    return (INT, (first,)) if implicit(types[0], first) else None


def _characters(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    count = pc.utf8_length if types[0] == STRING else pc.binary_length
    return count(arguments[0]).cast(pa.int32()), None


def _octets(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    return pc.binary_length(arguments[0]).cast(pa.int32()), None


def _bits(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    return pc.multiply(pc.binary_length(arguments[0]), 8).cast(pa.int32()), None


LENGTH = Function("length", "a STRING or BINARY", _result, _characters,
                  aliases=("char_length", "character_length", "len"))  # fmt: skip
OCTET_LENGTH = Function("octet_length", "a STRING or BINARY", _result, _octets)
BIT_LENGTH = Function("bit_length", "a STRING or BINARY", _result, _bits)

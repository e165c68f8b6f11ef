"""concat and || of texts or bytes; concat_ws, which leaves out the NULLs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import BINARY, STRING, Type
from viewkeeper.functions.function import Computed, Function, Signature, implicit, taking

_MOST = 1000


def _result(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    result = BINARY if types and all(type_ == BINARY for type_ in types) else STRING
    return (result, (result,) * len(types)) if all(implicit(type_, result) for type_ in types) else None


def _joined(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    if len(arguments) == 1:
        return arguments[0], None
    nothing = pa.scalar("" if types[0] == STRING else b"", arguments[0].type)
    return pc.binary_join_element_wise(*arguments, nothing), None


def _joined_with(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    separator, *texts = arguments
    if not texts:
        return pc.if_else(separator.is_valid(), pa.scalar("", separator.type), None), None
    # Arrow gives no row at all where there is nothing to join.
    none = reduce(pc.and_, (text.is_null() for text in texts))
    first = pc.if_else(none, pa.scalar("", separator.type), texts[0])
    joined = pc.binary_join_element_wise(first, *texts[1:], pc.fill_null(separator, ""), null_handling="skip")
    return (pc.if_else(separator.is_valid(), joined, None) if separator.null_count else joined), None


def _first(nullable: Iterable[bool]) -> bool:
    return next(iter(nullable))


CONCAT = Function("concat", "STRINGs, or BINARYs", _result, _joined, 1, _MOST)
CONCAT_WS = Function(
    "concat_ws", "STRINGs", lambda types, values: taking(STRING, *[STRING] * len(types))(types, values),
    _joined_with, 1, _MOST,
    nulls=_first,
)  # fmt: skip

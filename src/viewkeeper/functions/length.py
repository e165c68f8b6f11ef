"""length(text or bytes): characters or bytes."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from viewkeeper.catalog.types import INT, Type
from viewkeeper.functions.function import Computed, Function


def _result(types: Sequence[Type]) -> tuple[Type, tuple[Type, ...]] | None:
    return (INT, (types[0],)) if types[0].is_bytes else None


def _kernel(arguments: Sequence[pa.Array], types: Sequence[Type], zone: str) -> Computed:
    (values,), (type_,) = arguments, types
    count = pc.utf8_length if type_.name == "STRING" else pc.binary_length
    return count(values).cast(pa.int32()), None


LENGTH = Function("length", exp.Length, ("this",), "a STRING or BINARY", _result, _kernel)

"""trim, ltrim, rtrim and btrim: blanks, or the characters of a constant text, taken from the ends of a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import STRING, Type
from viewkeeper.functions.function import Computed, Function, taking


def _trimming(name: str, trim: Callable[..., pa.Array], written: str = "") -> Function:
    def kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
        texts, characters = arguments[0], arguments[1] if len(arguments) > 1 else " "
        return (trim(texts, characters=characters) if characters else texts), None

    def shown(name: str, arguments: Sequence[str]) -> str:
        if written and len(arguments) > 1:
            return f"TRIM({written} {arguments[1]} FROM {arguments[0]})"
        return f"{name}({', '.join(arguments)})"

    accepts = "a STRING, in front of it a constant one" if written else "a STRING, and a constant one"
    return Function(name, accepts, taking(STRING, STRING, STRING), kernel, 1, 2,
                    constants=(1,), shown=shown)  # fmt: skip


TRIM = _trimming("trim", pc.utf8_trim, "BOTH")
LTRIM = _trimming("ltrim", pc.utf8_ltrim, "LEADING")
RTRIM = _trimming("rtrim", pc.utf8_rtrim, "TRAILING")
BTRIM = _trimming("btrim", pc.utf8_trim)

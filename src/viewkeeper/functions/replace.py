"""replace(text, search, replacement): every occurrence of a constant text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow.compute as pc

from viewkeeper.catalog.types import STRING, Type
from viewkeeper.functions.function import Computed, Function, taking


def _kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    texts, search, replacement = arguments
    return (pc.replace_substring(texts, search, replacement) if search else texts), None


REPLACE = Function("replace", "a STRING, and two constant ones", taking(STRING, STRING, STRING, STRING), _kernel, 2, 3,
                   defaults=("",), constants=(1, 2))  # fmt: skip

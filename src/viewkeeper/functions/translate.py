"""translate(text, from, to): characters exchanged for others, or left out; each different text once, in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from viewkeeper.catalog.types import STRING, Type
from viewkeeper.functions.function import Computed, Function, taking
from viewkeeper.functions.text_bytes import by_text


def _kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    texts, old, new = arguments
    table: dict[int, str] = {}
    for i, character in enumerate(old):
        table.setdefault(ord(character), new[i : i + 1])  # the first one counts; "": it is left out
    return by_text(texts, lambda text: text.translate(table)), None


TRANSLATE = Function("translate", "a STRING, and two constant ones", taking(STRING, STRING, STRING, STRING), _kernel,
                     3, 3, constants=(1, 2))  # fmt: skip

"""upper, lower and initcap: by the full mapping of Unicode, whatever the language."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import STRING, Type
from viewkeeper.functions.function import Computed, Function, Kernel, taking
from viewkeeper.functions.text_bytes import by_text, is_ascii

UPPER_SINCE_14 = {
    0x19B: 0xA7DC, 0x264: 0xA7CB, 0x1C8A: 0x1C89, 0xA7CD: 0xA7CC, 0xA7CF: 0xA7CE, 0xA7D3: 0xA7D2, 0xA7D5: 0xA7D4,
    0xA7DB: 0xA7DA, **{0x10D70 + i: 0x10D50 + i for i in range(22)}, **{0x16EBB + i: 0x16EA0 + i for i in range(25)},
}  # fmt: skip
"""Letters whose capitals came with Unicode 15 to 17, which Spark knows, and older Pythons do not."""

LOWER_SINCE_14 = {capital: small for small, capital in UPPER_SINCE_14.items()}
"""The inverse."""


def _cased(ascii_: Callable[[pa.Array], pa.Array], change: Callable[[str], str]) -> Kernel:
    def kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
        (texts,) = arguments
        # Arrow maps character by character; a few become several ("ß", "ﬁ").
        return (ascii_(texts) if is_ascii(texts) else by_text(texts, change)), None

    return kernel


def lower(texts: pa.Array) -> pa.Array:
    """The texts in small letters."""
    return pc.ascii_lower(texts) if is_ascii(texts) else by_text(texts, _lowered)


def _lowered(text: str) -> str:
    return text.translate(LOWER_SINCE_14).lower()


def _words_capitalized(text: str) -> str:
    return " ".join(word and _capitalized(word) for word in text.split(" "))


def _capitalized(word: str) -> str:
    """One capital may become two letters, and one letter, in small, too."""
    return word[0].translate(UPPER_SINCE_14).title() + _lowered(word)[len(_lowered(word[0])) :]


def _initcap(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    return by_text(arguments[0], _words_capitalized), None  # Arrow begins a word behind every sign


INITCAP = Function("initcap", "a STRING", taking(STRING, STRING), _initcap)
UPPER = Function("upper", "a STRING", taking(STRING, STRING), aliases=("ucase",),
                 kernel=_cased(pc.ascii_upper, lambda text: text.translate(UPPER_SINCE_14).upper()))  # fmt: skip
LOWER = Function("lower", "a STRING", taking(STRING, STRING), _cased(pc.ascii_lower, _lowered), aliases=("lcase",))

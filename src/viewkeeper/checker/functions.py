"""Scalar functions of one row's values, in plain Python: nothing of them is shared with what maintains the views.

Texts and what knows no type stand here; numbers in functions_of_numbers.py, dates and times in functions_of_moments.py.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from typing import Any

from viewkeeper.checker.functions_of_moments import OF_MOMENTS
from viewkeeper.checker.functions_of_nested import OF_NESTED, OF_NULLS, of_nested
from viewkeeper.checker.functions_of_numbers import OF_NUMBERS
from viewkeeper.checker.value_rules import order_key
from viewkeeper.functions.letter_case import LOWER_SINCE_14, UPPER_SINCE_14
from viewkeeper.plans.expressions import FunctionCall

_Values = tuple[Any, ...]


def called(values: _Values, node: FunctionCall, zone: str) -> Any:
    """The function of `node` of these values; raises `Raised` where Spark does."""
    if node.function in _OF_NULLS:
        return _OF_NULLS[node.function](values)
    if None in values and node.function not in OF_NULLS:
        return None
    if node.function in OF_NESTED:
        return of_nested(values, node)
    if node.function in _OF_TEXTS:
        return _OF_TEXTS[node.function](*values)
    known = OF_NUMBERS.get(node.function) or OF_MOMENTS[node.function]
    return known(values, node, zone)


def _concat_ws(values: _Values) -> str | None:
    separator, *texts = values
    return None if separator is None else separator.join(text for text in texts if text is not None)


def _extreme(values: _Values, greatest: bool) -> Any:
    there = [value for value in values if value is not None]
    return (max if greatest else min)(there, key=order_key) if there else None


_OF_NULLS = {
    "concat_ws": _concat_ws,
    "greatest": lambda values: _extreme(values, True),
    "least": lambda values: _extreme(values, False),
    "isnan": lambda values: values[0] is not None and values[0] != values[0],
}


def _substring(text: Any, position: int, length: int) -> Any:
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = max(-(2**31), min(start + length, 2**31 - 1))
    return text[max(start, 0) : max(end, 0)]


def _right(text: Any, count: int) -> Any:
    return text[max(len(text) - count, 0) :] if count > 0 else text[:0]


def _locate(search: str, text: str, start: int = 1) -> int:
    if not search:
        return 1
    return 0 if start < 1 else text.find(search, start - 1) + 1


def _pad(text: str, width: int, pad: str, left: bool) -> str:
    missing = width - len(text)
    if missing <= 0 or not pad:
        return text[: max(width, 0)]
    padding = "".join(pad[i % len(pad)] for i in range(missing))
    return padding + text if left else text + padding


def _substring_index(text: str, search: str, count: int) -> str:
    if not search or count == 0:
        return ""
    parts = text.split(search)
    return search.join(parts[:count] if count > 0 else parts[count:])


def _split_part(text: str, search: str, number: int) -> str:
    parts = text.split(search) if search else [text]
    at = number - 1 if number > 0 else len(parts) + number
    return parts[at] if 0 <= at < len(parts) else ""


def _like(text: str, pattern: str, escape: str) -> bool:
    """Character by character, from the pattern's end: whether what follows each place of the text matches."""
    parts, at = [], 0
    while at < len(pattern):
        if pattern[at] == escape:
            at += 1
            parts.append(("is", pattern[at]))
        else:
            parts.append(("any" if pattern[at] == "%" else "one" if pattern[at] == "_" else "is", pattern[at]))
        at += 1
    follows = [False] * len(text) + [True]
    for kind, character in reversed(parts):
        if kind == "any":
            for i in range(len(text) - 1, -1, -1):
                follows[i] = follows[i] or follows[i + 1]
        else:
            follows = [(kind == "one" or text[i] == character) and follows[i + 1] for i in range(len(text))] + [False]
    return follows[0]


def _lower(text: str) -> str:
    return text.translate(LOWER_SINCE_14).lower()


def _initcap(text: str) -> str:
    out, first = "", True
    for word in text.split(" "):
        small = word.translate(LOWER_SINCE_14).lower()
        head = word[:1].translate(LOWER_SINCE_14).lower()
        out += ("" if first else " ") + word[:1].translate(UPPER_SINCE_14).title() + small[len(head) :]
        first = False
    return out


def _translate(text: str, old: str, new: str) -> str:
    def exchanged(character: str) -> str:
        at = old.find(character)
        return character if at < 0 else new[at : at + 1]

    return "".join(map(exchanged, text))


def _regexp(text: str, pattern: str) -> bool:
    """Python reads these patterns as Java does, but for the dot."""
    dot = re.compile(r"(\\.|\[[^\]]*\])|\.")
    return re.search(dot.sub(lambda found: found[1] or "[^\n\r\x85\u2028\u2029]", pattern), text, re.ASCII) is not None


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _concat(*values: Any) -> Any:
    return (b"" if isinstance(values[0], bytes) else "").join(values)


_OF_TEXTS: dict[str, Any] = {
    "ascii": lambda text: ord(text[0]) if text else 0,
    "bit_length": lambda value: 8 * len(_bytes(value)),
    "btrim": lambda text, characters=" ": text.strip(characters) if characters else text,
    "chr": lambda number: "" if number < 0 else chr(number % 256),
    "concat": _concat,
    "contains": lambda text, search: search in text,
    "crc32": lambda value: zlib.crc32(_bytes(value)),
    "endswith": lambda text, search: text.endswith(search),
    "ilike": lambda text, pattern, escape: _like(_lower(text), _lower(pattern), escape),
    "initcap": _initcap,
    "instr": lambda text, search: _locate(search, text),
    "left": lambda text, count: text[: max(count, 0)],
    "length": len,
    "like": _like,
    "locate": _locate,
    "lower": _lower,
    "lpad": lambda text, width, pad: _pad(text, width, pad, True),
    "ltrim": lambda text, characters=" ": text.lstrip(characters) if characters else text,
    "md5": lambda value: hashlib.md5(_bytes(value)).hexdigest(),
    "octet_length": lambda value: len(_bytes(value)),
    "repeat": lambda text, times: text * times,
    "replace": lambda text, search, replacement: text.replace(search, replacement) if search else text,
    "reverse": lambda text: text[::-1],
    "right": _right,
    "rlike": _regexp,
    "rpad": lambda text, width, pad: _pad(text, width, pad, False),
    "rtrim": lambda text, characters=" ": text.rstrip(characters) if characters else text,
    "sha1": lambda value: hashlib.sha1(_bytes(value)).hexdigest(),
    "sha2": lambda value, bits: hashlib.new(f"sha{bits or 256}", _bytes(value)).hexdigest(),
    "space": lambda times: " " * times,
    "split_part": _split_part,
    "startswith": lambda text, search: text.startswith(search),
    "substring": _substring,
    "substring_index": _substring_index,
    "translate": _translate,
    "trim": lambda text, characters=" ": text.strip(characters) if characters else text,
    "upper": lambda text: text.translate(UPPER_SINCE_14).upper(),
}

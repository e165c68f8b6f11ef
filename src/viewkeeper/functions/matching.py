"""LIKE, ILIKE and RLIKE with a constant pattern.

A regular expression is taken only where RE2, which Arrow has, and Java read it alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import BOOLEAN, STRING, Type
from viewkeeper.functions.function import Computed, Function, Signature, taking
from viewkeeper.functions.letter_case import lower
from viewkeeper.functions.text_bytes import booleans

_ANY = "(?s)"


def like_parts(pattern: str, escape: str) -> list[str | None] | None:
    """The pattern as texts, with "" for _ and None for %; None where Spark refuses it."""
    parts: list[str | None] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == escape:
            at += 1
            if at == len(pattern) or pattern[at] not in ("_", "%", escape):
                return None
            parts.append(pattern[at])
        else:
            parts.append({"_": "", "%": None}.get(character, character))
        at += 1
    return parts


def _like(texts: pa.Array, pattern: str, escape: str) -> pa.Array:
    parts = like_parts(pattern, escape) or []
    inner = [part for part in parts if part is not None]
    if "" not in inner:
        whole, marks = "".join(inner), [i for i, part in enumerate(parts) if part is None]
        front, back = bool(parts) and parts[0] is None, bool(parts) and parts[-1] is None
        if not marks:
            return pc.equal(texts, pa.scalar(whole, texts.type))
        if len(marks) == front + back and len(parts) > 1:
            test = pc.match_substring if front and back else pc.ends_with if front else pc.starts_with
            return test(texts, whole)
        if len(marks) == len(parts):
            return pc.if_else(texts.is_valid(), True, None)
    expression = "".join(".*" if part is None else re.escape(part) if part else "." for part in parts)
    return pc.match_substring_regex(texts, f"{_ANY}\\A(?:{expression})\\z")


def _pattern_of(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    pattern, escape = values[1], values[2]
    given = isinstance(escape, str) and len(escape) == 1
    if not given or (isinstance(pattern, str) and like_parts(pattern, escape) is None):
        return None
    return taking(BOOLEAN, STRING, STRING, STRING)(types, values)


def _is_like(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    return booleans(_like(*arguments)), None


def _is_like_in_any_case(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    texts, pattern, escape = arguments
    small = lower(pa.array([pattern], pa.large_string()))[0].as_py()
    return booleans(_like(lower(texts), small, escape)), None


_PLAIN = r"[A-Za-z0-9 _,:;=@#/\"'<>!~`&%-]"
_ESCAPED = r"\\[.\\*+?()\[\]{}|^$/-]"
_CLASS = r"\[\^?(?:[A-Za-z0-9](?:-[A-Za-z0-9])?|[ _.,:;=@#/+*])+\]"
_ATOM = rf"(?:{_PLAIN}|{_ESCAPED}|{_CLASS}|\\[dw])"
_TIMES = r"(?:[*+?]|\{\d{1,3}(?:,(?:\d{1,3})?)?\})?"
_BRANCH = rf"(?:{_ATOM}{_TIMES}|\.{_TIMES})*"
_ALIKE = re.compile(rf"\^?(?:{_BRANCH}|(?:{_BRANCH}\({_BRANCH}(?:\|{_BRANCH})*\){_TIMES})*{_BRANCH})")
_DOT = re.compile(r"(\\.|\[[^\]]*\])|\.")


def _alike(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    pattern = values[1]
    if isinstance(pattern, str) and (
        len(pattern) > 200 or not _ALIKE.fullmatch(pattern) or re.search(r"\d{4}", pattern)
    ):
        return None
    return taking(BOOLEAN, STRING, STRING)(types, values)


def _is_regexp(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    # For Java a dot is anything but the end of a line, of which it knows more kinds.
    expression = _DOT.sub(lambda found: found[1] or r"[^\n\r\x{85}\x{2028}\x{2029}]", arguments[1])
    return booleans(pc.match_substring_regex(arguments[0], expression)), None


def _like_shown(name: str, arguments: Sequence[str]) -> str:
    escape = "" if arguments[2] == "\\" else f" ESCAPE '{arguments[2]}'"
    return f"{arguments[0]} LIKE {arguments[1]}{escape}"


def _ilike_shown(name: str, arguments: Sequence[str]) -> str:
    return f"ilike({arguments[0]}, {arguments[1]})"


_ACCEPTS = "a STRING and a constant pattern"
LIKE = Function("like", _ACCEPTS, _pattern_of, _is_like, 2, 3, defaults=("\\",), constants=(1, 2), shown=_like_shown)
ILIKE = Function("ilike", _ACCEPTS, _pattern_of, _is_like_in_any_case, 2, 3, defaults=("\\",), constants=(1, 2),
                 shown=_ilike_shown)  # fmt: skip
RLIKE = Function("rlike", "a STRING and a constant pattern that Java and RE2 read alike", _alike, _is_regexp, 2, 2,
                 aliases=("regexp", "regexp_like"), constants=(1,),
                 shown=lambda name, arguments: f"{name.upper()}({arguments[0]}, {arguments[1]})")  # fmt: skip

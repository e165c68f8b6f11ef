"""Frozen dataclasses to JSON and back, for everything that a manifest or a catalog file holds.

Values that many others share (a class marked `@stored(shared=True)`, and tuples of such) are written once and referred
to by number, so that thousands of views of one family cost little more than their names.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeVar

_CLASSES: dict[str, type] = {}
_SHARED: set[type] = set()
_Class = TypeVar("_Class", bound=type)


def stored(cls: _Class | None = None, *, shared: bool = False) -> Any:
    """Class decorator: values of this frozen dataclass can be stored."""

    def register(cls: _Class) -> _Class:
        assert _name(cls) not in _CLASSES, "two classes of one name could not be told apart"
        _CLASSES[_name(cls)] = cls
        if shared:
            _SHARED.add(cls)
        return cls

    return register if cls is None else register(cls)


def dumps(value: Any) -> bytes:
    """`value` (dataclasses, tuples, dicts with text keys, scalars) as JSON text in UTF-8."""
    pool: list[Any] = []
    root = _encode(value, pool, {})
    return json.dumps({"pool": pool, "root": root}, separators=(",", ":")).encode()


def loads(text: bytes) -> Any:
    """The inverse of `dumps`; lists come back as tuples."""
    data = json.loads(text)
    pool: list[Any] = []
    for item in data["pool"]:
        pool.append(_decode(item, pool))
    return _decode(data["root"], pool)


def _name(cls: type) -> str:
    """Module and class: a relation and an operator may both be called Join."""
    return f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}"


def _encode(value: Any, pool: list[Any], seen: dict[Any, int]) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    shared = type(value) in _SHARED or (type(value) is tuple and value and type(value[0]) in _SHARED)
    if shared and value in seen:
        return {"": "@", "n": seen[value]}
    encoded = _encode_whole(value, pool, seen)
    if shared:
        seen[value] = len(pool)
        pool.append(encoded)
        return {"": "@", "n": seen[value]}
    return encoded


def _encode_whole(value: Any, pool: list[Any], seen: dict[Any, int]) -> Any:
    if isinstance(value, (tuple, list)):
        return [_encode(item, pool, seen) for item in value]
    if isinstance(value, dict):
        return {key: _encode(item, pool, seen) for key, item in value.items()}
    if dataclasses.is_dataclass(value):
        fields = {f.name: _encode(getattr(value, f.name), pool, seen) for f in dataclasses.fields(value)
                  if getattr(value, f.name) != f.default}  # fmt: skip
        return {"": _name(type(value)), **fields}
    return {"": "$" + type(value).__name__, "text": _TO_TEXT[type(value)](value)}


def _decode(value: Any, pool: list[Any]) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item, pool) for item in value)
    if not isinstance(value, dict):
        return value
    name = value.get("")
    if name is None:
        return {key: _decode(item, pool) for key, item in value.items()}
    if name == "@":
        return pool[value["n"]]
    if name.startswith("$"):
        return _FROM_TEXT[name[1:]](value["text"])
    return _CLASSES[name](**{key: _decode(item, pool) for key, item in value.items() if key})


_TO_TEXT: dict[type, Callable[[Any], str]] = {
    float: float.hex, Decimal: str, bytes: lambda b: base64.b64encode(b).decode(),
    datetime.date: datetime.date.isoformat, datetime.datetime: datetime.datetime.isoformat,
}  # fmt: skip
_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "float": float.fromhex, "Decimal": Decimal, "bytes": base64.b64decode,
    "date": datetime.date.fromisoformat, "datetime": datetime.datetime.fromisoformat,
}  # fmt: skip

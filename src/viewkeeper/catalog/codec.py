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
from functools import cache
from typing import Any, TypeVar


class _Classes(dict[str, type]):
    """Stored classes by name; importing `viewkeeper.plans` makes them all known."""

    def __missing__(self, name: str) -> type:
        raise ValueError(f"{name} is unknown here: this was stored by a newer viewkeeper")


_CLASSES = _Classes()
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


@cache
def _name(cls: Any) -> str:
    """Module and class: a relation and an operator may both be called Join."""
    return f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}"


def _encode(value: Any, pool: list[Any], seen: dict[Any, int]) -> Any:
    if type(value) in _PLAIN:
        return value
    if not _is_shared(value):
        return _encode_whole(value, pool, seen)
    if value not in seen:
        encoded = _encode_whole(value, pool, seen)
        seen[value] = len(pool)
        pool.append(encoded)
    return {"": "@", "n": seen[value]}


def _is_shared(value: Any) -> bool:
    """Values of shared classes, tuples of them, and lists of numbers long enough to be worth it."""
    if type(value) is not tuple:
        return type(value) in _SHARED
    return bool(value) and (type(value[0]) in _SHARED or (len(value) > 2 and all(type(v) is int for v in value)))


def _encode_whole(value: Any, pool: list[Any], seen: dict[Any, int]) -> Any:
    if isinstance(value, (tuple, list)):
        return [_encode(item, pool, seen) for item in value]
    if isinstance(value, dict):
        return {key: _encode(item, pool, seen) for key, item in value.items()}
    class_: Any = type(value)
    if class_ in _TO_TEXT:
        return {"": "$" + class_.__name__, "text": _TO_TEXT[class_](value)}
    return {"": _name(class_), "f": [_encode(getattr(value, field), pool, seen) for field in _fields(class_)]}


@cache
def _fields(class_: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(class_))


def _decode(value: Any, pool: list[Any]) -> Any:
    if type(value) is list:
        return tuple([item if type(item) in _PLAIN else _decode(item, pool) for item in value])
    if type(value) is not dict:
        return value
    name = value.get("")
    if name is None:
        return {key: _decode(item, pool) for key, item in value.items()}
    if name == "@":
        return pool[value["n"]]
    if name[0] == "$":
        return _FROM_TEXT[name[1:]](value["text"])
    return _CLASSES[name](*[item if type(item) in _PLAIN else _decode(item, pool) for item in value["f"]])


_MICROSECOND = datetime.timedelta(microseconds=1)
_PLAIN = frozenset([type(None), bool, int, str])
_TO_TEXT: dict[type, Callable[[Any], str]] = {
    float: float.hex, Decimal: str, bytes: lambda b: base64.b64encode(b).decode(),
    datetime.date: datetime.date.isoformat, datetime.datetime: datetime.datetime.isoformat,
    datetime.timedelta: lambda length: str(length // _MICROSECOND),
}  # fmt: skip
_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "float": float.fromhex, "Decimal": Decimal, "bytes": base64.b64decode,
    "date": datetime.date.fromisoformat, "datetime": datetime.datetime.fromisoformat,
    "timedelta": lambda text: int(text) * _MICROSECOND,
}  # fmt: skip

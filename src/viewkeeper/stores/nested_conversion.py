"""Python's lists, dicts and tuples as arrays, structs and maps; refusals name the place within."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Inner = Callable[[Any], Any]
Refuse = Callable[[Any, str], Exception]
"""Makes the refusal of a value that is not what is expected."""


def array_from(element: Inner, refuse: Refuse, refused: type[Exception]) -> Inner:
    """What makes a list of a list, tuple or NumPy array."""

    def convert(value: Any) -> list[Any]:
        values = value.tolist() if type(value).__module__ == "numpy" and getattr(value, "ndim", 0) == 1 else value
        if not isinstance(values, (list, tuple)):
            raise refuse(value, "a list")
        return [_within(element, each, f"element {i}", refused) for i, each in enumerate(values)]

    return convert


def struct_from(names: Sequence[str], parts: Sequence[Inner], refuse: Refuse, refused: type[Exception]) -> Inner:
    """What makes a dict of a dict (fields that are not named are NULL), a tuple, or a Row."""
    known = {name.lower(): name for name in names}

    def convert(value: Any) -> dict[str, Any]:
        fields = getattr(value, "__fields__", None) or getattr(value, "_fields", None)
        if isinstance(value, tuple) and fields:
            value = dict(zip(fields, value, strict=True))
        elif isinstance(value, (tuple, list)):
            if len(value) != len(names):
                raise refuse(value, f"of {len(names)} fields")
            value = dict(zip(names, value, strict=True))
        if not isinstance(value, Mapping):
            raise refuse(value, "a dict (or a tuple)")
        given = {known.get(str(name).lower(), name): each for name, each in value.items()}
        other = next((name for name in given if name not in names), None)
        if other is not None or len(given) != len(value):
            raise refuse(value, f"of the fields {', '.join(names)}")
        return {name: _within(part, given.get(name), f"field {name}", refused)
                for name, part in zip(names, parts, strict=True)}  # fmt: skip

    return convert


def map_from(key: Inner, item: Inner, refuse: Refuse, refused: type[Exception]) -> Inner:
    """What makes keys and values of a dict, or a list of pairs."""

    def convert(value: Any) -> list[dict[str, Any]]:
        pairs: Iterable[Any] = value.items() if isinstance(value, Mapping) else value
        if isinstance(value, (str, bytes)) or not isinstance(pairs, Iterable):
            raise refuse(value, "a dict")
        entries, seen = [], set[Any]()
        for pair in pairs:
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise refuse(value, "a dict (or a list of pairs)")
            if pair[0] is None:
                raise refuse(value, "a map: a key is None")
            name = _within(key, pair[0], "key", refused)
            told = str(name) if isinstance(name, (list, dict)) or name != name else name
            if told in seen:
                raise refuse(value, f"a map: the key {pair[0]!r} is there twice")
            seen.add(told)
            entries.append({"key": name, "value": _within(item, pair[1], f"value of {pair[0]!r}", refused)})
        return entries

    return convert


def _within(convert: Inner, value: Any, way: str, refused: type[Exception]) -> Any:
    if value is None:
        return None
    try:
        return convert(value)
    except refused as reason:
        raise refused(f"{way}: {reason}") from None

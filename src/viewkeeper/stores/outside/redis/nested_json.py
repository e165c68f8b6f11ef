"""Values of ARRAY, STRUCT and MAP as JSON, and back."""

from __future__ import annotations

import base64
import binascii
import datetime
import json
from collections.abc import Callable
from typing import Any

from viewkeeper.catalog.types import Type
from viewkeeper.files import Number

JsonConverter = Callable[[Any], Any]


def json_writer(type_: Type) -> Callable[[Any], str]:
    """What makes JSON of a value as users see it (Arrow's `to_pylist`)."""
    convert = _writing(type_)
    return lambda value: json.dumps(convert(value), separators=(",", ":"), ensure_ascii=False)


def json_reader(type_: Type) -> Callable[[bytes], Any]:
    """What makes a value that an intake takes of JSON; raises ValueError, with the reason, where it is none."""
    convert = _reading(type_)
    expected = dict if type_.name == "STRUCT" else list if type_.name == "ARRAY" else (dict, list)

    def read(text: bytes) -> Any:
        try:
            value = json.loads(text, parse_float=Number)
        except ValueError:
            raise ValueError("is no JSON") from None
        if not isinstance(value, expected):
            raise ValueError(f"is no JSON of {'an object' if type_.name != 'ARRAY' else 'an array'}")
        return value if convert is None else convert(value)

    return read


def _writing(type_: Type) -> JsonConverter:
    if type_.name == "ARRAY":
        element = _or_null(_writing(type_.parts[0][1]))
        return lambda value: [element(each) for each in value]
    if type_.name == "STRUCT":
        fields = {name: _or_null(_writing(part)) for name, part in type_.parts}
        return lambda value: {name: convert(value[name]) for name, convert in fields.items()}
    if type_.name == "MAP":
        key, item = _writing(type_.parts[0][1]), _or_null(_writing(type_.parts[1][1]))
        if type_.parts[0][1].name == "STRING":
            return lambda value: {name: item(each) for name, each in value}
        return lambda value: [[key(name), item(each)] for name, each in value]
    if type_.is_decimal:
        return lambda value: format(value, "f")
    if type_.name == "BINARY":
        return lambda value: base64.b64encode(value).decode()
    if type_.name == "TIMESTAMP":
        return lambda value: value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
    if type_.name in ("DATE", "TIMESTAMP_NTZ"):
        return lambda value: value.isoformat()
    return lambda value: value


def _reading(type_: Type) -> JsonConverter | None:
    """None where JSON's own values are what an intake takes."""
    if type_.name == "BINARY":
        return _bytes
    inner = [_reading(part) for _, part in type_.parts]
    if not any(inner):
        return None
    if type_.name == "ARRAY":
        element = _or_null(inner[0])
        return lambda value: [element(each) for each in value] if isinstance(value, list) else value
    if type_.name == "STRUCT":
        fields = {name.lower(): _or_null(each) for (name, _), each in zip(type_.parts, inner, strict=True)}
        return lambda value: _struct(value, fields)
    key, item = _or_null(inner[0]), _or_null(inner[1])
    return lambda value: _map(value, key, item)


def _struct(value: Any, fields: dict[str, JsonConverter]) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: fields[name.lower()](each) if name.lower() in fields else each for name, each in value.items()}


def _map(value: Any, key: JsonConverter, item: JsonConverter) -> Any:
    if isinstance(value, dict):
        return [(key(name), item(each)) for name, each in value.items()]
    if isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        return [(key(name), item(each)) for name, each in value]
    return value


def _or_null(convert: JsonConverter | None) -> JsonConverter:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


def _bytes(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else value
    except binascii.Error:
        raise ValueError("holds what is no base64") from None

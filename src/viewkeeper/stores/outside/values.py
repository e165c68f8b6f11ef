"""Values of views as other stores have them: as texts (fields of a hash), and as JSON (fields of a message); and back.

| type                      | text                          | JSON              |
|---------------------------|-------------------------------|-------------------|
| BOOLEAN                   | true, false                   | a boolean         |
| TINYINT .. BIGINT         | digits                        | a number          |
| FLOAT, DOUBLE             | the shortest that is the same, NaN, Infinity, -Infinity | a number, else a text |
| DECIMAL                   | digits, at the type's scale   | the same, a text  |
| STRING                    | UTF-8                         | a text            |
| BINARY                    | its bytes                     | base64            |
| DATE                      | 2024-05-01                    | the same          |
| TIMESTAMP                 | 2024-05-01T12:00:00Z, with six digits of a second where it has a fraction | the same |
| TIMESTAMP_NTZ             | the same without Z            | the same          |
| INTERVAL                  | microseconds, or months       | a number          |
| ARRAY, STRUCT, MAP        | JSON                          | array, object, object (keys as texts) |
"""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import DATE, Type, to_logical
from viewkeeper.stores.value_conversion import to_physical, to_python

_MICROSECOND = datetime.timedelta(microseconds=1)


def texts_of(type_: Type, physical: pa.Array) -> pa.Array:
    """The texts of a column's physical values, as large_binary; NULLs stay."""
    if type_.is_bytes:
        return physical.cast(pa.large_binary())
    if type_.is_nested:
        found = [None if each is None else _dumps(each) for each in json_values(type_, physical)]
        return pa.array(found, pa.large_binary())
    return scalar_texts(type_, physical).cast(pa.large_string()).cast(pa.large_binary())


def scalar_texts(type_: Type, physical: pa.Array) -> pa.Array:
    """The texts of a column's physical values, which are neither nested nor bytes; NULLs stay."""
    if type_.name == "BOOLEAN":
        return pc.if_else(pc.equal(physical, pa.scalar(1, pa.int8())), "true", "false")
    if type_.is_decimal:
        logical = to_logical(physical, type_)
        texts = logical.cast(pa.string())
        if not pc.any(pc.match_substring(texts, "E")).as_py():
            return texts
        # Arrow writes small ones with an exponent.
        return pa.array([None if value is None else format(value, "f") for value in logical.to_pylist()], pa.string())
    if type_.name == "DATE":
        return to_logical(physical, DATE).cast(pa.string())
    if type_.name in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        shown = pc.replace_substring(physical.view(pa.timestamp("us")).cast(pa.string()), " ", "T")
        shown = pc.replace_substring_regex(shown, r"\.000000$", "")
        return pc.binary_join_element_wise(shown, "Z", "") if type_.name == "TIMESTAMP" else shown
    if type_.is_float:
        written = pc.fill_null(physical, 0).to_numpy(zero_copy_only=False).astype("U32")
        texts = pa.array(written.astype(object), pa.string())
        for short, long in _ENDLESS:
            texts = pc.if_else(pc.equal(texts, short), long, texts)
        return pc.if_else(physical.is_valid(), texts, pa.scalar(None, pa.string()))
    return physical.cast(pa.string())


_ENDLESS = (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity"))


def value_of(type_: Type, text: bytes, zone: str) -> Any:
    """The value, as users see it, whose text this is; raises ValueError where it is none."""
    if type_.is_nested:
        return _shown(type_, _of_json(type_, json.loads(text)), zone)
    return _shown(type_, _of_text(type_, text), zone)


def _of_text(type_: Type, text: bytes) -> Any:
    """What `to_physical` takes, or what it gives of an interval."""
    if type_.name == "BINARY":
        return text
    said = text.decode()
    if type_.name == "BOOLEAN":
        if said not in ("true", "false"):
            raise ValueError(f"{said!r} is neither true nor false")
        return said == "true"
    if type_.is_integer or type_.is_interval:
        return int(said)
    return float(said) if type_.is_float else said


def _shown(type_: Type, value: Any, zone: str) -> Any:
    physical = value if type_.is_interval else to_physical(type_, zone)(value)
    decode = to_python(type_, zone)
    return physical if decode is None else decode(physical)


def json_values(type_: Type, physical: pa.Array) -> list[Any]:
    """The values of a column as JSON has them."""
    if type_.name in ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE"):  # of every year
        return scalar_texts(type_, physical).to_pylist()
    if type_.is_interval:
        return physical.to_pylist()
    convert = _to_json(type_)
    return [None if value is None else convert(value) for value in to_logical(physical, type_).to_pylist()]


def _to_json(type_: Type) -> Callable[[Any], Any]:
    if type_.name == "ARRAY":
        element = _inner(type_.parts[0][1])
        return lambda value: [element(each) for each in value]
    if type_.name == "STRUCT":
        fields = [(name, _inner(part)) for name, part in type_.parts]
        return lambda value: {name: convert(value[name]) for name, convert in fields}
    if type_.name == "MAP":
        key, item = _inner(type_.parts[0][1]), _inner(type_.parts[1][1])
        return lambda value: {_key_text(key(k)): item(v) for k, v in value}
    return _SCALARS.get(type_.name, _number if type_.is_float else _duration if type_.is_interval else _same)


def _inner(type_: Type) -> Callable[[Any], Any]:
    convert = _to_json(type_)
    return lambda value: None if value is None else convert(value)


def _key_text(key: Any) -> str:
    return key if isinstance(key, str) else json.dumps(key, separators=(",", ":"), ensure_ascii=False)


def _same(value: Any) -> Any:
    return value


def _number(value: float) -> Any:
    return value if math.isfinite(value) else dict(_ENDLESS)[str(value)]


def _duration(value: Any) -> int:
    return value if isinstance(value, int) else value // _MICROSECOND


def _time(value: datetime.datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat()
    return value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat() + "Z"


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "DECIMAL": lambda value: format(value, "f"), "BINARY": lambda value: base64.b64encode(value).decode(),
    "DATE": datetime.date.isoformat, "TIMESTAMP": _time, "TIMESTAMP_NTZ": _time,
}  # fmt: skip


def value_of_json(type_: Type, value: Any, zone: str) -> Any:
    """The value, as users see it, that JSON has as `value`, which is not null; raises ValueError where it is none."""
    return _shown(type_, _of_json(type_, value), zone)


def _of_json(type_: Type, value: Any) -> Any:
    if value is None:
        return None
    if type_.name == "ARRAY":
        return [_of_json(type_.parts[0][1], each) for each in value]
    if type_.name == "STRUCT":
        return {name: _of_json(part, value[name]) for name, part in type_.parts}
    if type_.name == "MAP":
        key, item = type_.parts[0][1], type_.parts[1][1]
        read = _same if key.name in _TEXT_KEYS else json.loads
        return {_hashable(_of_json(key, read(k))): _of_json(item, v) for k, v in value.items()}
    if type_.name == "BINARY":
        return base64.b64decode(value, validate=True)
    if type_.is_float:
        return float(value)
    if type_.is_decimal:
        return Decimal(value)
    return value if not type_.is_time_interval else value * _MICROSECOND


_TEXT_KEYS = ("STRING", "BINARY", "DECIMAL", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")


def _hashable(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


def _dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

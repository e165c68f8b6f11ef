"""How a column's values are written in JSON: what a message's schema, or OPTIONS, say of it."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import Type
from viewkeeper.files import Texts
from viewkeeper.stores.outside.kafka.fields import firsts

TIMES = {"seconds": 1_000_000, "millis": 1_000, "micros": 1}
"""Units of numbers that are times, in microseconds; of nanoseconds the last three digits go."""

TIME_NAMES = {
    "org.apache.kafka.connect.data.Timestamp": "millis", "io.debezium.time.Timestamp": "millis",
    "io.debezium.time.MicroTimestamp": "micros", "io.debezium.time.NanoTimestamp": "nanos",
}  # fmt: skip
EXACT_DIGITS = 15
"""A number of so many digits is the same after it has been a DOUBLE."""


@dataclass(frozen=True)
class ValueWriting:
    """`times`: the unit of numbers that are TIMESTAMPs, None where nobody has said.  `decimals`: "plain" numbers and
    texts, or "base64", as Debezium's precise mode has them; `scale` is that of the latter, None: the type's."""

    times: str | None = None
    decimals: str = "plain"
    scale: int | None = None


def written_as(field: Mapping[str, Any]) -> dict[str, Any]:
    """What a field of a schema of Kafka Connect says."""
    name = field.get("name")
    if name in TIME_NAMES:
        return {"times": TIME_NAMES[name]}
    if name == "org.apache.kafka.connect.data.Decimal":
        return {"decimals": "base64", "scale": int((field.get("parameters") or {}).get("scale", 0))}
    return {"decimals": "plain"}


def read_writing(
    type_: Type, texts: pa.Array, kinds: pa.Array, writing: ValueWriting
) -> tuple[Any, dict[int, str]]:  # fmt: skip
    """The values as an intake takes them (`ColumnIntake.each`), and why some are none, by row; those are NULL."""
    if type_.is_nested:
        return _nested(texts, kinds)
    bad = _composite(kinds)
    texts = _without(texts, bad)
    if type_.name == "STRING":
        return texts, bad
    if type_.name == "BINARY":
        return _bytes(texts, bad)
    numbers = pc.is_in(kinds, pa.array(["BIGINT", "UBIGINT", "DOUBLE"])).to_numpy(zero_copy_only=False)
    if type_.is_decimal and writing.decimals == "base64":
        return _decimals(texts, type_.scale if writing.scale is None else writing.scale, bad)
    if type_.name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ") and numbers.any():
        return _times(type_, texts, numbers, writing, bad)
    return Texts(texts), bad


def _composite(kinds: pa.Array) -> dict[int, str]:
    rows = np.flatnonzero(pc.is_in(kinds, pa.array(["OBJECT", "ARRAY"])).to_numpy(zero_copy_only=False))
    return dict.fromkeys(rows.tolist(), "holds an object or an array")


def _without(texts: pa.Array, bad: Mapping[int, str]) -> pa.Array:
    if not bad:
        return texts
    gone = np.zeros(len(texts), bool)
    gone[list(bad)] = True
    return pc.if_else(pa.array(gone), pa.scalar(None, pa.string()), texts)


def _nested(texts: pa.Array, kinds: pa.Array) -> tuple[list[Any], dict[int, str]]:
    is_nested = pc.is_in(kinds, pa.array(["OBJECT", "ARRAY"])).to_pylist()
    values = [json.loads(text, parse_float=Decimal, object_pairs_hook=firsts) if nested else None
              for text, nested in zip(texts.to_pylist(), is_nested, strict=True)]  # fmt: skip
    scalars = [i for i, kind in enumerate(kinds.to_pylist()) if kind not in (None, "NULL") and not is_nested[i]]
    return values, dict.fromkeys(scalars, "holds neither an object nor an array")


def _bytes(texts: pa.Array, bad: dict[int, str]) -> tuple[list[bytes | None], dict[int, str]]:
    values: list[bytes | None] = []
    for row, text in enumerate(texts.to_pylist()):
        try:
            values.append(None if text is None else base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError):
            bad.setdefault(row, "is no base64")
            values.append(None)
    return values, bad


def _decimals(texts: pa.Array, scale: int, bad: dict[int, str]) -> tuple[list[Decimal | None], dict[int, str]]:
    """Big-endian two's complement in base64."""
    found, bad = _bytes(texts, bad)
    return [
        None if each is None else Decimal(int.from_bytes(each, "big", signed=True)).scaleb(-scale, Context(prec=100))
        for each in found
    ], bad


def _times(
    type_: Type, texts: pa.Array, numbers: np.ndarray, writing: ValueWriting, bad: dict[int, str]
) -> tuple[Texts, dict[int, str]]:  # fmt: skip
    """Numbers since 1970 beside texts: days of a DATE, else as `writing` says; all of them as texts."""
    rows = np.flatnonzero(numbers)
    if type_.name != "DATE" and writing.times is None:
        bad |= dict.fromkeys(rows.tolist(), unsaid_unit())
        return Texts(_without(texts, bad)), bad
    counts = pc.cast(_whole_numbers(texts, numbers, bad), pa.int64())
    if type_.name == "DATE":
        times = pc.multiply(counts, 86_400_000_000)
    elif writing.times == "nanos":
        times = pc.divide(counts, 1_000)
    else:
        times = pc.multiply(counts, TIMES[writing.times or "micros"])
    shown = pc.strftime(times.cast(pa.timestamp("us")), "%Y-%m-%d" if type_.name == "DATE" else "%Y-%m-%dT%H:%M:%S")
    if type_.name == "TIMESTAMP":
        shown = pc.binary_join_element_wise(shown, "Z", "")
    return Texts(pc.if_else(pa.array(numbers), shown, _without(texts, bad))), bad


def unsaid_unit() -> str:
    """Why a number is no TIMESTAMP."""
    return f"is a number; say what it counts: OPTIONS (timestamps '{'|'.join(TIMES)}')"


def _whole_numbers(texts: pa.Array, numbers: np.ndarray, bad: dict[int, str]) -> pa.Array:
    """The numbers that are whole and within the years 1 to 9999, whatever they count, as texts; else NULL, and bad."""
    fits = pc.fill_null(pc.match_substring_regex(texts, r"^-?[0-9]{1,18}$"), False).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(numbers & ~fits).tolist():
        bad.setdefault(row, f"{texts[row]} is no whole number of days, or of a unit of time")
    return pc.if_else(pa.array(numbers & fits), texts, pa.scalar(None, pa.string()))

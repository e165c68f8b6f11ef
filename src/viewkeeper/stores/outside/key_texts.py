"""The keys of a view's rows as texts: a single column is its text, several are a JSON array; so is a single NULL, or a
text that looks like one."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from viewkeeper.catalog.types import Type
from viewkeeper.stores.outside.values import texts_of
from viewkeeper.trace.rows import Rows


def key_texts(types: Sequence[Type], key: Rows) -> list[bytes]:
    """The texts of keys whose columns are of `types`; empty where there are none."""
    texts = [texts_of(type_, column).to_pylist() for type_, column in zip(types, key.columns, strict=True)]
    if len(types) == 1:
        return [text if text is not None and text[:1] != b"[" else json_key(types, [text]) for text in texts[0]]
    if not types:
        return [b""] * len(key)
    return [json_key(types, row) for row in zip(*texts, strict=True)]


def json_key(types: Sequence[Type], texts: Sequence[bytes | None]) -> bytes:
    """A JSON array without spaces of a key whose columns have these texts."""
    parts = [_plain(type_, text) for type_, text in zip(types, texts, strict=True)]
    return json.dumps(parts, separators=(",", ":"), ensure_ascii=False).encode()


def _plain(type_: Type, text: bytes | None) -> Any:
    if text is None:
        return None
    if type_.is_integer:
        return int(text)
    if type_.name == "BOOLEAN":
        return text == b"true"
    return base64.b64encode(text).decode() if type_.name == "BINARY" else text.decode()

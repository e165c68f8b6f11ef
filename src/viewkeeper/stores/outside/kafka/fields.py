"""MessageFields of JSON messages as columns: by DuckDB, many messages at a time."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_local = threading.local()


@dataclass(frozen=True)
class MessageFields:
    """For each path of each message: the text of a scalar, or JSON of what is none, and its kind: "NULL" of a null,
    NULL where there is no such field, else VARCHAR, BOOLEAN, BIGINT, UBIGINT, DOUBLE, OBJECT, ARRAY."""

    texts: list[pa.Array]
    kinds: list[pa.Array]


Path = tuple[str, ...]
"""The names on the way to a field; () is the whole message."""


def valid_json(messages: Sequence[bytes | None]) -> tuple[pa.Array, np.ndarray]:
    """The messages as texts, and which are JSON: bool[n]."""
    try:
        texts = pa.array(messages, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:  # one of them is no UTF-8
        texts = pa.array([_decoded(message) for message in messages], pa.string())
    found = _run("SELECT json_valid(v) AS c FROM messages", texts).column("c")
    return texts, pc.fill_null(found, False).to_numpy(zero_copy_only=False)


def fields_of(texts: pa.Array, paths: Sequence[Path], exact: Collection[int] = ()) -> MessageFields:
    """The fields at `paths` of messages that are JSON.  Numbers with a fraction have the digits of a DOUBLE, those of
    the paths numbered in `exact` all that are written."""
    if not len(texts) or not paths:
        return MessageFields(
            [pa.nulls(len(texts), pa.string())] * len(paths), [pa.nulls(len(texts), pa.string())] * len(paths)
        )
    listed = "[" + ", ".join("'" + _text_of(each).replace("'", "''") + "'" for each in paths) + "]"
    found = _run(f"SELECT json_extract_string(v, {listed}) AS t, json_type(v, {listed}) AS k FROM messages", texts)
    width = len(paths)
    places = [pa.array(np.arange(at, len(texts) * width, width)) for at in range(width)]
    columns, kinds = ([_flat(found.column(name)).take(each) for each in places] for name in ("t", "k"))
    for at in exact:
        columns[at] = _exact(texts, paths[at], columns[at], kinds[at])
    return MessageFields(columns, kinds)


def _text_of(names: Path) -> str:
    return "$" + "".join(f'."{name}"' for name in names)


def _exact(messages: pa.Array, names: Path, texts: pa.Array, kinds: pa.Array) -> pa.Array:
    """`texts` with the numbers that have a fraction as they are written; such messages are read one by one."""
    rows = np.flatnonzero(pc.equal(pc.fill_null(kinds, ""), "DOUBLE").to_numpy(zero_copy_only=False))
    if not len(rows):
        return texts
    whole = texts.to_pylist()
    for row, message in zip(rows.tolist(), messages.take(pa.array(rows)).to_pylist(), strict=True):
        whole[row] = reduce(_field, names, json.loads(message, parse_float=str, object_pairs_hook=firsts))
    return pa.array(whole, pa.string())


def firsts(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object, of whose fields of one name the first counts, as DuckDB has it."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found


def _field(value: Any, name: str) -> Any:
    return value[name]


def _flat(column: pa.ChunkedArray) -> pa.Array:
    lists = column.combine_chunks()
    return (lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists).flatten()


def _run(query: str, texts: pa.Array) -> pa.Table:
    connection = getattr(_local, "connection", None)
    if connection is None:
        connection = _local.connection = duckdb.connect(config={"threads": 1})
    connection.register("messages", pa.table({"v": texts}))
    try:
        return connection.sql(query).to_arrow_table()
    finally:
        connection.unregister("messages")


def _decoded(message: bytes | None) -> str | None:
    try:
        return None if message is None else message.decode()
    except UnicodeDecodeError:
        return None

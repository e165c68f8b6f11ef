"""Part files with rows of every type."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from state_disk import disk_in
from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    decimal,
    logical_type,
    to_physical,
)  # fmt: skip
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.part_files import (
    PartWriter,
)  # fmt: skip
from viewkeeper.streams.work import Piece
from viewkeeper.trace.receipt import FileRef

ALL_TYPES: dict[str, tuple[Any, list[Any]]] = {
    "bool": (BOOLEAN, [True, False]), "tiny": (TINYINT, [-128, 127]), "small": (SMALLINT, [-32768, 7]),
    "int": (INT, [-(2**31), 5]), "big": (BIGINT, [-(2**63), 2**63 - 1]), "float": (FLOAT, [float("nan"), -0.0]),
    "double": (DOUBLE, [float("nan"), float("-inf")]), "short": (decimal(5, 2), [Decimal("-999.99"), Decimal("0.01")]),
    "eighteen": (decimal(18, 0), [Decimal(10**18 - 1), Decimal(-1)]),
    "long": (decimal(38, 10), [Decimal("-1234567890123456789012345678.0123456789"), Decimal(0)]),
    "text": (STRING, ["", "größer – 日本 😀"]), "bytes": (BINARY, [b"", b"\x00\xff"]),
    "day": (DATE, [date(1, 1, 1), date(9999, 12, 31)]),
    "Zeit é": (TIMESTAMP, [datetime(1500, 1, 1), datetime(2030, 6, 1)]),
    "dotted.name": (TIMESTAMP_NTZ, [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2015, 1, 1)]),
    "dotted": (INT, [1, 2]),
}  # fmt: skip
COLUMNS = tuple(Column(name, type_) for name, (type_, _) in ALL_TYPES.items())
NUMBER = (Column("n", BIGINT),)


def all_types(n: int) -> Block:
    """`n` rows: the two values of each type and NULL in turns, each column at its own step."""
    arrays = []
    for step, (type_, values) in enumerate(ALL_TYPES.values()):
        data = [[*values, None][(i + step) % 3] for i in range(n)]
        logical = pa.array(data, pa.timestamp("us")) if type_ == TIMESTAMP else pa.array(data, logical_type(type_))
        arrays.append(to_physical(logical, type_))
    return Block(arrays, np.zeros(n, dtype=np.uint64))


def write(
    folder: Path, parts: dict[int, Block], columns: Sequence[Column] = NUMBER, grouped: bool = True, name: str = "a"
) -> tuple[FileRef, dict[int, Piece]]:
    writer = PartWriter(disk_in(folder), name, columns, "UTC", grouped)
    for part, block in parts.items():
        writer.add(part, block)
    ref, pieces = writer.finish()
    assert ref is not None
    return ref, pieces

"""md5, sha1, sha2 and crc32 of a text's or bytes' bytes.

In Python, one value at a time, since nothing does it by columns.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from viewkeeper.catalog.types import BIGINT, BINARY, INT, STRING, Type
from viewkeeper.functions.function import Computed, Function, Signature, implicit

_SHA2 = {0: hashlib.sha256, 224: hashlib.sha224, 256: hashlib.sha256, 384: hashlib.sha384, 512: hashlib.sha512}


def _digest(name: str, result: Type, arrow: pa.DataType, compute: Callable[[bytes], Any], *aliases: str) -> Function:
    def kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
        values = arguments[0].cast(pa.large_binary()).to_pylist()
        return pa.array([None if value is None else compute(value) for value in values], arrow), None

    def signature(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
        return (result, (BINARY,)) if types[0].is_bytes else None

    return Function(name, "a STRING or BINARY", signature, kernel, aliases=aliases)


def _sha2(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    values, compute = arguments[0].cast(pa.large_binary()).to_pylist(), _SHA2[arguments[1]]
    return pa.array(
        [None if value is None else compute(value).hexdigest() for value in values], pa.large_string()
    ), None


def _known_sha2(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    known = types[0].is_bytes and implicit(types[1], INT) and values[1] in _SHA2
    return (STRING, (BINARY, INT)) if known else None


MD5 = _digest("md5", STRING, pa.large_string(), lambda value: hashlib.md5(value).hexdigest())
SHA1 = _digest("sha1", STRING, pa.large_string(), lambda value: hashlib.sha1(value).hexdigest(), "sha")
SHA2 = Function("sha2", "a STRING or BINARY, and one of 0, 224, 256, 384, 512", _known_sha2, _sha2, 2, 2,
                constants=(1,), nullable=True)  # fmt: skip
CRC32 = _digest("crc32", BIGINT, pa.int64(), zlib.crc32)

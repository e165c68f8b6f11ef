"""What a scalar function is: how it is written, of which types, and how it is computed.

Most are *strict*: NULL where an argument is NULL.  Of all, every argument is evaluated, from left to right; what is not
(IF, COALESCE and the like) is no function but an expression of its own (compiler/forms.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import (
    BINARY,
    DATE,
    DOUBLE,
    INTEGER_BITS,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Type,
)  # fmt: skip

Wrong = np.ndarray | dict[str, np.ndarray] | None
"""Where (bool) a function raises its error, or by error where it raises several; None for nowhere.  Of a row with a
NULL it means nothing."""

Computed = tuple[pa.Array, Wrong]
"""Physical values, NULL where an argument of a strict function is, and where it raises."""

Kernel = Callable[[Sequence[Any], Sequence[Type], str], Computed]
"""Computes a batch: physical arrays of one length (of `constants` the values themselves), their types, the database's
time zone."""

Signature = tuple[Type, tuple[Type, ...]]
"""The type of the result, and those to which the arguments are converted."""

SignatureOf = Callable[[Sequence[Type], Sequence[Any]], Signature | None]
"""The signature for arguments of these types (VOID: a bare NULL), of which those that are constants have these values
(others: None); None where Spark takes no such arguments, or we do not."""


@dataclass(frozen=True)
class Function:
    """A scalar function.

    `name`: Spark's, in small letters; `aliases`: its other names, each shown as it is written.  `accepts`: what it
    takes, for people.  `least` to `most` arguments are written; the last `defaults` stand for those that are left out.
    `constants`: the positions of arguments that must be constants.  `nulls`: whether it may be NULL, of arguments that
    may be; a strict function has `any`, another's kernel is given NULLs too.  `nullable`: it may be NULL in any case.
    `raises`: Spark's error class (one of several), None for a function that never raises; `may_raise` says of which
    result types.
    `shown`: how Spark writes a call with these arguments as the name of an output.  `nested`: it knows what to do with
    the arrays, structs and maps that `result` lets through, and is NULL where it raises; others are given none.
    """

    name: str
    accepts: str
    result: SignatureOf
    kernel: Kernel
    least: int = 1
    most: int = 1
    aliases: tuple[str, ...] = ()
    defaults: tuple[Any, ...] = ()
    constants: tuple[int, ...] = ()
    nulls: Callable[[Iterable[bool]], bool] = any
    nullable: bool = False
    raises: str | None = None
    may_raise: Callable[[Type], bool] = lambda type_: True
    shown: Callable[[str, Sequence[str]], str] = lambda name, arguments: f"{name}({', '.join(arguments)})"
    nested: bool = False

    @property
    def strict(self) -> bool:
        """Whether it is NULL where an argument is."""
        return self.nulls is any


def implicit(source: Type, target: Type) -> bool:
    """Whether Spark converts an argument of type `source` by itself for a function that takes `target`."""
    if source in (VOID, target):
        return True
    if STRING in (source, target):
        return BINARY not in (source, target)
    if source.is_integer:
        return target.is_float or (target.is_integer and INTEGER_BITS[source.name] <= INTEGER_BITS[target.name])
    if source.is_number:
        return target == DOUBLE
    moments = (DATE, TIMESTAMP, TIMESTAMP_NTZ)
    return source in moments and target in moments


def taking(result: Type, *targets: Type) -> SignatureOf:
    """Of a function that gives `result` for arguments of these types, or what Spark converts to them."""

    def signature(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
        if all(implicit(type_, target) for type_, target in zip(types, targets, strict=False)):
            return result, targets[: len(types)]
        return None

    return signature


def wrong_where(mask: np.ndarray) -> np.ndarray | None:
    """`mask`, or None where it holds nowhere."""
    return mask if mask.any() else None


def valid_in(*arrays: pa.Array) -> np.ndarray | None:
    """Where (bool) none of `arrays` is NULL; None for everywhere."""
    valid: np.ndarray | None = None
    for array in arrays:
        if array.null_count:
            here = array.is_valid().to_numpy(zero_copy_only=False)
            valid = here if valid is None else valid & here
    return valid


def numbers(array: pa.Array) -> np.ndarray:
    """The values of an array of fixed width; anything where it is NULL."""
    dtype = np.dtype(array.type.to_pandas_dtype())
    return np.frombuffer(array.buffers()[1] or b"", dtype)[array.offset : array.offset + len(array)]


def made(values: np.ndarray, *arguments: pa.Array) -> pa.Array:
    """`values` as an array, NULL where one of `arguments` is."""
    valid = valid_in(*arguments)
    return pa.array(values, mask=None if valid is None else ~valid)

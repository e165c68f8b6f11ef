"""Functions of Python's as what the catalog holds of them, by pyspark's cloudpickle, and as functions of a session."""

from __future__ import annotations

import hashlib
import io
import sys
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import PythonFunction
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
    Type,
    decimal,
    logical_type,
    to_logical,
    to_physical,
)  # fmt: skip
from viewkeeper.errors import InputError
from viewkeeper.functions.python_calls import answered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def python_function(name: str, f: Callable[..., Any], returns: Type, deterministic: bool) -> PythonFunction:
    """What the catalog holds of `f`; raises InputError where it cannot be kept."""
    from pyspark import cloudpickle

    if not callable(f):
        raise InputError(f"{name}: a function is expected, not a {type(f).__name__}")
    try:
        code = cloudpickle.dumps(f)
        fingerprint = _fingerprint(f)
    except Exception as error:
        raise InputError(f"the function {name} cannot be kept ({type(error).__name__}: {error}): what it uses must be "
                         "values that can be pickled; open files and connections within it") from error  # fmt: skip
    return PythonFunction(name, returns, _takes_arrow(f), deterministic, 1, fingerprint, code)


def _takes_arrow(f: Callable[..., Any]) -> bool:
    annotations = getattr(f, "__annotations__", {})
    return any(str(getattr(each, "__module__", each)).startswith(("pyarrow", "pa.")) for each in annotations.values())


def _fingerprint(f: Callable[..., Any]) -> str:
    return hashlib.sha256(_pickled(f)).hexdigest()


def _pickled(value: object) -> bytes:
    """The same bytes for the same code and values, in every process."""
    from pyspark.cloudpickle import cloudpickle

    class Pickler(cloudpickle.CloudPickler):
        """Leaves out where the lines of the code stand, and in which order a process holds the elements of a set."""

        dispatch_table = ChainMap({CodeType: _without_places}, cloudpickle.CloudPickler.dispatch_table)

        def persistent_id(self, each: object) -> object:
            return (type(each).__name__, sorted(map(_pickled, each))) if isinstance(each, set | frozenset) else None

    buffer = io.BytesIO()
    Pickler(buffer).dump(value)
    return buffer.getvalue()


def _without_places(code: CodeType) -> Any:
    kept = (code.co_name, code.co_code, code.co_exceptiontable, code.co_names, code.co_varnames, code.co_freevars,
            code.co_cellvars, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags,
            code.co_consts)  # fmt: skip
    return tuple, (kept,)


@contextmanager
def named_functions(session: SparkSession, functions: Iterable[PythonFunction], zone: str) -> Iterator[None]:
    """`functions` as functions of the session while the block runs."""
    from pyspark.sql.functions import arrow_udf

    given = list(functions)
    if given and (session.sparkContext.master or "").startswith("local"):
        session.sparkContext.pythonExec = sys.executable  # Else workers run whatever python3 is on the PATH.
    try:
        for each in given:
            udf = arrow_udf(_in_worker(each, zone), str(each.returns).lower())  # type: ignore[call-overload]
            session.udf.register(each.name, udf if each.deterministic else udf.asNondeterministic())
        yield
    finally:
        for each in given:
            session.sql(f"DROP TEMPORARY FUNCTION IF EXISTS `{each.name}`")


def _in_worker(function: PythonFunction, zone: str) -> Callable[..., pa.Array]:
    def called(*given: pa.Array) -> pa.Array:
        types = [_type(column.type) for column in given]
        arguments = [to_physical(column.cast(logical_type(type_, zone)), type_)
                     for column, type_ in zip(given, types, strict=True)]  # fmt: skip
        values, raised = answered(function, arguments, types, np.zeros(len(given[0]), bool), zone)
        for text in raised.values():
            raise RuntimeError(text)
        return to_logical(values, function.returns, zone)

    return called


_TYPES = {
    pa.bool_(): BOOLEAN, pa.int8(): TINYINT, pa.int16(): SMALLINT, pa.int32(): INT, pa.int64(): BIGINT,
    pa.float32(): FLOAT, pa.float64(): DOUBLE, pa.string(): STRING, pa.large_string(): STRING, pa.binary(): BINARY,
    pa.large_binary(): BINARY, pa.date32(): DATE,
}  # fmt: skip


def _type(arrow: pa.DataType) -> Type:
    if pa.types.is_timestamp(arrow):
        return TIMESTAMP_NTZ if arrow.tz is None else TIMESTAMP
    return decimal(arrow.precision, arrow.scale) if pa.types.is_decimal(arrow) else _TYPES[arrow]

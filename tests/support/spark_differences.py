"""Expressions computed by our operators, by the checker's row evaluator and by Spark, over one table of edge values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from compiler_catalog import catalog_of, query_of
from viewkeeper.catalog.types import Type, logical_type, to_logical, to_physical
from viewkeeper.checker.functions_of_nested import closed, opened
from viewkeeper.checker.row_evaluator import Answer, evaluate
from viewkeeper.evaluation.error_codes import ERROR_CODES, unpack_error
from viewkeeper.evaluation.evaluate import evaluate as computed
from viewkeeper.plans.relations import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZONE = "Europe/Berlin"

OURS_ALONE = "DATETIME_OVERFLOW"
"""The error of what lies beyond the years 1 to 9999; Spark counts on."""


@dataclass
class Ours:
    """What we make of one expression: a value a row, or an error's name."""

    sql: str
    name: str
    type: Type
    values: list[Any]
    codes: dict[int, str]


def ours(types: Sequence[Type], rows: Sequence[tuple[Any, ...]], expressions: Sequence[str]) -> list[Ours]:
    """Each expression over the columns a, b, c ... of `rows`, the same by the operators and by the checker."""
    columns = ", ".join(f"{name} {type_}" for name, type_ in zip("abcdefgh", types, strict=False))
    catalog = catalog_of(f"CREATE TABLE edges ({columns})")
    (scan,) = [table.id for table in catalog.tables]
    physical = [to_physical(array, type_) for array, type_ in zip(_logical(types, rows), types, strict=True)]
    found = []
    held = [tuple(physical[i][n].as_py() if type_.is_nested else row[i] for i, type_ in enumerate(types))
            for n, row in enumerate(rows)]  # fmt: skip
    for sql in expressions:
        relation = query_of(catalog, f"SELECT {sql} FROM edges").relation
        assert isinstance(relation, Project)
        output = relation.outputs[0]
        array, errors = computed(output, physical, len(rows), zone=ZONE)
        values = to_logical(array, output.type).to_pylist()
        codes = {} if errors is None else {int(n): _code(errors[n]) for n in np.flatnonzero(errors)}
        for n, row in enumerate(rows):
            judged = evaluate(relation, {scan: Answer([held[n]])}, ZONE)
            code = judged.errors[0].code if judged.errors else None
            assert code == codes.get(n), (sql, row, "checker", code, "operators", codes.get(n))
            if code is None:
                (value,) = map(opened, judged.rows[0], [output.type])
                assert same(value, values[n]), (sql, row, "checker", value, "operators", values[n])
                assert output.nullable or value is not None, (sql, row, "is NULL")
        found.append(Ours(sql, relation.names[0], output.type, values, codes))
    return found


def compare_with_spark(
    spark: SparkSession,
    types: Sequence[Type],
    rows: Sequence[tuple[Any, ...]],
    expressions: Sequence[str],
    raise_each: bool = True,
) -> dict[str, set[str]]:
    """Asserts that names, types, values and errors are Spark's; the errors that were met, by expression.

    With `raise_each` Spark is made to raise once for each of them.
    """
    found = ours(types, rows, expressions)
    logical = _logical(types, rows)
    table = pa.table([pa.array(range(len(rows))), *logical], ["n", *"abcdefgh"[: len(types)]])
    schema = ", ".join(["n BIGINT", *(f"{name} {type_}" for name, type_ in zip("abcdefgh", types, strict=False))])
    spark.createDataFrame(table, schema).createOrReplaceTempView("edges")
    fields = spark.sql(f"SELECT {', '.join(expressions)} FROM edges").schema
    for one, field in zip(found, fields, strict=True):
        type_ = str(one.type).lower().replace(", ", ",").replace(": ", ":")
        our, their = (one.name, type_), (field.name, field.dataType.simpleString())
        assert our == their, (one.sql, our, their)
    cases = [f"CASE WHEN n IN (-1{''.join(f', {n}' for n in one.codes)}) THEN NULL ELSE {one.sql} END" for one in found]
    for n, *answer in spark.sql(f"SELECT n, {', '.join(cases)} FROM edges").collect():
        for one, value in zip(found, answer, strict=True):
            if n not in one.codes:
                assert same(_aware(value, one.type), one.values[n]), (one.sql, rows[n], "Spark", value, one.values[n])
    for one in found if raise_each else ():
        for code in set(one.codes.values()) - {OURS_ALONE}:
            row = next(n for n, its in one.codes.items() if its == code)
            assert code in _raised(spark, one.sql, row), (one.sql, rows[row])
    return {one.sql: set(one.codes.values()) for one in found if one.codes}


def same(left: Any, right: Any) -> bool:
    """Of one type too; NaN is NaN, and -0.0 is not 0.0."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right) or (left != left and right != right)
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same(value, right[name]) for name, value in left.items())
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, bytearray):
        left = bytes(left)
    return bool(left == right) and (
        left is None or type(left) is type(right) or {type(left), type(right)} <= {bool, int}
    )


def _aware(value: Any, type_: Type) -> Any:
    """As Arrow gives it: a time with its zone, a struct and a map as a dict and pairs in the order of the keys."""
    if value is None or not type_.parts:
        return value.astimezone() if type_.name == "TIMESTAMP" and value is not None else value
    of = [part for _, part in type_.parts]
    if type_.name == "ARRAY":
        return [_aware(each, of[0]) for each in value]
    if type_.name == "STRUCT":
        return {name: _aware(each, part) for each, (name, part) in zip(value, type_.parts, strict=True)}
    pairs = [(_aware(key, of[0]), _aware(each, of[1])) for key, each in value.items()]
    return opened(closed(pairs, type_), type_)


def _raised(spark: SparkSession, sql: str, row: int) -> str:
    try:
        return f"no error, but {spark.sql(f'SELECT {sql} FROM edges WHERE n = {row}').collect()}"
    except Exception as error:  # noqa: BLE001 - whatever Spark raises
        return str(error)


def _logical(types: Sequence[Type], rows: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], logical_type(type_)) for i, type_ in enumerate(types)]


def _code(error: int) -> str:
    return ERROR_CODES[unpack_error(int(error))[0]]

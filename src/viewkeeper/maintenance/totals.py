"""SUM and AVG read off exact sums, and the errors of those that do not fit their type."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import MAX_PRECISION, Type, decimal
from viewkeeper.evaluation import exact
from viewkeeper.evaluation.error_codes import ARITHMETIC_OVERFLOW, CODES, NUMERIC_VALUE_OUT_OF_RANGE, pack_error

INTERVAL_ARITHMETIC_OVERFLOW = CODES["INTERVAL_ARITHMETIC_OVERFLOW"]


def sum_or_average(
    function: str, sums: list[pa.Array], counts: np.ndarray, argument: Type, result: Type,
    place: tuple[int, int] | None,
) -> tuple[pa.Array, np.ndarray | None]:  # fmt: skip
    """`function` (sum, or avg) as `result` of `counts` values of type `argument` each, NULLs apart, which come to
    `sums`: NULL of none; and the packed errors, 0 for none (None: there is none)."""
    if function == "sum":
        values, overflow = exact.total(sums, argument, result)
    else:
        values, overflow = exact.average(sums, counts, argument, result)
    none = counts == 0
    if none.any():
        values = values.take(pa.array(np.arange(len(values)), mask=none))
    if overflow is None:
        return values, None
    overflows = INTERVAL_ARITHMETIC_OVERFLOW if argument.is_interval else ARITHMETIC_OVERFLOW
    errors: np.ndarray | int = pack_error(overflows, place)
    if function == "avg" and not argument.is_interval:  # Spark's own sum overflows, or the average alone
        _, lost = exact.total(sums, argument, decimal(min(argument.precision + 10, MAX_PRECISION), argument.scale))
        divided = pack_error(NUMERIC_VALUE_OUT_OF_RANGE, place)
        errors = divided if lost is None else np.where(lost, errors, divided)
    return values, np.where(overflow & ~none, errors, 0)

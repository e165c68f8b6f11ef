"""Dates and times counted on by a constant, but no further than to the ends of the years that there are: where a frame
begins or ends, beyond the last value or before the first, is nothing more to be found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import DATE, Type
from viewkeeper.functions.date_arithmetic import ADD_MONTHS, DATE_ADD, DATE_SUB
from viewkeeper.functions.function import Computed, Function, made
from viewkeeper.functions.intervals import PLUS_DAYS, PLUS_MICROSECONDS, PLUS_MONTHS
from viewkeeper.functions.moments import FIRST_DAY, LAST_DAY, moments_kept


def held_name(name: str, later: bool) -> str:
    """The function that is `name`, and the last (or the first) value where that raises."""
    return f"{name} or the {'last' if later else 'first'}"


def _held(function: Function, later: bool) -> Function:
    def kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
        values, beyond = function.kernel(arguments, types, zone)
        if not isinstance(beyond, np.ndarray):
            return values, None
        ends = (FIRST_DAY, LAST_DAY) if types[0] == DATE else moments_kept(types[0], zone)
        given = [each for each in arguments if isinstance(each, pa.Array | pa.ChunkedArray)]
        numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
        return made(np.where(beyond, numbers.dtype.type(ends[later]), numbers), *given), None

    return replace(function, name=held_name(function.name, later), kernel=kernel, aliases=(), raises=None)


HELD = {
    (function.name, later): _held(function, later)
    for function in (DATE_ADD, DATE_SUB, ADD_MONTHS, PLUS_DAYS, PLUS_MONTHS, PLUS_MICROSECONDS)
    for later in (False, True)
}

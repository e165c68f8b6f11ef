"""year(date or timestamp): of a TIMESTAMP, as clocks in the database's time zone show it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from viewkeeper.catalog.time_zones import to_local
from viewkeeper.catalog.types import INT, Type
from viewkeeper.functions.function import Computed, Function

_DAY_US = 86_400_000_000


def _result(types: Sequence[Type]) -> tuple[Type, tuple[Type, ...]] | None:
    return (INT, (types[0],)) if types[0].name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ") else None


def _kernel(arguments: Sequence[pa.Array], types: Sequence[Type], zone: str) -> Computed:
    (values,), (type_,) = arguments, types
    days = pc.fill_null(values, 0).to_numpy()
    if type_.name != "DATE":
        local = to_local(days, zone) if type_.name == "TIMESTAMP" else days
        days = local // _DAY_US
    years = days.astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + 1970
    null = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(years.astype(np.int32), mask=null), None


YEAR = Function("year", exp.Year, ("this",), "a DATE, TIMESTAMP or TIMESTAMP_NTZ", _result, _kernel)

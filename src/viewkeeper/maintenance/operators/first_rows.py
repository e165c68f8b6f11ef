"""The first rows of each key in an order, as a function of all rows of the key (see `by_key`)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import physical_type
from viewkeeper.maintenance.operators.keyed_rows import KeyAnswer, KeyedRows
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.key_functions import FirstRows
from viewkeeper.trace.keys import exact_codes
from viewkeeper.trace.ordering import OrderTerm, order_keys
from viewkeeper.trace.rows import Rows


def compute(function: FirstRows, sides: list[KeyedRows], operator: plan.ByKey, zone: str) -> KeyAnswer:
    """Of each key the rows from `offset` on, `limit` of them; a row of weight n stands there n times."""
    (side,) = sides
    nothing = Rows.empty([physical_type(column.type) for column in operator.columns])
    if not len(side):
        return KeyAnswer(nothing, nothing, None)
    rows = side.rows
    terms = [OrderTerm(rows.columns[t.position], t.ascending, t.nulls_first) for t in function.terms]
    # The order has all columns, but both zeros are one value in it: their bits say which stands first, in every batch.
    bits = [code for each in rows.columns if pa.types.is_floating(each.type) for code in exact_codes(each)]
    order = np.lexsort([side.key, *order_keys(terms), *bits][::-1])
    key, weights = side.key[order], rows.weights[order]
    ends = np.cumsum(weights)
    # Counted from the first row of its own key on.
    begin = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    before = np.repeat((ends - weights)[begin], np.diff(np.append(begin, len(key))))
    first, last = ends - weights - before, ends - before
    stop = last if function.limit is None else np.minimum(last, function.offset + function.limit)
    taken = stop - np.maximum(first, function.offset)
    chosen = np.flatnonzero(taken > 0)
    return KeyAnswer(Rows(rows.select(function.outputs).take(order[chosen]).columns, taken[chosen]), nothing, None)

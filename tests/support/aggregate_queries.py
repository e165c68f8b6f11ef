"""Calls of aggregates, over the columns of a table whose rows are the edges of their types."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

TABLE = ("CREATE TABLE t (id INT NOT NULL, g INT, b BOOLEAN, i INT, l BIGINT, d DOUBLE, p DECIMAL(38,2), s STRING, "
         "PRIMARY KEY (id))")  # fmt: skip
_LONG, _WIDE = 2**63 - 1, Decimal("9" * 36 + ".99")
ROWS: list[tuple[Any, ...]] = [
    (1, 0, True, 3, 5, 0.5, Decimal("1.50"), "a"), (2, 0, False, 3, None, -0.0, None, None),
    (3, 0, None, None, 7, 0.0, Decimal("-2.25"), "b"), (4, 1, True, 1, _LONG, math.nan, Decimal("0.01"), ""),
    (5, 1, True, None, _LONG, None, Decimal("9.99"), "b"), (6, 1, None, 2, -3, 4.0, _WIDE, "ä"),
    (7, None, False, 3, 1, 0.25, _WIDE, "a"), (8, None, False, -1, 1, 1e300, Decimal("0.00"), None),
    (9, 2, None, 0, None, math.inf, None, "z"), (10, 0, True, 2, 9, 1e-300, Decimal("1.50"), "B"),
    (11, 3, None, None, None, None, None, None), (12, 0, True, 2, 9, 0.125, Decimal("3.10"), "b"),
]  # fmt: skip

REWRITTEN = [
    "count_if(b)", "count_if(i > 1)", "count_if(NULL)", "count_if(DISTINCT b)", "bool_and(b)", "every(b)", "any(b)",
    "some(b)", "bool_or(b)", "every(DISTINCT b)", "bool_and(i > 0) FILTER (WHERE l > 1)", "count(i, d)",
    "count(i, s, b)", "count(DISTINCT i, d)", "regr_count(i, d)", "mean(i)", "mean(i / 2)", "try_sum(l)",
    "try_sum(i)", "try_sum(p)", "try_avg(p)", "try_avg(i)", "try_sum(DISTINCT l)", "try_sum(d)", "regr_avgx(i, l)",
    "regr_avgy(i, p)", "regr_avgx(i, p) FILTER (WHERE p < 100)", "count_if(b) FILTER (WHERE i > 1)",
]  # fmt: skip
"""What is made of other aggregates."""

MOMENTS = [
    "variance(i)", "var_samp(p)", "var_pop(d)", "std(i)", "stddev(i * 2)", "stddev_samp(d)", "stddev_pop(l)",
    "stddev(DISTINCT i)", "var_pop(DISTINCT l)", "covar_pop(i, l)", "covar_samp(i, d)", "corr(i, l)", "corr(id, i)",
    "corr(d, i) FILTER (WHERE d < 100)", "regr_sxx(i, l)", "regr_syy(i, l)", "regr_sxy(d, l)", "regr_slope(i, id)",
    "regr_slope(i, p)", "regr_intercept(id, i)", "regr_r2(i, id)", "regr_r2(d, i) FILTER (WHERE d < 100)",
    "corr(i, id) FILTER (WHERE l > 1)", "regr_slope(d, p) FILTER (WHERE d < 100)",
]  # fmt: skip
"""What follows from sums of products."""

BY = [f"{function}({value}, {by})" for function in ("min_by", "max_by") for value in ("s", "id", "d", "p")
      for by in ("b", "i", "d", "p", "s", "struct(b, d)")]  # fmt: skip
BY += ["max_by(DISTINCT i, l) FILTER (WHERE d < 100)", "min_by(upper(s), i / 2) FILTER (WHERE (b))",
       "min_by(i + 1, CAST(id AS STRING))", "min_by(struct(d, s), b).s", "max_by(struct(d, s), l).d",
       "mode(s)", "mode(i)", "mode(p, false)", "mode(b) FILTER (WHERE l > 1)"]  # fmt: skip
"""What stands beside the least or the greatest value, or is there most often; many are tied."""

OF_ALL_VALUES = [
    "median(i)", "median(p)", "median(d)", "median(DISTINCT i)", "percentile(l, 0.3)", "percentile(i, 1)",
    "percentile(p, 0.77)", "percentile(d, 0.9) FILTER (WHERE d < 100)", "mode(s, true)", "mode(b, true)",
    "mode(i, true) FILTER (WHERE l > 1)", "mode(p, true)", "bit_and(i)", "bit_or(l)", "bit_xor(l)", "bit_xor(i)",
    "median(i / 2)", "percentile_cont(0.3) WITHIN GROUP (ORDER BY i)", "mode() WITHIN GROUP (ORDER BY s)",
    "percentile_cont(0.77) WITHIN GROUP (ORDER BY i DESC)", "percentile_cont(0.77) WITHIN GROUP (ORDER BY p DESC)",
    "percentile_disc(0.5) WITHIN GROUP (ORDER BY d)", "percentile_disc(0.6) WITHIN GROUP (ORDER BY p DESC)",
    "percentile_disc(0) WITHIN GROUP (ORDER BY l) FILTER (WHERE i > 1)", "mode() WITHIN GROUP (ORDER BY i DESC)",
    "array_join(sort_array(collect_list(s)), '|')", "array_join(sort_array(collect_set(s), false), '')",
    "get(sort_array(collect_list(l), false), 0)", "size(sort_array(collect_list(d)))",
    "size(array_sort(collect_set(d)))",
    "get(sort_array(collect_list(DISTINCT p)), 1)", "get(sort_array(array_agg(i)), 2)",
    "get(sort_array(collect_list(struct(i, s)), false), 0).s", "size(sort_array(collect_set(struct(b, d))))",
]  # fmt: skip
"""What is computed by key."""

JOINED = [
    "listagg(s) WITHIN GROUP (ORDER BY s)", "listagg(s, ', ') WITHIN GROUP (ORDER BY s DESC)",
    "string_agg(s, '-') WITHIN GROUP (ORDER BY s) FILTER (WHERE id > 2)",
]  # fmt: skip
"""Texts that are joined by key; Spark stumbles over these beside DISTINCT."""

JOINED_ONCE = ["listagg(DISTINCT s, ',') WITHIN GROUP (ORDER BY s)",
               "string_agg(DISTINCT s) WITHIN GROUP (ORDER BY s DESC)"]  # fmt: skip
"""The same, of each text once; Spark answers these alone."""

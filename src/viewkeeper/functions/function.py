"""What a scalar function is: how it is written, of which types, and how it is computed.

All are *null-intolerant*, NULL where an argument is NULL, and *strict*: every argument is evaluated, from left to
right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from sqlglot import exp

from viewkeeper.catalog.types import Type

Computed = tuple[pa.Array, np.ndarray | None]
"""Physical values, NULL where an argument is; and where (bool) the function raises, None for nowhere."""

Kernel = Callable[[Sequence[pa.Array], Sequence[Type], str], Computed]
"""Computes a batch: physical arrays of one length, their types, the database's time zone."""


@dataclass(frozen=True)
class Function:
    """A scalar function.

    `name`: Spark's, in small letters.  `node`: sqlglot's class for it, whose `parts` are the arguments, in order; those
    in `defaults` may be left out, and are then these numbers.  `result`: the type of the result for arguments of these
    types (VOID not among them), and the types that these are converted to; None where Spark's implicit conversions
    would be needed that are not admitted.  `accepts`: what it takes, for people.  `raises`: Spark's error class, None
    for a function that never raises; `may_raise` says of which result types.
    """

    name: str
    node: type[exp.Expr]
    parts: tuple[str, ...]
    accepts: str
    result: Callable[[Sequence[Type]], tuple[Type, tuple[Type, ...]] | None]
    kernel: Kernel
    defaults: tuple[tuple[str, int], ...] = ()
    raises: str | None = None
    may_raise: Callable[[Type], bool] = lambda type_: False

    def arguments(self, node: exp.Expr) -> list[exp.Expr]:
        """The arguments as they are written."""
        found = [node.args[part] for part in self.parts if node.args.get(part) is not None]
        # sqlglot puts a conversion of its own around a date that may be a text; none such is admitted.
        return [each.this if isinstance(each, exp.TsOrDsToDate) else each for each in found]

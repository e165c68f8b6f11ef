"""What somebody else computes: whole queries, and calls that no kernel of ours knows.

A call is computed once for each value of its arguments, and what was said is kept.  A rule makes a column of such a
call (`relations.ComputedColumn`), and what stood in its place reads that (`Kept`).
"""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.catalog.codec import stored
from viewkeeper.catalog.model import Column, PythonFunction, Stored
from viewkeeper.catalog.types import Type
from viewkeeper.plans.expressions import ColumnRef, Expression
from viewkeeper.plans.rewriting import walk


@stored
@dataclass(frozen=True)
class OutsideCall(Expression):
    """The root of all such calls, which may raise; `name` is what people know them by."""

    arguments: tuple[Expression, ...]
    name: str

    @property
    def way(self) -> str:
        """Who computes it, and why."""
        return f"Spark on the delta, because no kernel knows {self.name}"


@stored
@dataclass(frozen=True)
class SparkCall(OutsideCall):
    """What Spark SQL says to the expression `sql` over the columns `given`, which hold `arguments`; `version` is
    Spark's when it was declared."""

    sql: str
    version: str
    given: tuple[Column, ...]


BY_SPARK = "by spark"
"""The function of an aggregate (`relations.AggregateCall`) whose argument is a `SparkAggregate`."""


@stored
@dataclass(frozen=True)
class SparkAggregate(Expression):
    """What Spark SQL says to the aggregate `sql`, FILTER and the like included, of rows whose columns `given` hold
    `arguments`; else as `SparkCall`.  It is no call of a row's own: a rule makes columns of those of one GROUP BY
    (`relations.AskedGroups`).

    With `over`, the window in parentheses, it is `sql OVER` that for each row of a group, listed with what tells the
    row apart: `told` are the fields of a struct, behind which the value stands.  With `peers`, columns that say the
    same of a row's value, one of the rows that are equal in these is listed.
    """

    arguments: tuple[Expression, ...]
    name: str
    sql: str
    version: str
    given: tuple[Column, ...]
    over: str = ""
    told: str = ""
    peers: str = ""

    @property
    def of_call(self) -> Type:
        """The type of what `sql` gives."""
        return self.type.parts[0][1].parts[-1][1] if self.told else self.type


@stored
@dataclass(frozen=True)
class PythonCall(OutsideCall):
    """What a function of Python's gives for `arguments`."""

    function: PythonFunction

    @property
    def way(self) -> str:
        return "Python on the delta"


@stored
@dataclass(frozen=True)
class Kept(Expression):
    """What somebody else once said to a call here: `argument`, or the error `error` (BIGINT, 0: none), which is at this
    expression's place where it says no place itself."""

    argument: ColumnRef
    error: ColumnRef


@stored
@dataclass(frozen=True)
class Bits(Expression):
    """A FLOAT or DOUBLE as the whole number that has its bits: 0.0 and -0.0 are two."""

    argument: Expression


@stored
@dataclass(frozen=True)
class SparkInput:
    """What a query that Spark answers calls `name`: the rows that `stored` says, which operator `operator` writes."""

    name: str
    operator: int
    columns: tuple[Column, ...]
    stored: Stored


def outside_call_in(expression: Expression) -> OutsideCall | None:
    """The first call in `expression` of whose arguments none has another one in it."""
    for node in walk(expression):
        if isinstance(node, OutsideCall) and not any(outside_call_in(each) for each in node.arguments):
            return node
    return None

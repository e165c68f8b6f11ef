"""Calls of scalar functions in syntax trees: as they are written, where sqlglot would make something else of them.

sqlglot reads several names as one function, turns arguments round and puts conversions of its own around them.  A call
of a function that is known here is therefore a node of our own, with the name and the arguments as they stand.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokens import TokenType

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
    TINYINT,
    decimal,
)  # fmt: skip
from viewkeeper.functions.registry import BY_NAME
from viewkeeper.plans.outside import BY_SPARK

CONVERSIONS = {
    "bigint": BIGINT,
    "binary": BINARY,
    "boolean": BOOLEAN,
    "date": DATE,
    "decimal": decimal(10, 0),
    "double": DOUBLE,
    "float": FLOAT,
    "int": INT,
    "smallint": SMALLINT,
    "string": STRING,
    "timestamp": TIMESTAMP,
    "tinyint": TINYINT,
    "to_date": DATE,
    "to_timestamp": TIMESTAMP,
}
"""Functions of one argument that are a CAST to these types."""

FORMS = frozenset(
    (
        "date_part", "datepart", "extract", "if", "ifnull", "isnotnull", "isnull", "mod", "nanvl", "negative", "nullif",
        "nvl", "nvl2", "struct",
    )
)  # fmt: skip
"""Functions that are other expressions (forms.py)."""

SCALARS = frozenset(BY_NAME) | FORMS | frozenset(CONVERSIONS)
"""All names, in small letters."""

AGGREGATES = frozenset(
    (
        "any", "array_agg", "bit_and", "bit_or", "bit_xor", "bool_and", "bool_or", "collect_list", "collect_set",
        "corr", "count_if", "covar_pop", "covar_samp", "every", "listagg", "max_by", "mean", "median",
        "min_by", "mode", "percentile",
        "percentile_cont", "percentile_disc", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2",
        "regr_slope", "regr_sxx", "regr_sxy", "regr_syy", "some", "std", "stddev", "stddev_pop", "stddev_samp",
        "string_agg", "try_avg", "try_sum", "var_pop", "var_samp", "variance", BY_SPARK,
    )
)  # fmt: skip
"""Aggregates beside COUNT, SUM, AVG, MIN and MAX (aggregate_functions.py), and what stands for one that Spark computes
(outside_calls.py), whose name nobody can write."""

LISTING = frozenset(("array_agg", "collect_list", "collect_set"))
"""Those whose order is chance, unless it is sorted."""

GENERATORS = frozenset(
    (
        "explode", "explode_outer", "inline", "inline_outer", "posexplode", "posexplode_outer", "stack",
    )
)  # fmt: skip
"""Functions that give rows (bind_generators.py)."""

OPERATORS: dict[type[exp.Expr], str] = {
    exp.DPipe: "concat", exp.Like: "like", exp.ILike: "ilike", exp.RegexpLike: "rlike", exp.IntDiv: "div",
    exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^", exp.BitwiseNot: "~",
    exp.BitwiseLeftShift: "shiftleft", exp.BitwiseRightShift: "shiftright",
}  # fmt: skip
"""Operators that are functions, and which."""

IS_SIGN = "is_sign"
"""The mark in the meta of a call that was written `+x`, and not `positive(x)`."""

MARKS = "marks"
"""The words in the meta of a call's node that stand between its arguments (FROM, IN ...) instead of commas."""


def lists(name: str) -> bool:
    """Whether an aggregate gives values in the order in which rows come."""
    return name.lower() in LISTING


class ScalarCall(exp.Expression, exp.Func):
    """`this`: the name in small letters."""

    arg_types = {"this": True, "expressions": False}  # noqa: RUF012 - sqlglot's own way
    is_var_len_args = True

    @property
    def name(self) -> str:
        return str(self.args["this"])


class AggregateFunction(exp.Expression, exp.AggFunc):
    """`this`: the name in small letters; DISTINCT is a node around the arguments."""

    arg_types = {"this": True, "expressions": False}  # noqa: RUF012 - sqlglot's own way
    is_var_len_args = True

    @property
    def name(self) -> str:
        return str(self.args["this"])


class SortedCall(exp.Expression, exp.AggFunc):
    """sort_array or array_sort, `this`, of an aggregate that lists values; behind it what else it is given."""

    arg_types = {"this": True, "expressions": False}  # noqa: RUF012 - sqlglot's own way
    is_var_len_args = True

    @property
    def name(self) -> str:
        return str(self.args["this"])


class GeneratorCall(exp.Expression, exp.Func):
    """`this`: the name in small letters."""

    arg_types = {"this": True, "expressions": False}  # noqa: RUF012 - sqlglot's own way
    is_var_len_args = True

    @property
    def name(self) -> str:
        return str(self.args["this"])


def aggregate_as_written(node: exp.Expr) -> exp.Expr:
    """What sqlglot has read of a call of one of `AGGREGATES`, and FILTER or OVER behind it, with our own node."""
    here: exp.Expr = node
    while not isinstance(here, exp.Anonymous):
        if not isinstance(here.this, exp.Expr):
            return node  # a predicate such as LIKE ANY (...)
        here = here.this
    made = AggregateFunction(this=here.name.lower(), expressions=here.expressions)
    made.update_positions(here)
    if here is node:
        return made
    here.replace(made)
    return node


def call(name: str, arguments: list[exp.Expr], like: exp.Expr, marks: tuple[TokenType, ...] = ()) -> ScalarCall:
    """A call that stands where `like` does."""
    made = ScalarCall(this=name, expressions=arguments)
    made.update_positions(like)
    if marks:
        made.meta[MARKS] = marks
    return made


def has_unit(node: exp.Expr) -> bool:
    """Whether a call is of the form `dateadd(MONTH, 1, d)`, whose first argument is a word and no column."""
    if len(node.expressions) != _WITH_UNIT.get(node.name.lower()):
        return False
    unit = node.expressions[0]
    return isinstance(unit, exp.Column) and not unit.args.get("table") and unit.name.upper() in _UNITS


_WITH_UNIT = dict.fromkeys(("dateadd", "date_add", "datediff", "date_diff"), 3)
_UNITS = frozenset(
    (
        "MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "DAYOFYEAR", "WEEK", "MONTH", "QUARTER",
        "YEAR",
    )
)  # fmt: skip


def signed(operand: exp.Expr) -> ScalarCall:
    """`+operand`, which sqlglot takes for the operand alone."""
    made = call("positive", [operand], operand)
    made.meta[IS_SIGN] = True
    return made


def operands(node: exp.Expr) -> list[exp.Expr]:
    """The arguments of the function that an operator of `OPERATORS` is; of ESCAPE those of its LIKE, and the text."""
    if isinstance(node, exp.Escape):
        return [*operands(node.this), node.expression]
    return [node.this] if isinstance(node, exp.BitwiseNot) else [node.this, node.expression]


def is_negated(node: exp.Expr) -> bool:
    """Whether it is NOT LIKE or its kin."""
    return bool((node.this if isinstance(node, exp.Escape) else node).args.get("negate"))


def _lists(arguments: list[exp.Expr]) -> bool:
    """Whether the first of them is an aggregate that lists values in no order of its own."""
    return bool(arguments) and isinstance(arguments[0], AggregateFunction) and arguments[0].name in LISTING


def as_written(node: exp.Expr, written: str, first: str, marks: tuple[TokenType, ...]) -> exp.Expr | None:
    """What sqlglot has read of a call of the function `written`, as a `ScalarCall`; None where it is no such.  `first`
    is the first word in the parentheses."""
    if isinstance(node, exp.Anonymous) and written in GENERATORS:
        made = GeneratorCall(this=written, expressions=node.expressions)
        made.update_positions(node)
        return made
    if written in ("sort_array", "array_sort") and isinstance(node, exp.Anonymous) and _lists(node.expressions):
        ordered = SortedCall(this=written, expressions=node.expressions)
        ordered.update_positions(node)
        return ordered
    if isinstance(node, exp.Anonymous):
        turned = written in ("ltrim", "rtrim")  # what is trimmed stands last in these two, as in TRIM(... FROM ...)
        return call(written, node.expressions[::-1] if turned else node.expressions, node)
    if isinstance(node, exp.Trim):
        pattern = [node.expression] if node.expression else []
        by_position = {"LEADING": "ltrim", "TRAILING": "rtrim"}
        return call(by_position.get(node.args.get("position") or "", "trim"), [node.this, *pattern], node, marks)
    if isinstance(node, exp.StrPosition):
        start = [node.args["position"]] if node.args.get("position") else []
        inside = TokenType.IN in marks
        return call("locate" if inside else written, [node.args["substr"], node.this, *start], node, marks)
    if isinstance(node, exp.Substring):
        parts = [node.args[part] for part in ("this", "start", "length") if node.args.get(part) is not None]
        return call("substring" if marks else written, parts, node, marks)
    if isinstance(node, exp.Extract):
        return call("extract", [exp.Literal.string(first), node.expression], node, marks)
    return None

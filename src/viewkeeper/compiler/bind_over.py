"""Window functions as they are written: `function(...) OVER (PARTITION BY ... ORDER BY ... frame)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from viewkeeper.catalog.types import DOUBLE, INT, VOID
from viewkeeper.compiler.aggregates import UngroupedCall
from viewkeeper.compiler.calls import AggregateFunction
from viewkeeper.compiler.coercion import common_type
from viewkeeper.compiler.conversion import Refused, converted
from viewkeeper.compiler.range_bounds import BoundTexts, Offset, bound_texts, offsets_of, range_bounds, terms_of
from viewkeeper.compiler.supported import FUNCTIONS
from viewkeeper.errors import NotSupported
from viewkeeper.plans.expressions import Expression, Literal, TextPlace
from viewkeeper.plans.outside import BY_SPARK
from viewkeeper.plans.relations import OF_FRAMES, Frame
from viewkeeper.plans.rewriting import walk
from viewkeeper.plans.value_functions import needs_all_values

WHOLE = Frame("ROWS", None, None)
_UP_TO_HERE = Frame("ROWS", None, 0)
_DEFAULT = Frame("RANGE", None, 0)

RANKS: dict[type[exp.Expr], str] = {
    exp.RowNumber: "row_number", exp.Rank: "rank", exp.DenseRank: "dense_rank", exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist", exp.Ntile: "ntile",
}  # fmt: skip
SHIFTS: dict[type[exp.Expr], str] = {exp.Lag: "lag", exp.Lead: "lead"}
AT_ENDS: dict[type[exp.Expr], str] = {
    exp.FirstValue: "first_value", exp.First: "first_value", exp.AnyValue: "first_value",
    exp.LastValue: "last_value", exp.Last: "last_value",
}  # fmt: skip
VALUES = AT_ENDS | {exp.NthValue: "nth_value"}
WINDOW_FUNCTIONS = RANKS | SHIFTS | VALUES
"""Functions that stand with OVER only."""

FUNCTION_PARTS = {kind: frozenset(("this", "offset", "default")) for kind in WINDOW_FUNCTIONS}
"""What may be set in each of them."""

AROUND = (exp.IgnoreNulls, exp.RespectNulls, exp.Filter, exp.WithinGroup)
"""What may stand between a function and OVER."""


@dataclass(frozen=True)
class OverForm:
    """What is written in a window function beside expressions: each term of its order as (ascending, NULLs first), its
    frame, and its constant, if it has one; `texts` are the bounds of a RANGE frame that Spark counts."""

    terms: tuple[tuple[bool, bool], ...]
    frame: Frame
    number: int | None
    ignore_nulls: bool
    texts: BoundTexts = (None, None)


@dataclass(frozen=True)
class WindowedCall(Expression):
    """A window function within an expression, before `over.windowed` takes it out."""

    function: str
    arguments: tuple[Expression, ...]
    partition: tuple[Expression, ...]
    order: tuple[Expression, ...]
    bounds: tuple[Expression | None, Expression | None]
    form: OverForm
    name: str = field(compare=False)


def has_window(expression: Expression) -> bool:
    return any(isinstance(node, WindowedCall) for node in walk(expression))


def function_of(node: exp.Window) -> exp.Expr:
    """The function's own node."""
    inner = node.this
    function = inner.this if isinstance(inner, AROUND) else inner
    assert isinstance(function, exp.Expr)
    return function


def window_of(node: exp.Window) -> exp.Window:
    """Where PARTITION BY, ORDER BY and the frame stand: here, or in the WINDOW clause.  Raises Refused."""
    select = node.find_ancestor(exp.Select)
    named = {each.name: each for each in (select.args.get("windows") or () if select is not None else ())}
    seen: set[str] = set()
    while node.args.get("alias") is not None:
        name = node.args["alias"].name
        if name not in named or name in seen:
            raise Refused(f"there is no window {name} in the WINDOW clause")
        if any(node.args.get(part) for part in ("partition_by", "order", "spec")):
            raise Refused("a window that names another one is that, and has nothing of its own")
        seen.add(name)
        node = named[name]
    return node


def windowed_call(
    node: exp.Window, bind: Callable[[exp.Expr], Expression], place: TextPlace | None, name: str, zone: str
) -> WindowedCall:
    """The call that `node` is; `bind` binds expressions in it.  Raises Refused."""
    window = window_of(node)
    partition = tuple(bind(each) for each in window.args.get("partition_by") or ())
    terms = terms_of(window)
    order = tuple(bind(term.this) for term in terms)
    if any(each.type == VOID for each in (*partition, *order)):
        raise Refused("NULL puts rows in no order; leave it out", NotSupported)
    directions = tuple((not term.args.get("desc"), bool(term.args.get("nulls_first"))) for term in terms)
    function, ignore, frame = function_of(node), isinstance(node.this, exp.IgnoreNulls), _frame(window)
    kind = type(function)
    texts: BoundTexts = (None, None)
    bounds: tuple[Expression | None, Expression | None]
    if kind is AggregateFunction and function.name == BY_SPARK:
        bounds, texts = (None, None), bound_texts(window)
    else:
        bounds = range_bounds(node, window, order, bind, zone)
    if kind in FUNCTIONS or kind is AggregateFunction:
        if isinstance(node.this, (exp.IgnoreNulls, exp.RespectNulls)) or function.find(exp.Distinct):
            raise Refused("an aggregate OVER a window takes neither NULLS nor DISTINCT", NotSupported)
        call = bind(node.this)
        assert isinstance(call, UngroupedCall)
        of_partition = needs_all_values(call.function) and not order and frame is None
        if not (call.function in (*OF_FRAMES, BY_SPARK) or of_partition):
            raise Refused("such an aggregate OVER a window is not supported yet", NotSupported)
        arguments: tuple[Expression, ...] = () if call.argument is None else (call.argument,)
        form = OverForm(directions, _given(frame, bool(order)), None, False, texts)
        return WindowedCall(call.type, call.nullable, place, call.function, arguments, partition, order, bounds,
                            form, name)  # fmt: skip
    called = WINDOW_FUNCTIONS[kind]
    if kind not in VALUES:
        if not order:
            raise Refused(f"{called} needs an ORDER BY in OVER (...)")
        if window.args.get("spec") is not None:
            raise Refused(f"{called} has a frame of its own; leave it out", NotSupported)
    if kind in RANKS:
        if ignore:
            raise Refused(f"{called} looks at no values: it takes no IGNORE NULLS", NotSupported)
        number = _number(function, 1, 1, "this") if kind is exp.Ntile else None
        type_ = DOUBLE if kind in (exp.PercentRank, exp.CumeDist) else INT
        form = OverForm(directions, _UP_TO_HERE, number, False)
        return WindowedCall(type_, False, place, called, (), partition, order, bounds, form, name)
    if kind in VALUES:
        number = _number(function, 1, 1) if kind is exp.NthValue else None
        form = OverForm(directions, _given(frame, bool(order)), number, ignore)
        arguments, nullable = (_value(function, bind),), True
    else:
        number = _number(function, 1, None) * (-1 if kind is exp.Lag else 1)
        if ignore and (number == 0 or (number > 0) == (kind is exp.Lag)):
            raise Refused(f"{called} with IGNORE NULLS takes a number above 0", NotSupported)
        form = OverForm(directions, Frame("ROWS", number, number), abs(number), ignore)
        arguments, nullable = _shifted(called, function, bind, zone)
    return WindowedCall(arguments[0].type, nullable, place, called, arguments, partition, order, bounds, form, name)


def _shifted(
    called: str, function: exp.Expr, bind: Callable[[exp.Expr], Expression], zone: str
) -> tuple[tuple[Expression, ...], bool]:
    """The value of LAG or LEAD, with the default behind it where it has one, and whether it may be NULL."""
    value = _value(function, bind)
    default = bind(function.args["default"]) if function.args.get("default") is not None else None
    if default is None or default.type == VOID:
        return (value,), True
    plain = isinstance(default, Literal) and default.type.is_integer and value.type.is_number
    if not plain and common_type(default.type, value.type) != value.type:
        raise Refused(f"the default of {called} is of another type than its value; write a CAST", NotSupported)
    return (value, converted(default, value.type, zone)), value.nullable or default.nullable


def _value(function: exp.Expr, bind: Callable[[exp.Expr], Expression]) -> Expression:
    if function.this is None:
        raise Refused(f"{WINDOW_FUNCTIONS[type(function)]} needs an argument")
    value = bind(function.this)
    if value.type == VOID:
        raise Refused("a value that is always NULL has no type; leave it out", NotSupported)
    return value


def _number(function: exp.Expr, default: int, least: int | None, part: str = "offset") -> int:
    """The constant of a function."""
    node = function.args.get(part)
    sign = 1
    if isinstance(node, exp.Neg):
        node, sign = node.this, -1
    if node is None:
        return default
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdigit():
        raise Refused(f"{WINDOW_FUNCTIONS[type(function)]} takes a whole number there", NotSupported)
    number = sign * int(node.name)
    if (least is not None and number < least) or abs(number) >= 1 << 31:
        raise Refused(f"{WINDOW_FUNCTIONS[type(function)]} takes a number from {least or -(2**31) + 1} on there")
    return number


def _given(frame: Frame | None, ordered: bool) -> Frame:
    return frame if frame is not None else _DEFAULT if ordered else WHOLE


def _frame(window: exp.Window) -> Frame | None:
    spec = window.args.get("spec")
    if spec is None:
        return None
    unit = str(spec.args["kind"]).upper()
    if unit not in ("ROWS", "RANGE"):
        raise Refused(
            f"Spark has no {unit} frames; write ROWS or RANGE, or dense_rank() in a subquery and RANGE over it"
        )
    start = _bound(spec, "start", unit)
    end = _bound(spec, "end", unit) if spec.args.get("end") is not None else 0
    terms = terms_of(window)
    if unit == "RANGE" and not terms:
        raise Refused("a RANGE frame needs an ORDER BY")
    if start is not None and end is not None and start > end:
        raise Refused("a frame begins before it ends")
    return Frame(unit, start, end)


def _bound(spec: exp.Expr, part: str, unit: str) -> int | None:
    """How far away it is; None for UNBOUNDED."""
    value, side = spec.args.get(part), str(spec.args.get(f"{part}_side") or "").upper()
    if isinstance(value, str):
        if value.upper() == "CURRENT ROW":
            return 0
        if side != ("PRECEDING" if part == "start" else "FOLLOWING"):
            raise Refused("a frame begins before it ends")
        return None
    if unit == "RANGE":
        return 0  # of the order's values: `range_bounds`
    if not isinstance(value, exp.Literal) or value.is_string or not value.name.isdigit():
        raise Refused(f"such a bound of a {unit} frame is not supported yet", NotSupported)
    if int(value.name) >= 1 << 31:
        raise Refused("a frame reaches 2147483647 rows far at most")
    return int(value.name) if side == "FOLLOWING" else -int(value.name)


def over_name(called: str, node: exp.Window, name: Callable[[exp.Expr], str]) -> str:
    """Spark's name of an output that is a window function, `called` being the call's own."""
    window = window_of(node)
    parts = []
    if window.args.get("partition_by"):
        parts.append(f"PARTITION BY {', '.join(map(name, window.args['partition_by']))}")
    terms = terms_of(window)
    if terms:
        parts.append(f"ORDER BY {', '.join(_term_name(term, name) for term in terms)}")
    parts.append(_frame_name(node, window, name))
    return f"{called} OVER ({' '.join(parts)})"


def _term_name(term: exp.Ordered, name: Callable[[exp.Expr], str]) -> str:
    nulls = "FIRST" if term.args.get("nulls_first") else "LAST"
    return f"{name(term.this)} {'DESC' if term.args.get('desc') else 'ASC'} NULLS {nulls}"


def _frame_name(node: exp.Window, window: exp.Window, name: Callable[[exp.Expr], str]) -> str:
    function = function_of(node)
    if isinstance(function, (exp.Lag, exp.Lead)):
        number = _number(function, 1, None) * (-1 if isinstance(function, exp.Lag) else 1)
        return f"ROWS BETWEEN {number} FOLLOWING AND {number} FOLLOWING"
    given = _frame(window)
    if given is None and type(function) in RANKS:
        given = _DEFAULT if isinstance(function, exp.CumeDist) else _UP_TO_HERE
    frame = _given(given, bool(terms_of(window)))
    names = [_bound_name(bound, side, offset, name) for bound, side, offset in
             zip((frame.start, frame.end), ("PRECEDING", "FOLLOWING"), offsets_of(window), strict=True)]  # fmt: skip
    return f"{frame.unit} BETWEEN {' AND '.join(names)}"


def _bound_name(bound: int | None, open_: str, offset: Offset | None, name: Callable[[exp.Expr], str]) -> str:
    if offset is not None:
        return f"{name(offset.node)} {'PRECEDING' if offset.sign < 0 else 'FOLLOWING'}"
    if bound is None:
        return f"UNBOUNDED {open_}"
    return "CURRENT ROW" if bound == 0 else f"{abs(bound)} {'PRECEDING' if bound < 0 else 'FOLLOWING'}"


_CALLED: dict[type[exp.Expr], str] = {
    exp.Rank: "RANK", exp.DenseRank: "DENSE_RANK", exp.PercentRank: "PERCENT_RANK", exp.First: "first",
    exp.Last: "last", exp.AnyValue: "any_value",
}  # fmt: skip


def call_name(function: exp.Expr, ignore: bool, name: Callable[[exp.Expr], str]) -> str:
    """How Spark writes a call of a function that stands with OVER only."""
    kind = type(function)
    called = _CALLED.get(kind, WINDOW_FUNCTIONS[kind])
    if kind is exp.Ntile:
        return f"ntile({_number(function, 1, 1, 'this')})"
    if kind in RANKS:
        return f"{called}()"
    arguments: Sequence[str] = [name(function.this)]
    if kind not in AT_ENDS:
        arguments = [*arguments, str(_number(function, 1, None))]
    if kind in SHIFTS:
        default = function.args.get("default")
        arguments = [*arguments, "NULL" if default is None else name(default)]
    nulls = " ignore nulls" if ignore and kind is exp.NthValue else ""
    return f"{called}({', '.join(arguments)}){nulls}"

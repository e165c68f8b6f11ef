"""RANGE frames that reach so far in values of the order: `RANGE BETWEEN INTERVAL 7 DAY PRECEDING AND CURRENT ROW`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from viewkeeper.catalog.types import DATE, INT, INTEGER_BITS, Type
from viewkeeper.compiler.conversion import Refused, arithmetic, cast_to
from viewkeeper.compiler.intervals import timed
from viewkeeper.errors import NotSupported
from viewkeeper.functions.ends_of_years import HELD, held_name
from viewkeeper.plans.expressions import Expression, FunctionCall, Literal

BoundTexts = tuple[str | None, str | None]
"""Where a frame begins and ends, in SQL; None where it is not so far away in values."""


@dataclass(frozen=True)
class Offset:
    """How far away a bound is, as it is written, and on which side: -1 PRECEDING, 1 FOLLOWING."""

    node: exp.Expr
    sign: int


def terms_of(window: exp.Window) -> list[exp.Ordered]:
    order = window.args.get("order")
    return list(order.expressions) if order is not None else []


def offsets_of(window: exp.Window) -> tuple[Offset | None, Offset | None]:
    """Where a RANGE frame begins and ends, if that is so far away."""
    spec = window.args.get("spec")
    if spec is None or str(spec.args["kind"]).upper() != "RANGE":
        return None, None
    start, end = (_offset(spec, part) for part in ("start", "end"))
    return start, end


def bound_texts(window: exp.Window) -> BoundTexts:
    """How the bounds of a RANGE frame are written, where they reach so far in values, for Spark.  Raises Refused."""
    start, end = (None if each is None else _text(each) for each in offsets_of(window))
    return start, end


def _text(offset: Offset) -> str:
    node = offset.node
    if not isinstance(node, exp.Interval) and not (isinstance(node, exp.Literal) and not node.is_string):
        raise Refused("such a bound of a RANGE frame is not supported yet", NotSupported)
    return f"{node.sql('spark')} {'PRECEDING' if offset.sign < 0 else 'FOLLOWING'}"


def _offset(spec: exp.Expr, part: str) -> Offset | None:
    node = spec.args.get(part)
    if not isinstance(node, exp.Expr):
        return None
    return Offset(node, -1 if str(spec.args.get(f"{part}_side")).upper() == "PRECEDING" else 1)


def range_bounds(
    node: exp.Window, window: exp.Window, order: Sequence[Expression], bind: Callable[[exp.Expr], Expression], zone: str
) -> tuple[Expression | None, Expression | None]:
    """The values of the order at which the frame of a row begins and ends; None where it says no value.

    Spark adds the offset to the row's own value, in the order's type (`RangeBoundOrdering`).  Raises Refused.
    """
    offsets = offsets_of(window)
    if offsets == (None, None):
        return None, None
    if len(order) != 1:
        raise Refused("a RANGE frame that reaches so far in values needs one term in ORDER BY")
    by, descending = order[0], bool(terms_of(window)[0].args.get("desc"))
    found = [None if each is None else (each.sign, _distance(bind(each.node), by.type)) for each in offsets]
    known = [each for each in found if each is not None]
    types, numbers = {far.type for _, far in known}, all(far.type.is_number for _, far in known)
    if len(types) > 1 and not numbers:
        raise Refused("the two bounds of a RANGE frame are of different types", NotSupported)
    reach = [sign * far.value for sign, far in known]
    if reach[0] > reach[-1]:
        raise Refused("a frame begins before it ends")
    if numbers and by.type != DATE and types != {by.type}:
        item = node.find_ancestor(exp.Alias, exp.Qualify, exp.Order, exp.Select)
        if isinstance(item, exp.Select):
            raise Refused("Spark names this by a cast of the bound; give the output an alias", NotSupported)
    low, high = (None if each is None else _moved(by, each[1], (each[0] > 0) != descending, zone) for each in found)
    here = 0 * reach[0]
    if low is not None and reach[0] <= here:
        low = _held(low, by, descending)
    if high is not None and reach[-1] >= here:
        high = _held(high, by, not descending)
    return low, high


def _held(bound: Expression, by: Expression, later: bool) -> Expression:
    """`bound`, on the side of the row to which the frame opens: no further than to the last (the first) value that
    there is, behind which there is no row.  Spark counts on beyond the years, and so finds none."""
    if bound is by or not isinstance(bound, FunctionCall) or (bound.function, later) not in HELD:
        return bound
    moved = _held(bound.arguments[0], by, later)
    return replace(bound, function=held_name(bound.function, later), arguments=(moved, *bound.arguments[1:]))


def _distance(offset: Expression, by: Type) -> Literal:
    """The constant that `offset` is, where values of `by` can be counted on by it natively."""
    if not isinstance(offset, Literal) or offset.value is None:
        raise Refused("such a bound of a RANGE frame is not supported yet", NotSupported)
    of = offset.type
    if by == DATE:
        fits = of == INT or of == Type("INTERVAL DAY") or of.is_month_interval
    elif by.name.startswith("TIMESTAMP"):
        fits = of.is_interval
    elif by.is_integer:
        fits = of.is_integer and abs(offset.value) < 1 << (INTEGER_BITS[by.name] - 1)
    elif by.is_decimal:
        fits = of.is_integer or (of.is_decimal and of.scale <= by.scale)
    else:
        fits = by == of or (by.is_float and of.is_number)
    if not fits:
        raise Refused(f"a bound of type {of} beside an order of type {by} is not supported yet", NotSupported)
    return offset


def _moved(by: Expression, far: Literal, later: bool, zone: str) -> Expression:
    """`by` so far on, or back: in its own type, into which Spark casts numbers."""
    operator = "+" if later else "-"
    moved = timed(operator, by, far, by.place, zone)
    if moved is None:
        moved = arithmetic(operator, by, cast_to(far, by.type, far.place), by.place, zone)
    return moved

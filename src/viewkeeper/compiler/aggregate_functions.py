"""Aggregates beside COUNT, SUM, AVG, MIN and MAX: what each is made of, typed as Spark types it.

What Spark takes and we do not is refused as not supported, so that Spark answers it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from sqlglot import exp

from viewkeeper.catalog.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, VOID, Type, array_of, of_parts
from viewkeeper.compiler.aggregates import (
    UngroupedCall,
    call,
    counted_together,
    distinct_call,
    only_where,
    together,
)  # fmt: skip
from viewkeeper.compiler.calls import LISTING, AggregateFunction, SortedCall
from viewkeeper.compiler.conversion import Refused, converted
from viewkeeper.compiler.forms import bound_call
from viewkeeper.errors import NotSupported
from viewkeeper.functions.nested_order import has_order
from viewkeeper.plans.expressions import Coalesce, Expression, IsNull, Literal, Not, TextPlace, unless_null
from viewkeeper.plans.outside import BY_SPARK
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.rewriting import identity
from viewkeeper.plans.value_functions import EXTREMES_BY, fraction_of, joined_name, list_name, percentile_name


@dataclass(frozen=True)
class WrittenAggregate:
    """A call of an aggregate: its arguments are bound; `name` is Spark's name of an output that it is."""

    function: str
    arguments: Sequence[Expression]
    distinct: bool
    name: str
    place: TextPlace | None
    zone: str


def aggregate(
    node: exp.Expr, bind: Callable[[exp.Expr], Expression], name: str, place: TextPlace | None, zone: str
) -> Expression:  # fmt: skip
    """The call of one of `calls.AGGREGATES` that `node` is, with WITHIN GROUP or sort_array around it; `bind` binds its
    arguments.  Raises Refused."""
    if isinstance(node, SortedCall):
        return _sorted(node, bind, name, place)
    inner = node.this if isinstance(node, exp.WithinGroup) else node
    assert isinstance(inner, AggregateFunction)
    function, given = inner.name, inner.expressions
    distinct = bool(given) and isinstance(given[0], exp.Distinct)
    if distinct:
        given = given[0].expressions
    if isinstance(node, exp.WithinGroup):
        terms = node.expression.expressions
        joins = function in ("listagg", "string_agg")
        if len(terms) != 1 or (distinct and not joins):
            raise Refused("WITHIN GROUP is not supported like this yet", NotSupported)
        if joins:
            return _joined(terms[0], [bind(each) for each in given], bind, distinct, name, place)
        arguments = [bind(each) for each in (terms[0].this, *given)]
        written = WrittenAggregate(function, arguments, False, name, place, zone)
        return _in_order(written, descending=bool(terms[0].args.get("desc")))
    if function == BY_SPARK:
        (asked,) = map(bind, given)
        return UngroupedCall(asked.type, asked.nullable, place, BY_SPARK, asked, name)
    if function in LISTING:
        raise Refused(f"the order of what {function} gives is chance; write sort_array({function}(...))", NotSupported)
    if function not in _MAKE:
        raise Refused(f"{function} stands with WITHIN GROUP (ORDER BY ...)", NotSupported)
    written = WrittenAggregate(function, [bind(each) for each in given], distinct, name, place, zone)
    count, make = _MAKE[function]
    if len(given) != count and (function, len(given)) != ("mode", 1):
        raise Refused(f"{function} takes {count} argument{'s' * (count > 1)} here", NotSupported)
    return make(written)


def _sorted(
    node: SortedCall, bind: Callable[[exp.Expr], Expression], name: str, place: TextPlace | None
) -> Expression:  # fmt: skip
    """sort_array(collect_list(x)): the values in order, none where there are none.  Raises Refused."""
    listing, *given = node.expressions
    ascending = given[0].this if given and isinstance(given[0], exp.Boolean) else not given
    if len(given) > 1 or not isinstance(ascending, bool) or (given and node.name == "array_sort"):
        raise Refused(f"{node.name} is not supported like this yet", NotSupported)
    distinct = isinstance(listing.expressions[0], exp.Distinct) if listing.expressions else False
    arguments = [bind(each) for each in (listing.expressions[0] if distinct else listing).expressions]
    if len(arguments) != 1 or not has_order(arguments[0].type):
        raise Refused(f"{listing.name} of such values is not supported yet", NotSupported)
    function = list_name(once=distinct or listing.name == "collect_set", descending=not ascending)
    type_ = array_of(arguments[0].type)
    made = UngroupedCall(type_, True, place, function, arguments[0], name)
    return Coalesce(type_, False, place, (made, Literal(type_, False, place, of_parts([[]], type_)[0].as_py())))


def _joined(
    term: exp.Expr, given: Sequence[Expression], bind: Callable[[exp.Expr], Expression], distinct: bool, name: str,
    place: TextPlace | None,
) -> UngroupedCall:  # fmt: skip
    """listagg([DISTINCT] x, separator) WITHIN GROUP (ORDER BY x): texts joined in their own order.  Raises Refused."""
    text, *more = given
    separator = more[0].value if more and isinstance(more[0], Literal) else None if more else ""
    if text.type != STRING or len(more) > 1 or not isinstance(separator, str):
        raise Refused("listagg takes a STRING, and a constant one between them", NotSupported)
    if identity(bind(term.this)) != identity(text):
        raise Refused("listagg in the order of something else is not supported yet", NotSupported)
    function = joined_name(separator, once=distinct, descending=bool(term.args.get("desc")))
    return UngroupedCall(STRING, True, place, function, text, name)


def _in_order(written: WrittenAggregate, *, descending: bool) -> UngroupedCall:
    """`function(...) WITHIN GROUP (ORDER BY the first argument)`.  Raises Refused."""
    if written.function == "mode" and len(written.arguments) == 1:
        plain = _mode(written)
        return replace(plain, function="mode desc") if descending else plain
    if written.function not in ("percentile_cont", "percentile_disc") or len(written.arguments) != 2:
        raise Refused(f"{written.function} WITHIN GROUP is not supported yet", NotSupported)
    plain = _percentile(written)
    fraction = fraction_of(plain.function)
    assert fraction is not None
    function = percentile_name(fraction, discrete=written.function == "percentile_disc", descending=descending)
    return replace(plain, function=function)


def _plain(of: str) -> _Make:
    """Another name of an aggregate."""

    def make(written: WrittenAggregate) -> UngroupedCall:
        if written.distinct:
            return distinct_call(of, written.arguments, written.name, written.place, written.zone)
        return call(of, written.arguments[0], written.name, written.place, written.zone)

    return make


def _tried(of: str) -> _Make:
    """SUM or AVG that is NULL where it does not fit its type."""

    def make(written: WrittenAggregate) -> UngroupedCall:
        plain = _plain(of)(written)
        return replace(plain, function=f"try_{plain.function}")

    return make


def _of_truth(of: str) -> _Make:
    """Whether all values, or any, are TRUE: the least or the greatest of them."""

    def make(written: WrittenAggregate) -> UngroupedCall:
        (truth,) = _values(written, BOOLEAN)
        return call(of, truth, written.name, written.place, written.zone)

    return make


def _count_if(written: WrittenAggregate) -> UngroupedCall:
    (condition,) = _values(written, BOOLEAN)
    counted = only_where(condition, Literal(INT, False, written.place, 1))
    function = "count_distinct" if written.distinct else "count"
    return UngroupedCall(BIGINT, False, written.place, function, counted, written.name)


def _regr_count(written: WrittenAggregate) -> UngroupedCall:
    _refuse_distinct(written)
    return counted_together(_values(written, DOUBLE), written.name, written.place)


def _regr_average(which: int) -> _Make:
    """The average of one of two values, over rows that have both."""

    def make(written: WrittenAggregate) -> UngroupedCall:
        _refuse_distinct(written)
        given = [
            each if each.type.is_number else double
            for each, double in zip(written.arguments, _values(written, DOUBLE), strict=True)
        ]
        one = unless_null([given[1 - which]], given[which])
        return call("avg", one, written.name, written.place, written.zone)

    return make


def _moment(of: str) -> _Make:
    """A moment of a value, or of two where both are there."""

    def make(written: WrittenAggregate) -> UngroupedCall:
        values = _values(written, DOUBLE)
        if len(values) == 1:
            function, argument = of + "_distinct" * written.distinct, values[0]
            return UngroupedCall(DOUBLE, True, written.place, function, argument, written.name)
        _refuse_distinct(written)
        if any(map(can_raise, values)):
            raise Refused(f"{written.function} of what can raise is not supported yet", NotSupported)
        return UngroupedCall(DOUBLE, True, written.place, of, together(values, written.place), written.name)

    return make


def _percentile(written: WrittenAggregate) -> UngroupedCall:
    """MEDIAN, or PERCENTILE at a constant fraction."""
    argument, *given = written.arguments
    if not argument.type.is_number:
        (argument,) = _values(replace(written, arguments=(argument,)), DOUBLE)
    fraction: object = given[0].value if given and isinstance(given[0], Literal) else None if given else 0.5
    if isinstance(fraction, bool) or not isinstance(fraction, (int, float, Decimal)) or not 0 <= fraction <= 1:
        raise Refused(f"{written.function} takes a constant from 0 to 1 here", NotSupported)
    function = percentile_name(float(fraction)) + "_distinct" * written.distinct
    return UngroupedCall(DOUBLE, True, written.place, function, argument, written.name)


def _mode(written: WrittenAggregate) -> UngroupedCall:
    """The value that is there most often, the least of several: without TRUE behind it, Spark takes any."""
    _refuse_distinct(written)
    argument, *more = written.arguments
    if more and not (isinstance(more[0], Literal) and isinstance(more[0].value, bool)):
        raise Refused("mode takes TRUE or FALSE as its second argument", NotSupported)
    if argument.type.is_float or argument.type == VOID:
        raise Refused(f"mode of a {argument.type} is not supported yet", NotSupported)
    return UngroupedCall(argument.type, True, written.place, "mode", argument, written.name)


def _by(written: WrittenAggregate) -> UngroupedCall:
    """The first value where the second is the least, or the greatest, of those that are not NULL."""
    value, by = written.arguments
    if not has_order(value.type) or not has_order(by.type):
        raise Refused(f"{written.function} of such values is not supported yet", NotSupported)
    named = [Literal(STRING, False, written.place, "by"), by, Literal(STRING, False, written.place, "value"), value]
    both = bound_call("named_struct", named, written.place, written.zone)
    if by.nullable:
        nothing = IsNull(BOOLEAN, False, written.place, by)
        both = only_where(Not(BOOLEAN, False, written.place, nothing), both)
    return UngroupedCall(value.type, True, written.place, written.function, both, written.name)


def _bits(written: WrittenAggregate) -> UngroupedCall:
    _refuse_distinct(written)
    (argument,) = written.arguments
    if not argument.type.is_integer:
        raise Refused(f"{written.function} needs whole numbers, not {argument.type}", NotSupported)
    return UngroupedCall(argument.type, True, written.place, written.function, argument, written.name)


def _values(written: WrittenAggregate, type_: Type) -> list[Expression]:
    """The arguments as values of `type_`, DOUBLE or BOOLEAN, where Spark makes them such."""
    for argument in written.arguments:
        if argument.type not in (type_, VOID, STRING) and not (type_ == DOUBLE and argument.type.is_number):
            raise Refused(f"{written.function} needs a {type_}, not {argument.type}", NotSupported)
    return [converted(argument, type_, written.zone) for argument in written.arguments]


def _refuse_distinct(written: WrittenAggregate) -> None:
    if written.distinct:
        raise Refused(f"{written.function} of DISTINCT values is not supported yet", NotSupported)


_Make = Callable[[WrittenAggregate], UngroupedCall]
_MAKE: dict[str, tuple[int, _Make]] = {
    "mean": (1, _plain("avg")), "try_sum": (1, _tried("sum")), "try_avg": (1, _tried("avg")),
    "count_if": (1, _count_if), **dict.fromkeys(("bool_and", "every"), (1, _of_truth("min"))),
    **dict.fromkeys(("bool_or", "any", "some"), (1, _of_truth("max"))), "regr_count": (2, _regr_count),
    **{name: (1, _moment(name)) for name in ("var_pop", "var_samp", "stddev_pop", "stddev_samp")},
    "variance": (1, _moment("var_samp")), **dict.fromkeys(("std", "stddev"), (1, _moment("stddev_samp"))),
    **{name: (2, _moment(name)) for name in ("corr", "covar_pop", "covar_samp", "regr_intercept", "regr_r2",
                                             "regr_slope", "regr_sxx", "regr_sxy", "regr_syy")},
    **dict.fromkeys(EXTREMES_BY, (2, _by)),
    "median": (1, _percentile), "percentile": (2, _percentile), "mode": (2, _mode),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), (1, _bits)),
    "regr_avgy": (2, _regr_average(0)), "regr_avgx": (2, _regr_average(1)),
}  # fmt: skip

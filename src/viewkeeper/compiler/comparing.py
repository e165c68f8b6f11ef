"""Comparisons, IN and BETWEEN; CHARs are filled up with blanks where Spark does so.

Spark fills up the shorter side where a CHAR column that has come through unchanged (`Column.declared`) is compared with
a constant or with another such column: by the operators of comparison, in `CASE x WHEN`, in USING, and in IN, if all
that is listed is constant, or all are CHAR columns.  BETWEEN, NULLIF, IN (SELECT ...), and all that is computed of such
columns, compare the texts as they are.

Source: Spark's rule ApplyCharTypePadding, and `CharVarcharUtils.addPaddingInStringComparison`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from viewkeeper.catalog.types import BOOLEAN, INT, STRING, VOID, Type
from viewkeeper.compiler.conversion import Refused, compared, to_common
from viewkeeper.compiler.forms import called
from viewkeeper.errors import NotSupported
from viewkeeper.evaluation.evaluate import evaluate
from viewkeeper.functions.registry import FUNCTIONS
from viewkeeper.plans.expressions import (
    And,
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    ColumnRef,
    Compare,
    Expression,
    FunctionCall,
    In,
    Literal,
    Negate,
    Or,
    OuterColumn,
    TextPlace,
    declared_of,
)
from viewkeeper.plans.rewriting import walk


def comparison_of(
    operator: str, left: Expression, right: Expression, place: TextPlace | None, zone: str
) -> Compare:  # fmt: skip
    """`left operator right`, as Spark compares them."""
    left, right = filled_up([left, right], zone)
    return compared(operator, left, right, place, zone)


def listed(parts: Sequence[Expression], place: TextPlace | None, zone: str) -> Expression:
    """The first of `parts` IN the others."""
    if not any(part.type == VOID for part in parts):
        parts = filled_up(parts, zone)
    argument, *options = to_common(list(parts), "IN", zone)
    nullable = any(part.nullable for part in (argument, *options))
    if all(isinstance(option, Literal) for option in options):
        return In(BOOLEAN, nullable, place, argument, tuple(options))
    tests = tuple(compared("=", argument, option, place, zone) for option in options)
    return tests[0] if len(tests) == 1 else Or(BOOLEAN, nullable, place, tests)


def between(
    value: Expression, low: Expression, high: Expression, place: TextPlace | None, zone: str
) -> Expression:  # fmt: skip
    """`value BETWEEN low AND high`."""
    both = (compared(">=", value, low, place, zone), compared("<=", value, high, place, zone))
    return And(BOOLEAN, any(each.nullable for each in both), place, both)


def filled_up(parts: Sequence[Expression], zone: str) -> list[Expression]:
    """What a comparison compares: the first of `parts` with the others; CHARs, and what is compared with them, all
    of one length."""
    declared = [declared_of(part) for part in parts]
    columns = [i for i, each in enumerate(declared) if each is not None]
    if not any(_has_char(each) for each in declared if each is not None):
        return list(parts)
    if len(columns) == len(parts):
        _refuse_other_lengths({str(each): each for each in declared if each is not None})
        lengths = [each.precision for each in declared if each is not None and each.name == "CHAR"]
        return _all_filled(parts, lengths, zone) if len(lengths) == len(parts) else list(parts)
    first, others = columns[0], [part for i, part in enumerate(parts) if i != columns[0]]
    of = declared[first]
    alone = len(columns) == 1 and (first == 0 or len(parts) == 2) and of is not None and of.name == "CHAR"
    if not alone or any(part.type != STRING for part in parts) or not all(map(_is_constant, others)):
        return list(parts)
    given = [of.precision if of is not None and i == first else _length(part, zone) for i, part in enumerate(parts)]
    return _all_filled(parts, given, zone)


def _has_char(declared: Type) -> bool:
    return declared.name == "CHAR" or any(_has_char(part) for _, part in declared.parts)


def _refuse_other_lengths(declared: Mapping[str, Type]) -> None:
    if len(declared) > 1 and any(each.is_nested for each in declared.values()):
        message = f"{' and '.join(declared)} are compared by Spark, which fills up the CHARs in them"
        raise Refused(message, NotSupported)


def _is_constant(expression: Expression) -> bool:
    """Whether it is one to Spark, too."""
    nodes = list(walk(expression))
    if all(isinstance(node, _OF_CONSTANTS) for node in nodes):
        return True
    if any(isinstance(node, Case) for node in nodes) and not any(map(_is_of_rows, nodes)):
        raise Refused("whether this is a constant, which is filled up for a CHAR, Spark knows", NotSupported)
    return False


_OF_CONSTANTS = (Literal, Cast, FunctionCall, Coalesce, Arithmetic, Negate)


def _is_of_rows(node: Expression) -> bool:
    return isinstance(node, ColumnRef | OuterColumn)


def _length(constant: Expression, zone: str) -> int | None:
    """The characters of a constant; None of NULL."""
    values, errors = evaluate(constant, (), 1, zone=zone)
    if errors is not None:
        raise Refused("a constant that raises, beside a CHAR", NotSupported)
    text = values[0].as_py()
    return None if text is None else len(text)


def _all_filled(parts: Sequence[Expression], lengths: Sequence[int | None], zone: str) -> list[Expression]:
    longest = max(length or 0 for length in lengths)
    return [_filled(part, longest, zone) if length is not None and length < longest else part
            for part, length in zip(parts, lengths, strict=True)]  # fmt: skip


def _filled(part: Expression, longest: int, zone: str) -> Expression:
    if isinstance(part, Literal):
        return replace(part, value=part.value.ljust(longest))
    given = [part, Literal(INT, False, None, longest), Literal(STRING, False, None, " ")]
    return called(FUNCTIONS["rpad"], "rpad", given, part.place, zone)

"""Expressions as SQL, for people."""

from __future__ import annotations

from collections.abc import Iterable

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
    IsNull,
    Literal,
    Negate,
    Not,
    OnlyRow,
    Or,
)
from viewkeeper.plans.outside import Bits, Kept, PythonCall, SparkAggregate, SparkCall


def listed(expressions: Iterable[Expression]) -> str:
    """Several, with commas between them."""
    return ", ".join(expression_text(e) for e in expressions)


def outputs_text(outputs: Iterable[Expression], names: Iterable[str]) -> str:
    """What a SELECT gives, with the names that it gives it."""
    shown = ((expression_text(output), name) for output, name in zip(outputs, names, strict=True))
    return ", ".join(text if text == name else f"{text} AS {name}" for text, name in shown)


def term_text(name: str, ascending: bool, nulls_first: bool) -> str:
    """A term of ORDER BY; what is usual is left out."""
    nulls = "" if nulls_first == ascending else f" NULLS {'FIRST' if nulls_first else 'LAST'}"
    return f"{name}{'' if ascending else ' DESC'}{nulls}"


def expression_text(expression: Expression) -> str:
    """An expression as SQL, for people; columns without a name show their position."""
    text = expression_text
    match expression:
        case ColumnRef():
            return expression.name or f"#{expression.index}"
        case Literal():
            return _literal_text(expression)
        case Compare() | Arithmetic():
            return f"({text(expression.left)} {expression.operator} {text(expression.right)})"
        case IsNull():
            return f"({text(expression.argument)} IS NULL)"
        case Not():
            return f"(NOT {text(expression.argument)})"
        case And() | Or():
            word = " AND " if isinstance(expression, And) else " OR "
            return f"({word.join(text(a) for a in expression.arguments)})"
        case In():
            return f"({text(expression.argument)} IN ({listed(expression.options)}))"
        case Case():
            branches = " ".join(f"WHEN {text(c)} THEN {text(v)}" for c, v in expression.branches)
            return f"CASE {branches} ELSE {text(expression.otherwise)} END"
        case Coalesce():
            return f"coalesce({listed(expression.arguments)})"
        case Negate():
            return f"(- {text(expression.argument)})"
        case FunctionCall():
            return f"{expression.function}({listed(expression.arguments)})"
        case OnlyRow():
            return f"only_row({text(expression.argument)})"
        case Cast():
            return f"{'try_' * expression.tried}cast({text(expression.argument)} AS {expression.type})"
        case Bits():
            return text(expression.argument)
        case Kept():
            return text(expression.argument)
        case SparkAggregate() if expression.told:
            return f"{expression.name}({listed(expression.arguments)}) OVER the rows before and behind each"
        case SparkCall() | SparkAggregate() | PythonCall():
            return f"{expression.name}({listed(expression.arguments)})"
        case _:
            raise TypeError(f"an expression without a text: {type(expression).__name__}")


def _literal_text(literal: Literal) -> str:
    value = literal.value
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if literal.type.name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        return f"{literal.type} '{value}'"
    if literal.type.is_interval:
        return f"{literal.type} {value}"
    return "'" + value.replace("'", "\\'") + "'" if isinstance(value, str) else str(value)

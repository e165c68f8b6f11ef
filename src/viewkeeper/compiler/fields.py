"""Elements of arrays, values of maps and fields of structs: `a[i]`, `m[k]`, `s.f`, `t.s.f.g`."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import INT, STRING, Type
from viewkeeper.compiler.conversion import Refused
from viewkeeper.compiler.forms import called
from viewkeeper.compiler.scope import Scope, Unresolved
from viewkeeper.errors import NotSupported
from viewkeeper.functions.nested_parts import FIELD, ITEM, VALUE
from viewkeeper.plans.expressions import Expression, Literal, TextPlace, reference_to


def dotted(node: exp.Expr) -> list[str]:
    """The names of a column as it is written, from left to right."""
    parts = node.args
    return [parts[part].name for part in ("catalog", "db", "table", "this") if parts.get(part) is not None]


def last_name(node: exp.Expr) -> str | None:
    """The last name of a column with its fields; None of all else."""
    base = node
    while isinstance(base, (exp.Dot, exp.Paren)):
        base = base.this
    last = node.expression if isinstance(node, exp.Dot) else node
    return str(last.name) if isinstance(base, exp.Column) and not isinstance(base.this, exp.Star) else None


def is_plain(scope: Scope, node: exp.Expr) -> bool:
    """Whether it is a column without fields."""
    return isinstance(node, exp.Column) and shown(scope, node) == node.name


def found_in(scope: Scope, node: exp.Expr) -> tuple[int, Column, list[str]]:
    """The position in the joined row, and the column, that a name begins with, and the fields that follow; a table's
    name comes before a column's.  Raises Unresolved."""
    names = dotted(node)
    problem: Unresolved | None = None
    for table, name, fields in ((names[0], names[1:2], names[2:]), (None, names[:1], names[1:])):
        if name:
            try:
                index, column = scope.resolve(name[0], table)
            except Unresolved as unresolved:
                problem = problem or unresolved
                if unresolved.several:
                    break
            else:
                if not fields or column.type.is_nested:
                    return index, column, fields
    raise problem or Unresolved(f"there is no column {'.'.join(names)}")


def is_sparks(scope: Scope, node: exp.Expr) -> bool:
    """Whether a name that means nothing here may mean something to Spark: a field of a column, what `window(...)` in
    GROUP BY is called, or a function that needs no parentheses."""
    names = dotted(node)
    return any(map(scope.is_nested, names[:-1])) or any(name.lower() in _NAMES_OF_SPARK for name in names)


_NAMES_OF_SPARK = frozenset(("window", "session_window", "user", "session_user", "grouping__id"))


def reference(scope: Scope, node: exp.Expr, place: TextPlace | None) -> Expression:
    """What a name means for the rows of `scope`; raises Unresolved, and Refused for a field that is not there."""
    index, column, fields = found_in(scope, node)
    named = dotted(node)[-1 - len(fields)]
    return with_fields(reference_to(column, index, place, named), fields, place)


def shown(scope: Scope, node: exp.Expr) -> str:
    """How Spark writes a column within other expressions: without its table, with its fields."""
    names = dotted(node)
    try:
        fields = found_in(scope, node)[2]
    except Unresolved:
        return names[-1]
    return ".".join(names[-1 - len(fields) :])


def with_fields(value: Expression, fields: Sequence[str], place: TextPlace | None) -> Expression:
    """`value.f.g`; raises Refused."""
    for name in fields:
        value = field(value, name, place)
    return value


def field(value: Expression, name: str, place: TextPlace | None) -> Expression:
    """`value.name`: of a struct, of each struct of an array, or what a map has for a text."""
    type_ = value.type
    if type_.name == "MAP":
        return called(VALUE, name, [value, Literal(STRING, False, place, name)], place, "UTC")
    structs: Type = type_.parts[0][1] if type_.name == "ARRAY" else type_
    if structs.name != "STRUCT":
        raise Refused(f"{name} is no field of a value of type {type_}", NotSupported)
    found = [i for i, (each, _) in enumerate(structs.parts) if each.lower() == name.lower()]
    if len(found) != 1:
        there = ", ".join(each for each, _ in structs.parts)
        raise Refused(f"there is {'more than one' if found else 'no'} field {name}; there is {there}", NotSupported)
    return called(FIELD, name, [value, Literal(INT, False, place, found[0])], place, "UTC")


def item(value: Expression, index: Expression, place: TextPlace | None, zone: str) -> Expression:
    """`value[index]`; raises Refused."""
    return called(VALUE if value.type.name == "MAP" else ITEM, "[]", [value, index], place, zone)


def struct_arguments(
    nodes: Sequence[exp.Expr], values: Sequence[Expression], place: TextPlace | None
) -> list[Expression]:  # fmt: skip
    """The arguments of the named_struct that `struct(nodes)` is: fields are called as columns are, or by number."""
    made: list[Expression] = []
    for i, (node, value) in enumerate(zip(nodes, values, strict=True)):
        name = node.alias if isinstance(node, exp.Alias) else node.name if _is_named(node) else f"col{i + 1}"
        made += [Literal(STRING, False, place, name), value]
    return made


def _is_named(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Column, exp.Dot))

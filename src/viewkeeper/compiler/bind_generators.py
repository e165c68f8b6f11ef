"""explode and its kin: in the SELECT list, behind LATERAL VIEW, and as `LATERAL explode(a)` in FROM.

All of them are one: an array (or a map, an array of its entries) whose elements stand beside its row, one each; what is
shown of an element follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import INT, STRING, VOID, Type, struct_of
from viewkeeper.compiler.calls import GeneratorCall
from viewkeeper.compiler.conversion import Refused, to_common
from viewkeeper.compiler.forms import called
from viewkeeper.compiler.scope import PLACE, FromItem, Scope, shown_of
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.errors import NotSupported
from viewkeeper.functions.nested_parts import FIELD
from viewkeeper.functions.registry import FUNCTIONS
from viewkeeper.plans.expressions import ColumnRef, Expression, Literal, TextPlace, reference_to
from viewkeeper.plans.relations import Constants, Explode, Project, Relation
from viewkeeper.plans.rewriting import renumber

_OUTER = "_outer"


@dataclass(frozen=True)
class Generator:
    """The rows that `argument`, an array or map, has for each row; without any, one of NULLs where it is `outer`.

    Shown are the place of an element, if `placed`, and it or (`apart`) its fields.
    """

    argument: Expression
    outer: bool
    placed: bool
    apart: bool
    place: TextPlace | None

    @property
    def shown(self) -> tuple[Column, ...]:
        """What is shown, with Spark's names."""
        element = _element(self.argument.type)
        place = [Column("pos", INT, self.outer)] if self.placed else []
        if not self.apart:
            return (*place, Column("col", element))
        return (*place, *(Column(name, type_) for name, type_ in element.parts))

    @property
    def columns(self) -> tuple[Column, ...]:
        """The same, and behind it the place of the element, if that is not shown: it tells equal ones apart."""
        return self.shown if self.placed else (*self.shown, Column(PLACE, INT, self.outer))

    def over(self, rows: Relation) -> Relation:
        """`rows` with these columns behind their own."""
        own = [reference_to(c, i) for i, c in enumerate(rows.columns)]
        names = tuple(column.name for column in rows.columns)
        if isinstance(self.argument, ColumnRef):
            exploded = Explode(rows, self.argument.index, self.outer)
        else:
            computed = Project(rows, (*own, self.argument), (*names, "argument"))
            exploded = Explode(computed, len(own), self.outer)
        *_, place, element = (reference_to(c, i) for i, c in enumerate(exploded.columns))
        shown: list[Expression] = [place] if self.placed else []
        for i in range(len(self.shown) - self.placed):
            number = Literal(INT, False, None, i)
            shown.append(called(FIELD, "field", [element, number], self.place, "UTC") if self.apart else element)
        shown += [] if self.placed else [place]
        return Project(exploded, (*own, *shown), (*names, *(column.name for column in self.columns)))


def _element(type_: Type) -> Type:
    return struct_of(type_.parts) if type_.name == "MAP" else type_.parts[0][1]


def bound_generator(
    node: GeneratorCall, bind: Callable[[exp.Expr], Expression], outer: bool, place: TextPlace | None, zone: str
) -> Generator:  # fmt: skip
    """The call of a generator; `bind` binds its arguments.  Raises Refused."""
    arguments = [bind(each) for each in node.expressions]
    name = node.name.removesuffix(_OUTER)
    outer |= name != node.name
    if name == "stack":
        return Generator(_stacked(arguments, place, zone), outer, False, True, place)
    if len(arguments) != 1:
        raise Refused(f"{node.name} takes one value", NotSupported)
    (argument,) = arguments
    type_, placed = argument.type, name == "posexplode"
    if type_.name not in ("ARRAY", "MAP") or (type_.name == "MAP" and name == "inline"):
        raise Refused(f"{node.name} takes an ARRAY or MAP, not {type_}", NotSupported)
    if type_.name == "MAP" and placed:
        raise Refused("the place of a map's entry is not supported yet", NotSupported)
    if name == "inline" and _element(type_).name != "STRUCT":
        raise Refused(f"inline takes an ARRAY of STRUCTs, not {type_}", NotSupported)
    return Generator(argument, outer, placed, type_.name == "MAP" or name == "inline", place)


def _stacked(arguments: Sequence[Expression], place: TextPlace | None, zone: str) -> Expression:
    """An array of structs: as many as the first argument says, of the others."""
    count = arguments[0].value if arguments and isinstance(arguments[0], Literal) else None
    values = list(arguments[1:])
    if not isinstance(count, int) or isinstance(count, bool) or count < 1 or not values:
        raise Refused("stack takes a constant number of rows, and values", NotSupported)
    width = -(-len(values) // count)
    values += [Literal(VOID, True, place, None)] * (count * width - len(values))
    columns = [to_common(values[i::width], "stack", zone) for i in range(width)]
    if any(each.type not in (VOID, columns[i % width][0].type) for i, each in enumerate(values)):
        raise Refused("stack of values of several types is not supported yet", NotSupported)
    structs = []
    for row in range(count):
        named = [part for i, column in enumerate(columns)
                 for part in (Literal(STRING, False, place, f"col{i}"), column[row])]  # fmt: skip
        structs.append(called(FUNCTIONS["named_struct"], "stack", named, place, zone))
    return called(FUNCTIONS["array"], "stack", structs, place, zone)


@dataclass(frozen=True)
class LateralItem:
    """A generator behind FROM, and the item that it is to the names of a query."""

    generator: Generator
    item: FromItem

    def moved(self, at: dict[int, int]) -> Generator:
        """The generator over columns that have moved."""
        old = self.generator
        return Generator(renumber(old.argument, at), old.outer, old.placed, old.apart, old.place)


def lateral_item(
    query: QueryText, node: exp.Expr, bind: Callable[[exp.Expr], Expression], offset: int, zone: str
) -> LateralItem:  # fmt: skip
    """What `node`, a LATERAL, is; `bind` binds over what stands before it."""
    call, alias = node.this, node.args.get("alias")
    try:
        generator = bound_generator(call, bind, bool(node.args.get("outer")), query.place(call), zone)
    except Refused as refused:
        raise query.error(str(refused), node, refused.kind) from None
    names = tuple(column.name for column in generator.shown)
    given = tuple(column.name for column in alias.args.get("columns") or ()) if alias is not None else ()
    if given and len(given) != len(names):
        raise query.error(f"{call.name} gives {len(names)} columns, and there are {len(given)} names", node)
    relation = Constants((), generator.columns)
    return LateralItem(generator, _from_item(alias, relation, given or names, offset))


def _from_item(alias: exp.Expr | None, relation: Constants, shown: tuple[str, ...], offset: int) -> FromItem:
    hidden = len(relation.columns) - len(shown)
    return FromItem(alias.name if alias is not None else "", relation, shown + (PLACE,) * hidden, offset, hidden)


def with_item(scope: Scope, item: FromItem) -> Scope:
    """`scope` with one more item behind all others."""
    return Scope([*scope.items, item], scope.merged, [*scope.shown, *shown_of([item])])

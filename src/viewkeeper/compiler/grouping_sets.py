"""ROLLUP, CUBE and GROUPING SETS: the sets of expressions by which a query groups, each in turn.

One GroupBy is made for each set; a key that is not in it is NULL there.  As in Spark, the set of no key has a group
only where there are rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from viewkeeper.catalog.types import BIGINT, INT, TINYINT
from viewkeeper.compiler.conversion import Refused
from viewkeeper.errors import NotSupported
from viewkeeper.plans.expressions import ColumnRef, Expression, Literal, TextPlace, computed_at
from viewkeeper.plans.relations import AggregateCall, GroupBy, Project, Relation, UnionAll
from viewkeeper.plans.rewriting import identity, walk

KeyNodes = tuple[exp.Expr, ...]

_MOST = 4096
"""How many sets Spark makes of a CUBE: it takes no more than twelve keys."""


@dataclass(frozen=True)
class Mark(Expression):
    """`grouping(key)` (1 where the group is not by this key) or, of no key, `grouping_id()`, before it is known."""

    keys: tuple[Expression, ...]
    name: str = field(compare=False)


def mark(function: str, keys: Sequence[Expression], name: str, place: TextPlace | None) -> Mark:
    """`grouping(key)`, or `grouping_id(keys)` of all keys or none."""
    if function == "grouping" and len(keys) != 1:
        raise Refused("GROUPING takes one of the expressions that are grouped by")
    return Mark(TINYINT if function == "grouping" else BIGINT, False, place, tuple(keys), name)


def has_sets(group: exp.Group | None) -> bool:
    """Whether `group` says more than one set."""
    return group is not None and any(isinstance(node, _SETS) for node in group.expressions)


def sets_of(group: exp.Group) -> list[KeyNodes]:
    """The sets of GROUP BY: what is listed side by side is combined, each with each."""
    parts = [_sets(node) for node in group.expressions]
    found = [tuple(itertools.chain(*chosen)) for chosen in itertools.islice(itertools.product(*parts), _MOST + 1)]
    if len(found) > _MOST:
        raise Refused(f"GROUP BY of more than {_MOST} sets")
    return found


def _sets(node: exp.Expr) -> list[KeyNodes]:
    if not isinstance(node, _SETS):
        return [_keys(node)]
    items = list(node.expressions)
    if isinstance(node, exp.GroupingSets):
        return [each for item in items for each in _sets(item)]
    units = [_keys(item) for item in items]
    if isinstance(node, exp.Rollup):
        return [tuple(itertools.chain(*units[:n])) for n in range(len(units), -1, -1)]
    if len(units) > _MOST.bit_length() - 1:
        raise Refused("CUBE takes at most twelve expressions")
    chosen = itertools.product((True, False), repeat=len(units))
    return [tuple(itertools.chain(*itertools.compress(units, each))) for each in chosen]


def _keys(node: exp.Expr) -> KeyNodes:
    if isinstance(node, exp.Tuple):
        return tuple(node.expressions)
    return (node.this,) if isinstance(node, exp.Paren) else (node,)


_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)


@dataclass(frozen=True)
class SetsOfKeys:
    """`keys` with their names; each of `sets` has positions of keys.  `marks` are the `Mark`s of the query."""

    keys: tuple[Expression, ...]
    names: tuple[str, ...]
    sets: tuple[frozenset[int], ...]
    marks: tuple[Mark, ...]

    def relation(self, input_: Relation, calls: Sequence[AggregateCall], names: Sequence[str]) -> Relation:
        """Columns: the keys, the marks, the calls (called `names`)."""
        each = tuple(self._of(input_, kept, tuple(calls), tuple(names)) for kept in self.sets)
        return each[0] if len(each) == 1 else UnionAll(each)

    def _of(
        self, input_: Relation, kept: frozenset[int], calls: tuple[AggregateCall, ...], names: tuple[str, ...]
    ) -> Relation:
        places = {position: i for i, position in enumerate(sorted(kept))}
        keys = tuple(self.keys[i] for i in places) or (Literal(INT, False, None, 1),)
        rows = GroupBy(input_, keys, tuple(self.names[i] for i in places) or ("all",), calls, names)
        outputs: list[Expression] = [
            computed_at(places[i], self.names[i], key) if i in kept
            else Literal(key.type, True, key.place, None) for i, key in enumerate(self.keys)
        ]  # fmt: skip
        outputs += [Literal(each.type, False, each.place, self._value(each, kept)) for each in self.marks]
        outputs += [
            ColumnRef(call.type, call.nullable, call.place, len(keys) + i, name)
            for i, (call, name) in enumerate(zip(calls, names, strict=True))
        ]
        return Project(rows, tuple(outputs), (*self.names, *(each.name for each in self.marks), *names))

    def _value(self, mark_: Mark, kept: frozenset[int]) -> int:
        places = self.places(mark_)
        return sum(1 << n for n, position in enumerate(reversed(places)) if position not in kept)

    def places(self, mark_: Mark) -> list[int]:
        """The positions of a mark's keys; raises Refused where it does not name what is grouped by."""
        if not mark_.keys:
            return list(range(len(self.keys)))
        positions = {identity(key): i for i, key in enumerate(self.keys)}
        found = [positions.get(identity(key), -1) for key in mark_.keys]
        if -1 in found or (mark_.type == BIGINT and found != list(range(len(self.keys)))):
            raise Refused(f"{mark_.name} does not name what is grouped by, in its order")
        return found


def marks_in(expressions: Iterable[Expression]) -> tuple[Mark, ...]:
    """Each `Mark` in `expressions` once."""
    found = (node for expression in expressions for node in walk(expression) if isinstance(node, Mark))
    return tuple({identity(node): node for node in found}.values())


def require_nullable(keys: Iterable[Expression]) -> None:
    """What is computed of a key has been bound as of a value that may be NULL; raises Refused where it cannot be."""
    if not all(key.nullable for key in keys):
        raise Refused("ROLLUP, CUBE and GROUPING SETS by a value that is never NULL is not supported yet", NotSupported)

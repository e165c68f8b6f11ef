"""Names in a subquery that belong to the query around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from viewkeeper.plans.expressions import Expression, OuterColumn, TextPlace, declared_of
from viewkeeper.plans.rewriting import identity


@dataclass
class Outer:
    """The query around a subquery: `lookup` is what a name means for its rows, None for nothing; `values` is what the
    subquery has been found to need of them."""

    lookup: Callable[[exp.Expr], Expression | None]
    values: list[Expression] = field(default_factory=list)

    def column(self, node: exp.Expr, place: TextPlace | None) -> OuterColumn | None:
        """What `node` means out there, handed in; None for nothing."""
        value = self.lookup(node)
        if value is None:
            return None
        known = [identity(each) for each in self.values]
        if identity(value) not in known:
            known.append(identity(value))
            self.values.append(value)
        at = known.index(identity(value))
        return OuterColumn(value.type, value.nullable, place, at, node.name, declared_of(value))

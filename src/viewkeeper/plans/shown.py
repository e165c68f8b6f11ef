"""What the texts of operators are written with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from viewkeeper.plans.exchange import Exchange
from viewkeeper.plans.expressions import ColumnRef, Expression
from viewkeeper.plans.rewriting import rewrite
from viewkeeper.plans.text import expression_text, listed


@dataclass(frozen=True)
class Shown:
    """What an operator's text needs of the plan around it: what each operator is called, the operators, the exchanges,
    and the members of families that are spoken of."""

    names: dict[int, str]
    operators: dict[int, Any]
    exchanges: dict[int, Exchange]
    members: set[int | None]

    @classmethod
    def of(cls, operators: Iterable[Any], exchanges: Iterable[Exchange], members: set[int | None]) -> Shown:
        by_id = {o.id: o for o in operators}
        names = {id_: f"{o.title} {id_}" for id_, o in by_id.items()}
        return cls(names, by_id, {x.id: x for x in exchanges}, members)

    def sent(self, exchange: int) -> str:
        """What an exchange brings."""
        of = self.exchanges[exchange]
        summed = ", summed up before it is sent" if of.partial is not None else ""
        return f"of {self.names[of.source]} by ({listed(of.outputs[: of.key])}){summed}"

    def arguments(self, pre_aggregate: int) -> list[str]:
        """What a PRE-AGGREGATION keeps running values of."""
        operator = self.operators[pre_aggregate]
        outputs = self.exchanges[operator.exchange].outputs
        return [expression_text(outputs[running.argument]) for running in operator.running]

    def over(self, exchange: int, expression: Expression) -> str:
        """An expression over what an exchange brings."""
        outputs = self.exchanges[exchange].outputs
        return expression_text(rewrite(expression, lambda e: outputs[e.index] if isinstance(e, ColumnRef) else None))

    def over_kept(self, reverse_join: int, expression: Expression) -> str:
        """An expression over what a REVERSE-JOIN keeps."""
        operator = self.operators[reverse_join]
        outputs = self.exchanges[operator.exchange].outputs
        shown = {i: outputs[place] for i, place in enumerate(operator.outputs)}
        return expression_text(rewrite(expression, lambda e: shown[e.index] if isinstance(e, ColumnRef) else None))

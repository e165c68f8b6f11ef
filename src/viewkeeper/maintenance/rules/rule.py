"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from viewkeeper.plans.relations import Relation


@dataclass(frozen=True)
class Rule:
    """`apply` answers with what a relation becomes, None where the rule does not hold for its root.

    What it answers with has the same rows, in the same columns, whatever the input's rows.
    """

    name: str
    apply: Callable[[Relation], Relation | None]

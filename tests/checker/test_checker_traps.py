"""The evaluator and the model pass the cases that made other systems wrong."""

from __future__ import annotations

import pytest

from bags import bag
from oracle.bound import BoundCase
from oracle.model import Case
from oracle.traps import RAISES, TRAPS, Trap
from oracle.traps_of_queries import TRAPS_OF_QUERIES
from oracle.traps_of_rows import TRAPS_OF_ROWS


@pytest.mark.parametrize("trap", TRAPS + TRAPS_OF_QUERIES + TRAPS_OF_ROWS, ids=lambda trap: trap.name)
def test_each_view_holds_what_it_must_after_every_step(trap: Trap) -> None:
    """The expected rows, written down by hand, are the evaluator's over the dictionary model."""
    bound = BoundCase(Case(trap.schemas, trap.views, ()))
    for operations, expected in trap.steps:
        for operation in operations:
            bound.base.apply(operation)
        answers = bound.answers()
        for view, wanted in expected.items():
            assert bool(answers[view].errors) == (wanted == RAISES)
            assert wanted == RAISES or bag(answers[view].rows) == bag(wanted), view  # type: ignore[arg-type]

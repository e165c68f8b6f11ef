"""The programs of pattern views and of their Helpers."""

from __future__ import annotations

from viewkeeper.catalog.model import Catalog, PartView
from viewkeeper.plans.pattern import PatternAnswer, PatternMatches
from viewkeeper.streams.part_program import PartProgram
from viewkeeper.streams.patterns.answer import AnswerProgram
from viewkeeper.streams.patterns.matches_program import MatchesProgram


def pattern_program(catalog: Catalog, view: PartView) -> PartProgram:
    """The program of a Helper or of a pattern view."""
    if isinstance(view.plan, PatternMatches):
        source = catalog.source(view.plan.source)
        readers = [each.name for each in catalog.part_views
                   if isinstance(each.plan, PatternAnswer) and each.plan.helper == view.id]  # fmt: skip
        return MatchesProgram(view.plan, view.id, ", ".join(readers) or view.name, source.columns, catalog.zone)
    assert isinstance(view.plan, PatternAnswer)
    helper = catalog.by_id(view.plan.helper)
    assert isinstance(helper, PartView) and isinstance(helper.plan, PatternMatches)
    source = catalog.source(helper.plan.source)
    return AnswerProgram(view.plan, helper.plan, view.id, view.name, source.columns, catalog.zone)

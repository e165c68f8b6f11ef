"""The program of a generated view, whatever its kind."""

from __future__ import annotations

from viewkeeper.catalog.model import Catalog, PartView
from viewkeeper.streams.program import Program


def program_of(catalog: Catalog, view: PartView) -> Program:
    """How the parts of `view`, which is no ViewDF, are computed."""
    from viewkeeper.plans.match import MatchPlan
    from viewkeeper.plans.pattern import PatternAnswer, PatternMatches

    if isinstance(view.plan, (PatternMatches, PatternAnswer)):
        from viewkeeper.streams.patterns.program import pattern_program

        return pattern_program(catalog, view)
    if isinstance(view.plan, MatchPlan):
        from viewkeeper.streams.recognize.program import match_program

        return match_program(catalog, view)
    from viewkeeper.streams.windows.program import window_program

    return window_program(catalog, view)

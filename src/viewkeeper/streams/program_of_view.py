"""The program of a generated view, whatever its kind."""

from __future__ import annotations

from viewkeeper.catalog.model import Catalog, PartView
from viewkeeper.plans.match import MatchPlan
from viewkeeper.plans.pattern import PatternAnswer, PatternMatches
from viewkeeper.streams.part_program import PartProgram
from viewkeeper.streams.patterns.pattern_program import pattern_program
from viewkeeper.streams.recognize.match_program import match_program
from viewkeeper.streams.windows.window_programs import window_program


def program_of(catalog: Catalog, view: PartView) -> PartProgram:
    """How the parts of `view`, which Spark SQL does not compute, are computed."""
    match view.plan:
        case PatternMatches() | PatternAnswer():
            return pattern_program(catalog, view)
        case MatchPlan():
            return match_program(catalog, view)
        case _:
            return window_program(catalog, view)

"""The matching machine against every way of matching, tried one after another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from viewkeeper.checker.recognize import decided_matches
from viewkeeper.streams.recognize import automaton
from viewkeeper.streams.recognize.automaton import Automaton, DecidedMatches

Element = tuple[int, int, int | None]


def positions(elements: list[Element]) -> list[tuple[int, bool, bool]]:
    """The pattern written out: the variable, whether it repeats, whether it may be left out."""
    result = []
    for variable, least, most in elements:
        result += [(variable, most is None and n == least - 1, False) for n in range(least)]
        optional = int(least == 0) if most is None else most - least
        result += [(variable, most is None, True)] * optional
    return result


def quantified() -> st.SearchStrategy[tuple[int, int | None]]:
    return st.sampled_from([(1, 1), (1, 1), (1, None), (0, None), (0, 1), (2, None), (1, 3), (0, 2)])


@st.composite
def patterns(draw: st.DrawFn) -> list[Element]:
    elements = draw(st.lists(st.tuples(st.integers(0, 3), quantified()), max_size=4))
    return [*((variable, *times) for variable, times in elements), (draw(st.integers(0, 3)), 1, 1)]


def truths() -> st.SearchStrategy[list[list[int]]]:
    """For one to five groups, for each row the set of variables that it satisfies."""
    return st.lists(st.lists(st.integers(0, 15), min_size=1, max_size=11), min_size=1, max_size=5)


def search(elements: list[Element], groups: list[list[int]], past: bool) -> DecidedMatches:
    starts = np.cumsum([0, *map(len, groups)])[:-1]
    truth = np.array([symbol for group in groups for symbol in group], dtype=np.uint64)
    return Automaton(positions(elements), 4).search(truth, starts, past)


def listed(elements: list[Element], found: DecidedMatches) -> list[tuple[int, tuple[int, ...]]]:
    variables = [-1, *(variable for variable, _, _ in positions(elements))]
    ends = np.cumsum(found.lengths)
    return [
        (int(first), tuple(variables[k] for k in found.labels[end - size : end]))
        for first, size, end in zip(found.firsts, found.lengths, ends, strict=True)
    ]


@pytest.mark.parametrize("longest", [1024, 1, 3])
@settings(max_examples=examples(300), deadline=None)
@given(elements=patterns(), groups=truths(), past=st.booleans())
def test_the_preferred_matches_are_found(
    longest: int, elements: list[Element], groups: list[list[int]], past: bool
) -> None:
    """The machine finds the first way in the order of preference, also where long groups are cut into pieces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(automaton, "_LONGEST", longest)
        found = search(elements, groups, past)
    expected, begin = [], 0
    for group in groups:
        matches = decided_matches(elements, lambda v, row, g=group: bool(g[row] >> v & 1), len(group), past)
        expected += [(begin + match.first, match.labels) for match in matches]
        begin += len(group)
    assert listed(elements, found) == expected


@settings(max_examples=examples(300), deadline=None)
@given(patterns(), truths(), st.booleans())
def test_rows_before_the_open_ones_are_never_needed_again(
    elements: list[Element], groups: list[list[int]], past: bool
) -> None:
    """Matches that later rows decide begin at the open rows, and are found from these rows alone."""
    cut = [max(1, len(group) // 2) for group in groups]
    heads = [group[:size] for group, size in zip(groups, cut, strict=True)]
    early = search(elements, heads, past)
    begin = 0
    for group, head, open_ in zip(groups, heads, early.open, strict=True):
        at = int(open_) - begin
        whole = listed(elements, search(elements, [group], past))
        first = listed(elements, search(elements, [head], past))
        assert [match for match in whole if match in first] == first
        assert all(row < at for row, _ in first)
        rest = listed(elements, search(elements, [group[at:]], past)) if at < len(group) else []
        assert [(row + at, labels) for row, labels in rest] == [match for match in whole if match not in first]
        begin += len(head)


def test_no_pattern_takes_more_than_linear_time() -> None:
    """Rows that satisfy every variable but the last, which ends a regular expression's patience, are walked once."""
    elements: list[Element] = [(0, 1, None), (1, 1, None), (2, 1, None), (3, 1, 1)]
    many = 300_000
    truth = np.full(2 * many, 7, dtype=np.uint64)
    truth[many - 1] = 0
    truth[-1] = 8
    found = Automaton(positions(elements), 4).search(truth, np.array([0]), True)
    assert (found.firsts.tolist(), found.lengths.tolist()) == ([many], [many])
    assert np.bincount(found.labels).tolist() == [0, many - 3, 1, 1, 1]
    assert found.open.tolist() == [2 * many]


def test_the_longest_pattern_fits() -> None:
    """Sixty positions are matched as three are; one more is refused."""
    elements: list[Element] = [(0, 58, 58), (1, 1, None), (2, 1, 1)]
    truth = np.array([*[1] * 58, 2, 2, 6, 4, 0], dtype=np.uint64)
    found = Automaton(positions(elements), 3).search(truth, np.array([0]), True)
    assert found.lengths.tolist() == [62]
    with pytest.raises(ValueError, match="60 positions"):
        Automaton([*positions(elements), (0, False, False)], 3)

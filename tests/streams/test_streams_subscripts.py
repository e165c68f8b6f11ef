"""Subscripts and their inverses, against trying every part."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from viewkeeper.compiler.source_text import Script
from viewkeeper.compiler.subscript_text import read_subscript
from viewkeeper.errors import DeclarationError
from viewkeeper.plans.references import Subscript
from viewkeeper.streams.bind_viewdf import ends_later
from viewkeeper.streams.subscripts import UNBOUNDED, greatest_at_most, lowest_at_least, naming

NUMBERS = range(-120, 121)
SUBSCRIPTS = st.builds(Subscript, st.integers(0, 7), st.integers(-30, 30), st.integers(1, 7))


@settings(deadline=None, max_examples=examples(400))
@given(SUBSCRIPTS, st.integers(-12, 12))
def test_the_bounds_of_an_inverse_are_those_that_trying_finds(subscript: Subscript, part: int) -> None:
    below = [j for j in NUMBERS if subscript.at(j) <= part]
    above = [j for j in NUMBERS if subscript.at(j) >= part]
    if subscript.factor == 0:
        assert greatest_at_most(subscript, part) == (UNBOUNDED if below else -UNBOUNDED)
        assert lowest_at_least(subscript, part) == (-UNBOUNDED if above else UNBOUNDED)
    else:
        assert max(below, default=None) == _inside(greatest_at_most(subscript, part))
        assert min(above, default=None) == _inside(lowest_at_least(subscript, part))


def _inside(j: int) -> int | None:
    """`j`, where a search among NUMBERS could find it."""
    if j < NUMBERS[0]:
        return None
    return j if j <= NUMBERS[-1] else None


@settings(deadline=None, max_examples=examples(400))
@given(SUBSCRIPTS, SUBSCRIPTS, st.integers(-8, 8), st.integers(0, 4))
def test_the_parts_that_name_some_others_are_found_by_their_range(
    low: Subscript, high: Subscript, first: int, more: int
) -> None:
    """Whatever names one of `first` to `last` is in the range; for one part alone, all that is in it does."""
    last = first + more
    lowest, greatest = naming(low, high, first, last)
    for j in NUMBERS:
        names = max(low.at(j), first) <= min(high.at(j), last)
        if names:
            assert lowest <= j <= greatest
        if more == 0:
            assert names == (lowest <= j <= greatest)


@settings(deadline=None, max_examples=examples(400))
@given(SUBSCRIPTS, st.integers(1, 12), st.integers(1, 12))
def test_the_future_is_named_where_some_part_ends_after_the_views(high: Subscript, length: int, own: int) -> None:
    """A subscript that is as fast as the view's time, or faster, is judged as trying many parts would."""
    tried = any((high.at(j) + 1) * length > (j + 1) * own for j in range(1000, 1500))
    slower = high.factor * length < high.divisor * own
    assert ends_later(high, length, own) == (tried and not slower)


@settings(deadline=None, max_examples=examples(300))
@given(SUBSCRIPTS, st.integers(-50, 50))
def test_a_subscript_as_explain_writes_it_is_read_as_the_same_function(subscript: Subscript, j: int) -> None:
    text = subscript.text("j")
    low, high = read_subscript(Script(text), 0, len(text), "j")
    assert low.at(j) == high.at(j) == subscript.at(j)


EXPRESSIONS = st.recursive(
    st.sampled_from(["j", "1", "3", "60", "0"]),
    lambda below: st.one_of(
        st.tuples(below, st.sampled_from([" + ", "-", " *"]), below).map("".join),
        below.map(lambda each: f"({each})"),
        st.tuples(below, st.sampled_from([" DIV 2", " div 7"])).map(lambda pair: f"({pair[0]}){pair[1]}"),
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=examples(400))
@given(EXPRESSIONS, st.integers(-200, 200))
def test_a_subscript_has_the_value_of_its_arithmetic(text: str, j: int) -> None:
    """What is not refused has, for every j, the value that Python finds, DIV rounding down."""
    try:
        low, high = read_subscript(Script(text), 0, len(text), "j")
    except DeclarationError:
        return
    python = text.replace(" DIV ", "//").replace(" div ", "//")
    assert low == high
    assert low.at(j) == eval(python, {"j": j})  # noqa: S307 - the text is made above

"""Pattern views against the brute-force matcher: random patterns, histories, gaps, ties, late rows."""

from __future__ import annotations

import random
from collections import Counter
from unittest import mock

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bags import bag
from drawn import examples
from pattern_engine import Kept, Row, at, declared, few_groups, kept, values
from viewkeeper.checker.patterns import matches

Parts = dict[int, list[Row]]

NAMES = "abcd"
ONE = ("{v}.loss > 1", "{v}.loss > 2", "{v}.loss >= 1", "{v}.loss < 3", "{v}.loss <> 2", "{v}.x IS NULL",
       "{v}.loss * 2 > 3", "{v}.loss % 2 = 1", "{v}.loss / 2 >= 1.5D", "{v}.x / 3.0 > 0.34",
       "({v}.loss = 1 OR {v}.x > 1)", "{v}.loss > PREV({v}.loss)", "PREV({v}.x) IS NULL",
       "{v}.x <= PREV({v}.loss)",
       "NOT {v}.loss = {v}.x", "{v}.loss IN (1, 3, NULL)")  # fmt: skip
TWO = ("{v}.loss > {u}.loss", "{v}.loss >= {u}.loss", "{v}.loss < {u}.loss", "{v}.loss = {u}.loss", "{v}.loss <> {u}.x",
       "{v}.loss > {u}.loss - 1", "{v}.loss - {u}.loss > 0", "({v}.loss > {u}.x OR {u}.x IS NULL)",
       "{v}.loss > PREV({u}.loss)", "PREV({v}.x) <= {u}.x", "{v}.x <=> {u}.x",
       "{v}.loss + {v}.x > {u}.loss + {u}.x", "{v}.loss / 2 > {u}.x / 3", "({v}.loss + {u}.x) % 3 > 0")  # fmt: skip
CALLS = ("count(*)", "sum(loss)", "count(x)", "min(x)", "max(loss)", "first(loss)", "last(x)", "avg(loss)")
CALLS_OF = ("count({v}.loss)", "sum({v}.x)", "min({v}.loss)", "max({v}.x)", "first({v}.loss)", "last({v}.x)",
            "sum({v}.loss - PREV({v}.loss))", "avg({v}.x)")  # fmt: skip


@st.composite
def queries(draw: st.DrawFn) -> str:
    """A pattern view over `STREAM`."""
    names = NAMES[: draw(st.integers(1, 4))]
    terms = []
    for i, v in enumerate(names):
        terms += [draw(st.sampled_from(ONE)).format(v=v) for _ in range(draw(st.integers(0, 2)))]
        if i and draw(st.booleans()):
            terms.append(draw(st.sampled_from(TWO)).format(v=v, u=draw(st.sampled_from(names[:i]))))
    calls = draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=3, unique=True))
    if draw(st.booleans()):
        calls += [draw(st.sampled_from(CALLS_OF)).format(v=draw(st.sampled_from(names)))]
    variables = ", ".join(v + draw(st.sampled_from(["", "+"])) for v in names)
    where = f" WHERE {' AND '.join(terms)}" if terms else ""
    group = draw(st.sampled_from([" GROUP BY src", " GROUP BY src", ""]))
    outputs = ", ".join([*(["src"] if group else []), *(f"{call} AS o{i}" for i, call in enumerate(calls))])
    order = draw(st.sampled_from(["", "", " ORDER BY x", " ORDER BY loss DESC, x", " ORDER BY x NULLS LAST"]))
    return f"CREATE VIEW v AS SELECT {outputs} FROM M PATTERN [{variables}]{where}{group}{order}"


@st.composite
def histories(draw: st.DrawFn) -> Parts:
    """A few groups over a few parts, with gaps, several rows in a part, and equal times."""
    steady = draw(st.booleans())
    parts: Parts = {}
    numbers = st.sampled_from([0, 1, 2, 3, 1, 2, 3, None])
    for part in range(-2, draw(st.integers(0, 6))):
        for src in ("p", "q", None):
            count = 1 if steady else draw(st.sampled_from([0, 1, 1, 2, 4]))
            for _ in range(count):
                row = (at(part, draw(st.sampled_from([0, 0, 30]))), src, draw(numbers), draw(numbers))
                parts.setdefault(part, []).append(row)
    return parts


def bags(rows: dict[int, list[Row]]) -> dict[int, Counter]:
    return {part: bag(each) for part, each in rows.items() if each}


def state(machine: Kept) -> dict[int, list[Row]]:
    columns = machine.matches.outputs[0].columns
    return {part: sorted(values(rows, columns), key=repr) for part, rows in machine.helper.items()}


@settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))
@given(queries(), histories())
def test_a_view_has_in_each_part_what_the_definition_says(sql: str, parts: Parts) -> None:
    """The rows of every part are those of the brute-force matcher over the whole history."""
    bound = declared(sql)[1].plan.bound
    assert bags(kept(sql, parts).rows()) == bags(matches(bound, parts))


@settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(queries(), histories())
def test_dropping_needless_partial_matches_changes_no_answer(sql: str, parts: Parts) -> None:
    """A view that keeps all partial matches has the same rows."""
    assert bags(kept(sql, parts).rows()) == bags(kept(sql, parts, dominance=False).rows())


@settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(queries(), histories())
@example(
    "CREATE VIEW v AS SELECT count(*) AS n FROM M PATTERN [a+, b+]", {0: [(at(0), s, 0, 0) for s in ("p", "q", "r")]}
)
@example(
    "CREATE VIEW v AS SELECT count(*) AS n FROM M PATTERN [a+, b+] WHERE b.loss > a.loss",
    {0: [(at(0), "p", loss, 0) for loss in (0, 0, 1, 2)]},
)
def test_groups_taken_one_by_one_come_to_the_same_partial_matches(sql: str, parts: Parts) -> None:
    """How many groups are taken together changes nothing that is stored."""
    with few_groups(0):
        together = state(kept(sql, parts))
    with few_groups(1000):
        apart = state(kept(sql, parts))
    assert together == apart


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(queries(), histories(), st.randoms(use_true_random=False))
def test_late_rows_lead_to_what_would_be_there_had_they_come_in_time(
    sql: str, parts: Parts, random: random.Random
) -> None:
    """A repair of the touched groups, up to the part where they are as before, gives the view over all rows."""
    early: Parts = {part: [row for row in rows if random.random() < 0.7] for part, rows in parts.items()}
    machine = Kept(*declared(sql))
    last = max(parts, default=0)
    for part in range(min(parts, default=0), last + 1):
        machine.build(part, early.get(part, []), slices=random.randint(1, 2))
    for part in random.sample(sorted(parts), len(parts)):
        late = list((Counter(parts[part]) - Counter(early[part])).elements())
        if late:
            early[part] = parts[part]
            machine.repair(early, part, last, late)
    whole = kept(sql, parts)
    assert bags(machine.rows()) == bags(whole.rows())
    empty = {part: [] for part in range(-2, last + 1)}
    assert empty | state(machine) == empty | state(whole)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(queries(), histories())
def test_groups_whose_hashes_collide_stay_apart(sql: str, parts: Parts) -> None:
    """With one hash for all groups the rows are the same."""
    from viewkeeper.trace import hashing

    bound = declared(sql)[1].plan.bound
    with mock.patch.object(hashing, "finish", lambda state: state * 0):
        assert bags(kept(sql, parts).rows()) == bags(matches(bound, parts))

"""A trace says at every held version what a plain dictionary says, however its runs were merged since."""

from __future__ import annotations

import struct
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawn import examples
from key_values import VALUES, collide, plain
from state_disk import disk_in
from viewkeeper.catalog.model import Column, StateSpec
from viewkeeper.catalog.types import INT, Type, physical_type
from viewkeeper.trace.arrange import words_of
from viewkeeper.trace.file import ZoneFile, offset_table
from viewkeeper.trace.grouping import group_rows
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.keys import canonical
from viewkeeper.trace.merge import MergeTask, StateMerge, plan_merges, run_merge, spans_of
from viewkeeper.trace.receipt import FileRef, Receipt, RunRef
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.run import Run
from viewkeeper.trace.trace import Trace, difference

NAMES = count()


def bits(value: object) -> object:
    """What is the same for two values that are equal bit for bit."""
    return struct.pack("<d", value) if isinstance(value, float) else value


def row_of(spec: StateSpec, row: tuple) -> tuple:
    """A row as the model knows it: keys by value, the rest by bits."""
    return tuple(plain(value) if i < spec.key else bits(value) for i, value in enumerate(row))


def arrays(spec: StateSpec, rows: list[tuple]) -> list[pa.Array]:
    return [
        pa.array([row[i] for row in rows], physical_type(c.type), from_pandas=False) for i, c in enumerate(spec.columns)
    ]


@dataclass
class Version:
    """One held version: its runs, and what the model says."""

    refs: tuple[RunRef, ...]
    model: Counter = field(default_factory=Counter)


class History:
    """A state that changes batch by batch, in files and, beside it, as a dictionary."""

    def __init__(self, spec: StateSpec, folder: Path) -> None:
        self.spec, self.folder = spec, folder
        self.files: dict[str, FileRef] = {}
        self.versions = [Version(())]

    def trace(self, version: Version) -> Trace:
        return Trace(self.spec, [Run.open(disk_in(self.folder), ref, self.files[ref.file]) for ref in version.refs])

    def batch(self, rows: list[tuple], weights: list[int], servers: int) -> None:
        """One version: the words' interval is shared by `servers` writers."""
        columns = arrays(self.spec, rows)
        words = words_of(
            self.spec, [canonical(c) if i < self.spec.key else c for i, c in enumerate(columns)], len(rows)
        )
        number = len(self.versions)
        refs = list(self.versions[-1].refs)
        for server in range(servers):
            mine = words >> np.uint64(63) == server if servers == 2 else np.ones(len(rows), dtype=bool)
            writer = ZoneFile.writer(disk_in(self.folder), f"{next(NAMES)}.zone")
            writer.add(self.spec, Rows(columns, np.array(weights, dtype=np.int64)).filter(mine))
            refs += self._keep(writer.finish().at(number, number))
        model = self.versions[-1].model.copy()
        for row, weight in zip(rows, weights, strict=True):
            if self.spec.kind == "keyed":
                for old in [old for old in model if old[: self.spec.key] == row_of(self.spec, row)[: self.spec.key]]:
                    del model[old]
                if not weight:
                    continue
            model[row_of(self.spec, row)] += weight
        self.versions.append(Version(tuple(refs), Counter({row: n for row, n in model.items() if n})))

    def merge(self, tasks: list[MergeTask]) -> None:
        """Merge the newest version's runs; older versions keep their own."""
        refs = list(self.versions[-1].refs)
        for task in tasks:
            new = self._keep(run_merge(disk_in(self.folder), f"{next(NAMES)}.zone", task, {}))
            refs = sorted({*refs} - {*task.runs} | {*new}, key=lambda ref: (ref.first, ref.low))
        self.versions[-1] = Version(tuple(refs), self.versions[-1].model)

    def some_merge(self, begin: int, length: int) -> list[MergeTask]:
        """A merge of any neighbours."""
        spans = spans_of(self.versions[-1].refs)[begin : begin + length]
        if not spans:
            return []
        runs = tuple(run for span in spans for run in span.runs)
        files = tuple(self.files[name] for name in {run.file for run in runs})
        return [MergeTask((StateMerge(self.spec, runs, begin == 0),), files)]

    def _keep(self, receipt: Receipt) -> tuple[RunRef, ...]:
        if receipt.file:
            self.files[receipt.file.name] = receipt.file
        return receipt.runs


def counted(spec: StateSpec, rows: Rows) -> Counter:
    """Rows as a bag."""
    result: Counter = Counter()
    for *row, weight in zip(*(column.to_pylist() for column in rows.columns), rows.weights.tolist(), strict=True):
        result[row_of(spec, tuple(row))] += weight
    return result


def probes(spec: StateSpec, rows: list[tuple], width: int) -> tuple[np.ndarray, list[pa.Array], list[tuple]]:
    """Distinct canonical keys (the first `width` columns of `rows`) in the order of their hashes."""
    keys = [canonical(column) for column in arrays(spec, rows)[:width]]
    hashes = hash_columns(keys, len(rows))
    firsts = group_rows(hashes, keys).firsts
    keys = [key.take(pa.array(firsts)) for key in keys]
    return hashes[firsts], keys, list(zip(*(key.to_pylist() for key in keys), strict=True))


def check_reads(history: History, version: Version, rows: list[tuple]) -> None:
    """Every way of reading agrees with the model; `rows` give the keys to ask for."""
    spec, trace = history.spec, history.trace(version)
    assert counted(spec, trace.scan()) == version.model
    halves = [trace.scan(low=low, high=low + 2**63 - 1) for low in (0, 2**63)]
    assert counted(spec, halves[0]) + counted(spec, halves[1]) == +version.model
    if spec.kind == "ordered":
        return
    hashes, keys, values = probes(spec, rows, spec.key)
    expected = [Counter({row: n for row, n in version.model.items() if row[: spec.key] == tuple(map(plain, key))})
                for key in values]  # fmt: skip
    for key, bag in zip(values, expected, strict=True):
        got = trace.get(key)
        assert Counter({row_of(spec, row): n for row, n in got}) == +bag
    if spec.kind == "keyed":
        found, columns = trace.lookup(hashes, keys)
        assert found.tolist() == [bool(bag) for bag in expected]
        for i, row in enumerate(zip(*(column.to_pylist() for column in columns), strict=True)):
            assert ({row_of(spec, row): 1} if found[i] else {}) == expected[i]
            assert found[i] or row == (None,) * len(row)
        last = len(spec.columns) - 1
        assert trace.lookup(hashes, keys, [last])[1][0].equals(columns[last]) or spec.columns[last].type.is_float
    else:
        probe, matched = trace.matches(hashes, keys)
        for i, bag in enumerate(expected):
            mine = counted(spec, matched.take(np.flatnonzero(probe == i)))
            assert Counter({row: n for row, n in mine.items() if n}) == bag


def check_difference(history: History, older: Version, newer: Version) -> None:
    """Exactly the rows that went and came."""
    rows = difference(history.trace(older), history.trace(newer))
    went_and_came = newer.model.copy()
    went_and_came.subtract(older.model)
    assert counted(history.spec, rows) == {row: n for row, n in went_and_came.items() if n}
    assert len(rows) == sum(map(abs, went_and_came.values()))


@st.composite
def histories(draw: st.DrawFn, kind: str) -> tuple[StateSpec, list, list[tuple]]:
    """(spec, steps, rows to ask for); a step is a batch or a merge."""
    width = 2 if kind == "ordered" else draw(st.integers(1, 3))
    types: list[Type] = [draw(st.sampled_from(list(VALUES))) for _ in range(width)]
    nothing = [st.nothing() if kind == "ordered" and i == width - 1 else st.none() for i in range(width)]
    pools = [draw(st.lists(none | VALUES[t], min_size=1, max_size=4)) for t, none in zip(types, nothing, strict=True)]
    key = width if kind == "ordered" else draw(st.integers(1, width))
    columns = tuple(Column(str(i), t) for i, t in enumerate(types))
    term = st.tuples(st.integers(0, width - 1), st.booleans(), st.booleans())
    order = tuple(draw(st.lists(term, min_size=1, max_size=2))) if kind == "in order" else ()
    spec = StateSpec(7, "weighted" if kind == "in order" else kind, columns, key, order=order)
    a_row = st.tuples(*(st.sampled_from(pool) for pool in pools))
    weights = st.integers(0, 1) if kind == "keyed" else st.integers(-2, 2)
    unique = (lambda pair: tuple(map(plain, pair[0][:key]))) if kind == "keyed" else None
    batch = st.tuples(
        st.just("batch"),
        st.lists(st.tuples(a_row, weights), max_size=10, unique_by=unique),  # type: ignore[arg-type]
        st.integers(1, 2),
    )
    merge = st.tuples(st.just("merge"), st.integers(0, 4), st.integers(1, 4))
    planned = st.tuples(st.just("plan"), st.booleans(), st.lists(st.integers(0, 9), max_size=1))
    steps = draw(st.lists(batch | batch | merge | planned, max_size=9))
    return spec, steps, draw(st.lists(a_row, min_size=1, max_size=8))


def play(spec: StateSpec, steps: list, folder: Path) -> History:
    history = History(spec, folder)
    for what, *arguments in steps:
        if what == "batch":
            rows, servers = arguments
            history.batch([row for row, _ in rows], [weight for _, weight in rows], servers)
        elif what == "merge":
            history.merge(history.some_merge(*arguments))
        else:
            idle, barriers = arguments
            refs = history.versions[-1].refs
            history.merge(plan_merges({7: refs}, {7: spec}, history.files, idle=idle, barriers=barriers))
    return history


@pytest.mark.parametrize("few", [False, True], ids=["whole hash", "four hashes"])
@pytest.mark.parametrize("kind", ["keyed", "weighted", "in order", "ordered"])
def test_every_version_reads_as_the_model_does(kind: str, few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if few:
        collide(monkeypatch)

    @settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
    @given(histories(kind))
    def check(drawn: tuple[StateSpec, list, list[tuple]]) -> None:
        spec, steps, rows = drawn
        with tempfile.TemporaryDirectory() as folder:
            history = play(spec, steps, Path(folder))
            for version in history.versions:
                check_reads(history, version, rows)
                if kind == "keyed":
                    check_difference(history, version, history.versions[-1])

    check()


@pytest.mark.parametrize("few", [False, True], ids=["whole hash", "four hashes"])
def test_extremes_are_those_of_the_model(few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if few:
        collide(monkeypatch)

    @settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))
    @given(histories("ordered"), st.booleans(), st.data())
    def check(drawn: tuple[StateSpec, list, list[tuple]], smallest: bool, data: st.DataObject) -> None:
        spec, steps, rows = drawn
        with tempfile.TemporaryDirectory() as folder:
            history = play(spec, steps, Path(folder))
            hashes, groups, keys = probes(spec, rows, 1)
            starts = data.draw(st.none() | st.lists(st.none() | st.sampled_from([row[1] for row in rows]),
                                                    min_size=len(keys), max_size=len(keys)))  # fmt: skip
            start = None if starts is None else pa.array(starts, physical_type(spec.columns[1].type))
            got = history.trace(history.versions[-1]).extreme(hashes, groups, smallest, start)
            for i, key in enumerate(keys):
                values = [row[1] for row, n in history.versions[-1].model.items() if n > 0 and row[0] == plain(key[0])]
                if start is not None and start[i].is_valid:
                    bound = plain(start[i].as_py())
                    values = [value for value in values if (value >= bound if smallest else value <= bound)]
                expected = (min if smallest else max)(values) if values else plain(None)
                assert plain(got[i].as_py()) == expected

    check()


def test_deleting_the_smallest_of_a_large_group_reads_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read for a deletion does not grow with the group, nor with what was deleted before."""
    read: list[int] = []
    weights = Run.weights

    def counting(run: Run, rows: np.ndarray) -> np.ndarray:
        read.append(len(rows))
        return weights(run, rows)

    monkeypatch.setattr(Run, "weights", counting)
    spec = StateSpec(7, "ordered", (Column("g", INT), Column("v", INT)), 2)
    n = 200_000
    one = pa.array(np.zeros(n, dtype=np.int32))
    base = Run.of(spec, Rows([one, pa.array(np.arange(n, dtype=np.int32))], np.ones(n, dtype=np.int64)))
    assert base is not None
    group = pa.array([0], pa.int32())
    hashes = hash_columns([group], 1)
    runs, smallest = [base], 0
    for size in (50_000, 1000, 100, 1):  # deleted before, in runs of their own; the last is this batch
        gone = pa.array(np.arange(smallest, smallest + size, dtype=np.int32))
        run = Run.of(spec, Rows([one.slice(0, size), gone], np.full(size, -1)))
        assert run is not None
        runs.append(run)
        start, smallest = pa.array([smallest + size - 1], pa.int32()), smallest + size
        read.clear()
        assert Trace(spec, runs).extreme(hashes, [group], True, start).to_pylist() == [smallest]
        assert sum(read) <= 4 * len(runs)


def test_rows_in_memory_are_the_newest() -> None:
    """This batch's rows win over those of the files."""
    spec = StateSpec(7, "keyed", (Column("k", INT), Column("v", INT)), 1)
    old = Rows([pa.array([1, 2, 3], pa.int32()), pa.array([10, 20, 30], pa.int32())], np.ones(3, dtype=np.int64))
    new = Rows([pa.array([2, 3, 4], pa.int32()), pa.array([21, None, 40], pa.int32())], np.array([1, 0, 1]))
    trace = Trace(spec, []).with_rows(old).with_rows(new)
    assert counted(spec, trace.scan()) == {((1, 0, 1), 10): 1, ((1, 0, 2), 21): 1, ((1, 0, 4), 40): 1}
    assert trace.get([3]) == []
    assert trace.get([2]) == [((2, 21), 1)]
    assert trace.rows == 6


def test_a_state_without_key_columns_has_one_row() -> None:
    """The state of a global aggregate."""
    spec = StateSpec(7, "keyed", (Column("v", INT),), 0)
    trace = Trace(spec, [])
    hashes = hash_columns([], 1)
    assert trace.lookup(hashes, [])[0].tolist() == [False]
    for value in (5, 6):
        trace = trace.with_rows(Rows([pa.array([value], pa.int32())], np.ones(1, dtype=np.int64)))
    found, columns = trace.lookup(hashes, [])
    assert (found.tolist(), columns[0].to_pylist()) == ([True], [6])
    assert trace.get([]) == [((6,), 1)]


def test_a_difference_looks_up_only_what_came_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the older runs were merged meanwhile: a fill's last rounds must be cheap."""
    spec = StateSpec(7, "keyed", (Column("k", INT), Column("v", INT)), 1)
    history = History(spec, tmp_path)
    for start in (0, 50, 100):
        history.batch([(key, start) for key in range(start, start + 100)], [1] * 100, servers=2)
    older = history.trace(history.versions[-1])
    history.merge(history.some_merge(0, 3))
    history.batch([(3, 1), (4, None), (5, 0)], [1, 0, 1], servers=2)
    newer, asked, lookup = history.trace(history.versions[-1]), [], Trace.lookup

    def counting(trace: Trace, hashes: np.ndarray, keys: list[pa.Array]) -> tuple[np.ndarray, list[pa.Array]]:
        asked.append(len(hashes))
        return lookup(trace, hashes, keys)

    monkeypatch.setattr(Trace, "lookup", counting)
    rows = difference(older, newer)
    changes = sorted(zip(rows.columns[0].to_pylist(), rows.columns[1].to_pylist(), rows.weights.tolist(), strict=True))
    assert changes == [(3, 0, -1), (3, 1, 1), (4, 0, -1)]
    assert asked == [3, 3]


def test_a_key_that_comes_twice_in_one_keyed_run_is_refused(tmp_path: Path) -> None:
    spec = StateSpec(9, "keyed", (Column("k", INT),), 1)
    rows = Rows([pa.array([1, 1], pa.int32())], np.ones(2, dtype=np.int64))
    with pytest.raises(ValueError, match="state 9"):
        ZoneFile.writer(disk_in(tmp_path), "a").add(spec, rows)


@pytest.mark.parametrize("spread", [2**64 - 1, 2**40], ids=["even words", "crowded words"])
def test_the_offset_table_finds_what_a_binary_search_finds(spread: int) -> None:
    generator = np.random.default_rng(3)
    words = np.sort(generator.integers(0, spread, 50_000, dtype=np.uint64, endpoint=True) // np.uint64(3))
    bits, table = offset_table(words)
    run = Run(words, None, bits, table, list)
    probes = np.sort(np.append(generator.integers(0, run.high, 5000, dtype=np.uint64), words[::10]))
    assert (run.positions(probes) == np.searchsorted(words, probes)).all()
    assert [run.point.position(word) for word in probes[::50].tolist()] == np.searchsorted(words, probes[::50]).tolist()

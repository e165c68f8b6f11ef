"""Merges keep a trace's runs few and its dead rows few, and write each row seldom."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from state_disk import disk_in
from viewkeeper.catalog.model import Column, StateSpec
from viewkeeper.catalog.types import BIGINT, INT
from viewkeeper.errors import Damaged
from viewkeeper.trace.file import ZoneFile
from viewkeeper.trace.merge import MergeTask, StateMerge, plan_merges, run_merge, spans_of
from viewkeeper.trace.receipt import FileRef, RunRef
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.run import Run, close_files_except
from viewkeeper.trace.trace import Trace

SPEC = StateSpec(5, "keyed", (Column("k", BIGINT), Column("v", BIGINT)), 1)
SPECS = {5: SPEC, 6: StateSpec(6, "keyed", SPEC.columns, 1)}


def ref(first: int, last: int, rows: int, file: str = "", state: int = 5) -> RunRef:
    return RunRef(state, file or f"{first}-{last}-{rows}", 0, rows, rows * 24, 0, 2**64 - 1, first, last)


def merged(refs: list[RunRef], tasks: list[MergeTask]) -> list[RunRef]:
    """What the runs of a state are after `tasks`, if no row dies."""
    for task in tasks:
        for merge in task.merges:
            refs = [run for run in refs if run not in merge.runs]
            first, last = min(run.first for run in merge.runs), max(run.last for run in merge.runs)
            refs.append(ref(first, last, sum(run.rows for run in merge.runs)))
    return sorted(refs, key=lambda run: run.first)


@pytest.mark.parametrize("batch", [100, 3000, 100_000])
def test_spans_stay_logarithmic_and_rows_are_rewritten_seldom(batch: int) -> None:
    """2,000 batches of one size, planned after each."""
    refs: list[RunRef] = []
    written, most = 0, 0
    for version in range(1, 2001):
        refs.append(ref(version, version, batch))
        tasks = plan_merges({5: refs}, SPECS, {}, idle=False)
        written += sum(task.rows for task in tasks)
        refs = merged(refs, tasks)
        most = max(most, len(refs))
    assert most <= (16 if batch == 100_000 else 28)
    assert written / (2000 * batch) <= 6


def test_a_large_state_is_not_rewritten_for_small_batches() -> None:
    refs = [ref(1, 1, 15_000_000)]
    written = 0
    for version in range(2, 502):
        refs.append(ref(version, version, 1000))
        tasks = plan_merges({5: refs}, SPECS, {}, idle=False)
        assert all(refs[0] not in task.runs for task in tasks)
        written += sum(task.rows for task in tasks)
        refs = merged(refs, tasks)
    assert written <= 500_000 * 6


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2_000_000), st.integers(1, 3)), max_size=12),
    st.lists(st.integers(0, 12), max_size=3),
    st.booleans(),
)
def test_a_merge_takes_whole_neighbouring_spans_and_crosses_no_barrier(
    spans: list[tuple[int, int]], barriers: list[int], idle: bool
) -> None:
    refs = [ref(v, v, rows, f"{v}.{i}") for v, (rows, runs) in enumerate(spans, 1) for i in range(runs)]
    for task in plan_merges({5: refs[::-1]}, SPECS, {}, idle=idle, barriers=barriers):
        for merge in task.merges:
            first, last = min(run.first for run in merge.runs), max(run.last for run in merge.runs)
            assert set(merge.runs) == {run for run in refs if first <= run.first <= last}
            assert [run.first for run in merge.runs] == sorted(run.first for run in merge.runs)
            assert not any(first <= barrier < last for barrier in barriers)
            assert merge.oldest == (first == 1)


def test_runs_that_several_view_servers_wrote_are_one_span() -> None:
    refs = [ref(1, 3, 10, "a"), ref(1, 3, 20, "b"), ref(4, 4, 5, "c")]
    assert [(span.first, span.last, span.rows) for span in spans_of(refs)] == [(1, 3, 30), (4, 4, 5)]


def test_small_states_share_a_task_and_a_large_one_has_its_own() -> None:
    states = {state: [ref(v, v, rows, state=state) for v in range(1, 13)] for state, rows in ((5, 100), (6, 2_000_000))}
    states[7] = [ref(v, v, 200, state=7) for v in range(1, 13)]
    tasks = plan_merges(states, {**SPECS, 7: SPEC}, {}, idle=False)
    assert [[merge.runs[0].state for merge in task.merges] for task in tasks] == [[5, 7], [6]]
    assert pickle.loads(pickle.dumps(tasks)) == tasks


def write(folder: Path, name: str, version: int, parts: list[tuple[StateSpec, Rows]]) -> tuple[FileRef, list[RunRef]]:
    writer = ZoneFile.writer(disk_in(folder), name)
    for spec, rows in parts:
        writer.add(spec, rows)
    receipt = writer.finish().at(version, version)
    assert receipt.file
    return receipt.file, list(receipt.runs)


def puts(keys: range, weight: int = 1, value: int = 0) -> Rows:
    columns = [pa.array(keys, pa.int64()), pa.array([value if weight else None] * len(keys), pa.int64())]
    return Rows(columns, np.full(len(keys), weight))


def test_an_idle_state_takes_at_most_twice_the_room_of_its_live_rows(tmp_path: Path) -> None:
    """Random puts and deletes; and once idle, planning comes to an end."""
    generator = np.random.default_rng(5)
    files: dict[str, FileRef] = {}
    refs: list[RunRef] = []
    for version in range(1, 40):
        keys = generator.choice(20_000, int(generator.choice([10, 1000, 8000])), replace=False)
        live = (generator.random(len(keys)) < 0.4).astype(np.int64)
        rows = Rows([pa.array(keys), pa.array(keys)], live)
        file, new = write(tmp_path, f"{version}", version, [(SPEC, rows)])
        files[file.name], refs = file, refs + new
    before = Trace(SPEC, [Run.open(disk_in(tmp_path), run) for run in refs]).scan()
    for turn in range(3):
        tasks = plan_merges({5: refs}, SPECS, files, idle=True)
        assert bool(tasks) == (turn == 0)
        for i, task in enumerate(tasks):
            receipt = run_merge(disk_in(tmp_path), f"merge {turn} {i}", task, {})
            assert receipt.file
            files[receipt.file.name] = receipt.file
            refs = [run for run in refs if run not in task.runs] + list(receipt.runs)
    trace = Trace(SPEC, [Run.open(disk_in(tmp_path), run) for run in refs])
    assert [c.to_pylist() for c in trace.scan().columns] == [c.to_pylist() for c in before.columns]
    named = sum(files[name].length for name in {run.file for run in refs})
    write(tmp_path, "live", 1, [(SPEC, before)])
    assert named <= 2 * (tmp_path / "live").stat().st_size


def test_a_file_that_is_mostly_unnamed_is_rewritten_and_then_left(tmp_path: Path) -> None:
    file, (five, six) = write(tmp_path, "a", 1, [(SPECS[5], puts(range(100))), (SPECS[6], puts(range(10)))])
    whole = plan_merges({5: [five], 6: [six]}, SPECS, {"a": file}, idle=False)
    assert whole == []
    (task,) = plan_merges({6: [six]}, SPECS, {"a": file}, idle=False)
    assert task.runs == (six,)
    receipt = run_merge(disk_in(tmp_path), "b", task, {})
    assert receipt.file and (receipt.runs[0].first, receipt.runs[0].last, receipt.runs[0].rows) == (1, 1, 10)
    assert plan_merges({6: list(receipt.runs)}, SPECS, {"b": receipt.file}, idle=True) == []


@pytest.mark.parametrize("oldest", [False, True])
def test_tombstones_go_only_with_the_oldest_run(tmp_path: Path, oldest: bool) -> None:
    first, one = write(tmp_path, "a", 1, [(SPEC, puts(range(10)))])
    second, two = write(tmp_path, "b", 2, [(SPEC, puts(range(5, 15), weight=0))])
    receipt = run_merge(
        disk_in(tmp_path), "c", MergeTask((StateMerge(SPEC, (*one, *two), oldest),), (first, second)), {}
    )
    assert (receipt.runs[0].first, receipt.runs[0].last) == (1, 2)
    assert receipt.runs[0].rows == (5 if oldest else 15)


def test_a_merge_of_which_nothing_remains_writes_no_file(tmp_path: Path) -> None:
    first, one = write(tmp_path, "a", 1, [(SPEC, puts(range(10)))])
    second, two = write(tmp_path, "b", 2, [(SPEC, puts(range(10), weight=0))])
    task = MergeTask((StateMerge(SPEC, (*one, *two), True),), (first, second))
    receipt = run_merge(disk_in(tmp_path), "c", task, {})
    assert (receipt.file, receipt.runs) == (None, ())
    assert not (tmp_path / "c").exists()


def test_rows_of_dropped_views_go(tmp_path: Path) -> None:
    spec = StateSpec(8, "keyed", (Column("member", INT, False), Column("k", BIGINT)), 2, member=True)
    members = pa.array([1, 2, 3, 1], pa.int32())
    rows = Rows([members, pa.array([1, 2, 3, 4], pa.int64())], np.ones(4, dtype=np.int64))
    file, runs = write(tmp_path, "a", 1, [(spec, rows)])
    receipt = run_merge(disk_in(tmp_path), "b", MergeTask((StateMerge(spec, tuple(runs), True),), (file,)), {8: {1, 3}})
    assert Run.open(disk_in(tmp_path), receipt.runs[0]).columns[0].to_pylist() == [2]


def test_a_merge_refuses_damaged_input(tmp_path: Path) -> None:
    file, runs = write(tmp_path, "a", 1, [(SPEC, puts(range(1000)))])
    data = bytearray((tmp_path / "a").read_bytes())
    data[5000] ^= 4
    (tmp_path / "a").write_bytes(data)
    close_files_except(disk_in(tmp_path), ())
    with pytest.raises(Damaged, match="a: section 0, words"):
        run_merge(disk_in(tmp_path), "b", MergeTask((StateMerge(SPEC, tuple(runs), True),), (file,)), {})

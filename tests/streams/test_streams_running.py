"""A generated view's parts are what its program says of the source, however it is cut into works, and after repairs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from part_programs import (
    GROUPED,
    HELPER,
    PROGRAMS,
    SOURCE,
    VIEW,
    GroupedWindow,
    Keeper,
    LastState,
    OwnWindow,
    Row,
    RunningSum,
    block_of,
)  # fmt: skip
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.streams import part_files, past, preparing, running
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.running import changed_hashes
from viewkeeper.trace.local_disk import LocalDisk

LAST = 9

row = st.tuples(st.sampled_from(["a", "b", "c", "d", "é", None]), st.integers(-3, 4) | st.none())
some_rows = st.lists(row, min_size=1, max_size=6)


@contextmanager
def keeper(program: Any, servers: int, small: int = 0, memory: int = past.MEMORY_BYTES) -> Iterator[Keeper]:
    """A view in a folder of its own; works of more than `small` rows go to all view servers (three are many)."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparing, "SMALL_ROWS", small)
        patch.setattr(preparing, "SMALL_GROUPED_ROWS", small)
        patch.setattr(preparing, "SLICE_ROWS", 3)
        patch.setattr(preparing, "WIDE_SLICE_ROWS", 4)
        patch.setattr(preparing, "DIRECT_SERVERS", 2)
        patch.setattr(part_files, "SHARED_ROWS", 4)
        patch.setattr(past, "MEMORY_BYTES", memory)
        patch.setattr(running, "MEMORY_BYTES", memory)
        patch.setattr(LocalDisk, "upload", lambda disk, file, name: None)  # syncing would take most of the time
        yield Keeper(Path(name), LocalExecutor(servers), program, 0)


def touched_of(kept: Keeper, part: int, rows: list[Row], was_empty: bool) -> dict[int, np.ndarray | None]:
    """What late rows in a part touch, as the driver finds it: their groups, in all parts that read the part; all groups
    where a part is computed for the first time and what it does not find is lost."""
    hashes = np.unique(block_of([r for r in rows if r[1] is not None or kept.source == GROUPED]).hashes)
    reads = kept.program.inputs[0]
    reading = [j for j in range(part, kept.next) if reads.low.at(j) <= part <= reads.high.at(j)]
    return dict.fromkeys(reading, None if was_empty and kept.program.carry != "none" else hashes)


def merge(one: dict[int, np.ndarray | None], other: dict[int, np.ndarray | None]) -> dict[int, np.ndarray | None]:
    result = dict(one)
    for part, hashes in other.items():
        mine = result.get(part, hashes)
        result[part] = None if mine is None or hashes is None else np.union1d(mine, hashes)
    return result


@st.composite
def histories(draw: st.DrawFn) -> Any:
    """(rows of each part, ends of the works, batches of late rows)."""
    parts = draw(st.dictionaries(st.integers(-2, LAST), some_rows, max_size=9))
    cuts = sorted(draw(st.sets(st.integers(0, LAST - 1), max_size=3))) + [LAST]
    late = draw(st.lists(st.dictionaries(st.integers(0, LAST), some_rows, min_size=1, max_size=2), max_size=3))
    return parts, cuts, late


def clean(rows: list[Row], kept: Keeper) -> list[Row]:
    """A source with groups has no NULL to be left out."""
    return [r for r in rows if r[1] is not None] if kept.source == GROUPED else rows


def check(program: Any, history: Any, servers: list[int], most: int, small: int, memory: int) -> None:
    parts, cuts, late = history
    with keeper(program, servers[0], small, memory) as kept:
        for part, rows in parts.items():
            kept.add(part, clean(rows, kept))
        if isinstance(program, LastState | OwnWindow):
            kept.first = kept.next = min([0, *kept.parts])  # there is nothing before that it could read
        for cut in cuts:
            assert kept.build(cut).error is None
        assert kept.found() == kept.expected()
        for batch, number in zip(late, [*servers[1:], *servers], strict=False):
            kept.executor.servers = number
            before, touched = kept.found(), dict[int, np.ndarray | None]()
            for part, rows in batch.items():
                was_empty = not kept.filled(part)
                kept.add(part, clean(rows, kept))
                if clean(rows, kept):
                    touched = merge(touched, touched_of(kept, part, clean(rows, kept), was_empty))
            changes = kept.repair(touched, most)
            after = kept.found()
            assert after == kept.expected()
            for object_, built in after.items():
                for part, now in built.items():
                    assert bool(changes.get((object_, part))) == (now != before[object_][part]), (object_, part)
        for ref in kept.files.values():
            part_files.verify_part_file(LocalDisk(str(kept.root)), ref)


servers = st.lists(st.integers(1, 3), min_size=3, max_size=3)
sizes = st.sampled_from([0, 0, 1000])
memories = st.sampled_from([0, 100, past.MEMORY_BYTES])


@settings(max_examples=examples(120), deadline=None)
@given(st.sampled_from(PROGRAMS), histories(), servers, st.integers(1, 12), sizes, memories)
def test_every_part_is_what_the_program_says_of_the_source(
    program: Any, history: Any, servers: list[int], most: int, small: int, memory: int
) -> None:
    """After building in any works and any repairs, with any number of view servers, all parts equal a recomputation
    from scratch, and exactly the parts whose rows differ from before are said to have changed."""
    check(program, history, servers, most, small, memory)


@pytest.mark.usefixtures("four_hashes")
def test_groups_of_one_hash_are_told_apart() -> None:
    """The same when collisions are the rule."""

    @settings(max_examples=examples(50), deadline=None)
    @given(st.sampled_from(PROGRAMS), histories(), servers, st.integers(1, 12), sizes, memories)
    def inner(program: Any, history: Any, servers: list[int], most: int, small: int, memory: int) -> None:
        check(program, history, servers, most, small, memory)

    inner()


def test_a_repair_keeps_the_pieces_that_it_does_not_touch() -> None:
    """A piece none of whose groups changed is named again; the others, and nothing else, are written anew."""
    with keeper(RunningSum(), 3) as kept:
        groups = [f"group {i}" for i in range(60)]
        for part in range(3):
            kept.add(part, [(g, 1) for g in groups])
        kept.build(2)
        old = dict(kept.pieces)
        assert [len(old[HELPER, part]) for part in range(3)] == [3, 3, 3]
        kept.add(1, [(groups[0], 5)])
        assert kept.repair(touched_of(kept, 1, [(groups[0], 5)], False), 10) == {
            (HELPER, 1): 1, (VIEW, 1): 1, (HELPER, 2): 1, (VIEW, 2): 1}  # fmt: skip
        assert kept.pieces[HELPER, 0] == old[HELPER, 0]
        hash_ = int(block_of([(groups[0], 0)]).hashes[0])
        for part in (1, 2):
            stayed = [piece for piece in old[HELPER, part] if not piece.low <= hash_ <= piece.high]
            assert len(stayed) == 2
            assert kept.pieces[HELPER, part][:2] == tuple(stayed)
        assert kept.found() == kept.expected()


def test_a_piece_of_all_intervals_is_divided() -> None:
    """Where one view server wrote a part and several repair it, what none of them changes stays where it is."""
    with keeper(RunningSum(), 1, small=0) as kept:
        groups = [f"group {i}" for i in range(60)]
        kept.add(0, [(g, 1) for g in groups])
        kept.build(0)
        (whole,) = kept.pieces[HELPER, 0]
        kept.executor.servers = 3
        kept.add(0, [(groups[0], 5)])
        kept.repair(touched_of(kept, 0, [(groups[0], 5)], False), 10)
        files = [piece.file == whole.file for piece in kept.pieces[HELPER, 0]]
        assert sorted(files) == [False, True, True]
        assert kept.found() == kept.expected()


def test_a_repair_that_changes_nothing_writes_nothing() -> None:
    """Late rows that cancel out leave every piece as it is, and the parts behind are not even looked at."""
    with keeper(LastState(), 2) as kept:
        for part in range(5):
            kept.add(part, [("a", 1), ("b", part)])
        kept.build(4)
        old = dict(kept.pieces)
        kept.add(1, [("a", 7), ("b", -7)])
        changes = kept.repair(touched_of(kept, 1, [("a", 7), ("b", -7)], False), 10)
        assert changes == {(HELPER, 1): 0, (VIEW, 1): 0}
        assert {place: pieces for place, pieces in kept.pieces.items() if place[0] != SOURCE} == {
            place: pieces for place, pieces in old.items() if place[0] != SOURCE}  # fmt: skip
        assert kept.found() == kept.expected()


def test_parts_that_are_not_read_again_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window over many parts reads each part of its source once, and remembers no more than the window."""
    read: list[int] = []
    whole = past.read_part
    monkeypatch.setattr(
        past, "read_part", lambda *args, **kw: read.extend(p.rows for p in args[1]) or whole(*args, **kw)
    )
    with keeper(GroupedWindow(), 1, small=1000) as kept:
        for part in range(20):
            kept.add(part, [(str(i), 1) for i in range(part + 1)])
        kept.build(19)
        assert sorted(read) == list(range(1, 21))
        assert kept.found() == kept.expected()


@pytest.mark.parametrize("servers", [1, 2])
def test_what_a_program_raises_is_the_outcome(servers: int) -> None:
    """A query that raises is the view's error with its own words; a defect is marked as one; nothing is made."""
    for value, said in (
        (666, "^part 2: the row of 666 raises$"),
        (667, "^a defect in viewkeeper: KeyError: 'a defect'"),
    ):
        with keeper(RunningSum(), servers) as kept:
            kept.add(1, [("a", 1)])
            kept.add(2, [("a", value)])
            outcome = kept.build(2)
            assert outcome.error is not None and not outcome.made and not outcome.files
            with pytest.raises(AssertionError, match=said):
                raise AssertionError(outcome.error)


class Mixing(RunningSum):
    """Says nothing of what it reads, gives rows of other groups, or other columns."""

    def advance(self, part: int, rows: Block, past: Any) -> Any:
        if part == 1:
            return {VIEW: Block(rows.columns, ~rows.hashes)}
        if part == 2:
            return {VIEW: Block(rows.columns[:1], rows.hashes)}
        return {VIEW: past.read({3: HELPER, 4: SOURCE}[part], part)}


@pytest.mark.parametrize(("part", "said"), [(1, "groups that were not asked for"), (2, "came as columns"),
                                            (3, "no input names"), (4, "has no groups")])  # fmt: skip
def test_a_program_that_breaks_its_word_is_found_out(part: int, said: str) -> None:
    """Rows of foreign groups, other columns and undeclared reading would make wrong repairs: they are refused."""
    with keeper(Mixing(), 2) as kept:
        kept.add(part, [(g, 1) for g in "abcdefgh"])
        kept.next = part
        error = kept.build(part).error
        assert error is not None and said in error and error.startswith("a defect in viewkeeper")


def test_equal_rows_are_compared_as_bags() -> None:
    """Which rows changed is found exactly: order, -0.0 and the bits of NaN say nothing, how often a row comes does."""
    nan = np.array([0x7FF8000000000001], dtype=np.uint64).view(np.float64)[0]

    def block(rows: list[tuple[int, float | None, str]]) -> Block:
        hashes, floats, texts = zip(*rows, strict=True) if rows else ((), (), ())
        columns = [pa.array(floats, pa.float64(), from_pandas=False), pa.array(texts, pa.large_string())]
        return Block(columns, np.array(hashes, dtype=np.uint64))

    old = block([(1, -0.0, "x"), (1, nan, "y"), (2, None, "x"), (2, None, "x"), (3, 1.0, "x"), (2**64 - 1, 1.0, "x")])
    new = block([(1, float("nan"), "y"), (1, 0.0, "x"), (2, None, "x"), (3, 1.0, "y"), (5, 2.0, "")])
    assert changed_hashes(old, new).tolist() == [2, 3, 5, 2**64 - 1]
    assert changed_hashes(old, old).tolist() == []
    assert changed_hashes(block([]), block([])).tolist() == []


def test_small_parts_share_a_task() -> None:
    """What one task prepares is counted in rows: many small parts are few tasks, and a large part is several."""
    with keeper(RunningSum(), 2) as kept, pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparing, "SLICE_ROWS", 10)
        works: list[Any] = []
        patch.setattr(kept.executor, "run", lambda job: works.append(job.work) or LocalExecutor(2).run(job))
        for part, rows in enumerate([3, 3, 3, 3, 25, 1]):
            kept.add(part, [("a", 1)] * rows)
        kept.build(5)
        tasks = preparing.prepare_tasks(works[0])
        assert [[(part, piece.offset, piece.rows) for part, piece in task] for task in tasks] == [
            [(0, 0, 3), (1, 0, 3), (2, 0, 3)], [(3, 0, 3)], [(4, 0, 10)], [(4, 10, 10)], [(4, 20, 5), (5, 0, 1)],
        ]  # fmt: skip
        assert kept.found() == kept.expected()

"""The part catalog says of every part what was last put, in memory and from a manifest, in few rows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from viewkeeper.catalog.model import PARTS, Catalog
from viewkeeper.streams import part_index
from viewkeeper.streams.part_index import Part, PartIndex, read_index, rows_of
from viewkeeper.streams.work import Piece
from viewkeeper.trace.file import ZoneFile
from viewkeeper.trace.local_disk import local_storage
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.snapshot import Change, Snapshot

Model = dict[int, Part]
"""What is said of each part alone."""

LOW, HIGH = -12, 12


def changed_rows(before: Mapping[int, PartIndex], after: Mapping[int, PartIndex]) -> Rows:
    """What has to be written to PARTS so that it says `after` where it said `before`."""
    changes, removed = {}, {}
    for id_ in before.keys() | after.keys():
        old, new = before.get(id_, PartIndex()), after.get(id_, PartIndex())
        if old is not new:
            changes[id_], removed[id_] = new.difference(old)
    return rows_of(changes, removed)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cuts and joins of chunks come with few rows."""
    monkeypatch.setattr(part_index, "_CHUNK_ROWS", 2)


def alone(row: Part, part: int) -> Part:
    return replace(row, part=part, last=part)


subscripts = st.integers(LOW, HIGH)
pieces = st.builds(Piece, st.sampled_from(["a.parquet", "ü.parquet"]), st.integers(0, 2**40), st.just(1))
wide = st.builds(Piece, st.just("b"), st.just(0), st.just(1), st.integers(0, 2**63), st.integers(2**63, 2**64 - 1))


@st.composite
def rows(draw: st.DrawFn) -> Part:
    part, updated = draw(subscripts), draw(st.integers(1, 3))
    dimensions = draw(st.dictionaries(st.integers(16, 18), st.integers(0, 1), max_size=2))
    if draw(st.booleans()):
        return Part(part, draw(st.integers(part, HIGH)), 0, updated, updated * 10, (), dimensions)
    own = draw(st.lists(pieces | wide, min_size=1, max_size=2))
    return Part(part, part, draw(st.integers(1, 2**40)), updated, updated * 10, tuple(own), dimensions)


ranges = st.tuples(subscripts, subscripts).map(lambda pair: (min(pair), max(pair)))
steps = st.lists(rows() | ranges, max_size=12)


def apply(step: Part | tuple[int, int], index: PartIndex, model: Model) -> PartIndex:
    """`put` or `drop`, on both."""
    if isinstance(step, Part):
        model.update({part: alone(step, part) for part in range(step.part, step.last + 1)})
        return index.put(step)
    for part in range(step[0], step[1] + 1):
        model.pop(part, None)
    return index.drop(*step)


def spelled_out(index: PartIndex) -> Model:
    found = [alone(row, part) for row in index for part in range(row.part, row.last + 1)]
    assert [row.part for row in found] == sorted({row.part for row in found}), "each part stands once, ascending"
    return {row.part: row for row in found}


def expected_ranges(model: Model, changed: Callable[[Part], bool]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for part in sorted(part for part, row in model.items() if changed(row)):
        if found and found[-1][1] == part - 1:
            found[-1] = (found[-1][0], part)
        else:
            found.append((part, part))
    return found


@settings(max_examples=examples(300), deadline=None)
@given(steps, ranges)
def test_an_index_is_what_a_dictionary_would_be(taken: list[Part | tuple[int, int]], asked: tuple[int, int]) -> None:
    """After any puts and drops every question has the answer of a dictionary with an entry for each part."""
    index, model = PartIndex(), Model()
    for step in taken:
        index = apply(step, index, model)
    assert spelled_out(index) == model
    assert (index.first, index.last) == ((min(model), max(model)) if model else (None, None))
    filled = sorted(part for part, row in model.items() if row.rows)
    for part in range(LOW - 2, HIGH + 3):
        row = index.at(part)
        assert (None if row is None else alone(row, part)) == model.get(part)
        assert index.next_with_rows(part) == min((p for p in filled if p > part), default=None)
        assert index.previous_with_rows(part) == max((p for p in filled if p < part), default=None)
    inside = [part for part in filled if asked[0] <= part <= asked[1]]
    assert [row.part for row in index.with_rows(*asked)] == index.filled(*asked).tolist() == inside
    for version in range(4):
        assert index.changed_since(version) == expected_ranges(model, lambda row: row.updated > version)  # noqa: B023
        assert index.changed_since(stamp=10 * version) == index.changed_since(version)


@settings(max_examples=examples(200), deadline=None)
@given(steps, steps)
def test_the_difference_makes_one_index_into_the_other(
    first: list[Part | tuple[int, int]], second: list[Part | tuple[int, int]]
) -> None:
    """Writing what `difference` gives, over the stored rows of the older index, gives those of the newer one; the older
    one stays as it was."""
    older, model = PartIndex(), Model()
    for step in first:
        older = apply(step, older, model)
    before, newer = list(older), older
    for step in second:
        newer = apply(step, newer, model)
    assert list(older) == before
    changed, removed = newer.difference(older)
    stored = {row.part: row for row in older}
    assert not {row.part for row in changed} & set(removed)
    assert all(stored.get(row.part) != row for row in changed), "nothing is written that stands there already"
    for key in removed:
        del stored[key]
    stored.update({row.part: row for row in changed})
    assert sorted(stored.values(), key=lambda row: row.part) == list(newer)
    assert newer.difference(newer) == ([], [])


def test_a_million_empty_parts_are_one_row() -> None:
    """A run of empty parts is one row; rows for a part in it cut it in three; and what is the same is joined again."""
    index = PartIndex().put(Part(0, 999_999, 0, 1, 10)).put(Part(1_000_000, 1_999_999, 0, 1, 10))
    assert list(index) == [Part(0, 1_999_999, 0, 1, 10)]
    index = index.put(Part(5, 5, 3, 2, 20, (Piece("a", 0, 3),)))
    assert [(row.part, row.last) for row in index] == [(0, 4), (5, 5), (6, 1_999_999)]
    assert index.changed_since(1) == [(5, 5)]
    index = index.put(Part(5, 5, 0, 3, 30))
    assert len(index) == 3, "that it changed later is remembered"
    assert list(index.put(Part(5, 5, 0, 1, 10))) == [Part(0, 1_999_999, 0, 1, 10)]


def test_a_run_with_rows_is_refused() -> None:
    """Only empty parts can share a row."""
    for wrong in (
        lambda: Part(1, 2, 1, 1, 1),
        lambda: Part(1, 2, 0, 1, 1, (Piece("a", 0, 1),)),
        lambda: Part(2, 1, 0, 1, 1),
    ):
        with pytest.raises(ValueError, match="run of empty parts"):
            wrong()
    for ask in (lambda: PartIndex().changed_since(), lambda: PartIndex().changed_since(1, stamp=1)):
        with pytest.raises(ValueError, match="version or a time"):
            ask()


class Database:
    """A database of nothing but the part catalog."""

    def __init__(self, root: Path) -> None:
        self.storage = local_storage(root)
        self.snapshot = self.storage.initialise(Catalog())

    def write(self, rows: Rows) -> Snapshot:
        """Commits the next version."""
        version = self.snapshot.version + 1
        writer = ZoneFile.writer(self.storage.disk, f"{version}.zone")
        writer.add(PARTS, rows)
        receipt = writer.finish().at(version, version)
        self.snapshot = self.storage.next(self.snapshot, Change("batch", version, added=[receipt]))
        return self.snapshot


def spelled(indexes: Mapping[int, PartIndex]) -> dict[int, list[Part]]:
    return {id_: list(index) for id_, index in indexes.items() if len(index)}


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from([16, 17]), rows() | ranges), max_size=5), max_size=5), st.data())
def test_the_catalog_of_every_version_is_read_from_its_manifest(
    versions: list[list[tuple[int, Part | tuple[int, int]]]], data: st.DataObject
) -> None:
    """What was staged and committed is what every version says, read in any order, from scratch or from another."""
    with tempfile.TemporaryDirectory() as name:
        database = Database(Path(name))
        staged: dict[int, PartIndex] = {}
        kept = [(database.snapshot, spelled(staged))]
        for changes in versions:
            before = dict(staged)
            for id_, step in changes:
                staged[id_] = apply(step, staged.get(id_, PartIndex()), {})
            kept.append((database.write(changed_rows(before, staged)), spelled(staged)))
        for snapshot, expected in data.draw(st.permutations(kept)):
            assert spelled(read_index(snapshot)) == expected
            if data.draw(st.booleans()):
                part_index._known.clear()


def test_the_index_of_a_version_is_kept(tmp_path: Path) -> None:
    """A second reader of a version gets the same index, and the next version shares what did not change."""
    database = Database(tmp_path)
    one = {16: PartIndex().put(Part(1, 5, 0, 1, 1)), 17: PartIndex().put(Part(1, 1, 0, 1, 1))}
    first = database.write(changed_rows({}, one))
    assert read_index(first) is read_index(first)
    second = database.write(changed_rows(one, {**one, 17: one[17].put(Part(2, 2, 0, 2, 2))}))
    assert read_index(second)[16] is read_index(first)[16]
    third = database.write(rows_of({}, {16: [1], 17: [1, 2]}))
    assert spelled(read_index(third)) == {}

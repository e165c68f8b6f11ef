"""The chain of manifests says what was committed, whoever reads it and from wherever they start."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commit_model import contents, database, receipt
from drawn import examples
from viewkeeper.catalog.model import Catalog, Column, StateSpec, Stored, View
from viewkeeper.catalog.types import BIGINT
from viewkeeper.errors import Damaged, NotFound
from viewkeeper.trace import snapshot as snapshots
from viewkeeper.trace.commit import GLANCE_SECONDS, SETTLED_SECONDS, Storage, manifest_name
from viewkeeper.trace.disk import FolderMark
from viewkeeper.trace.file import ZoneFile
from viewkeeper.trace.local_disk import LocalDisk, local_storage
from viewkeeper.trace.manifest import Manifest
from viewkeeper.trace.naming import FileName, file_name, parse_file_name
from viewkeeper.trace.receipt import RunRef
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.snapshot import Change, MergeOutdated, Snapshot


class Model:
    """What must be in the database: plain dictionaries, changed in place."""

    def __init__(self, version: int) -> None:
        self.version, self.stamp = version, 0
        self.positions: dict[int, int] = {}
        self.runs: set[RunRef] = set()
        self.files: dict[str, object] = {}

    def check(self, snapshot: Snapshot) -> None:
        states: dict[int, list[RunRef]] = {}
        for run in self.runs:
            states.setdefault(run.state, []).append(run)
        assert {state: set(runs) for state, runs in snapshot.states.items()} == {k: set(v) for k, v in states.items()}
        assert all([r.first for r in runs] == sorted(r.first for r in runs) for runs in snapshot.states.values())
        used = {run.file for run in self.runs}
        assert snapshot.files == {name: file for name, file in self.files.items() if name in used}
        assert (snapshot.version, snapshot.positions, snapshot.stamp) == (self.version, self.positions, self.stamp)


STEPS = st.lists(
    st.tuples(st.sampled_from(["batch", "merge", "drop", "catalog", "epoch"]), st.sets(st.integers(1, 4), min_size=1)),
    min_size=1, max_size=25,
)  # fmt: skip


def take_step(storage: Storage, snapshot: Snapshot, model: Model, kind: str, states: set[int]) -> Snapshot:
    """Commit one step of `kind` that touches `states`, in the database and in the model."""
    if kind == "epoch":
        return storage.new_epoch(snapshot)
    if kind == "merge":
        present = {state: snapshot.states[state] for state in states if state in snapshot.states}
        merged = [run for runs in present.values() for run in runs[:2]]
        if not merged:
            return snapshot
        first, last = min(run.first for run in merged), max(run.last for run in merged)
        written = receipt(last, sorted(present), first=first, kind="merge")
        runs = tuple(
            replace(run, first=present[run.state][0].first, last=present[run.state][:2][-1].last)
            for run in written.runs
        )
        change = Change("merge", snapshot.version, added=[replace(written, runs=runs)], removed=merged)
    elif kind == "drop":
        gone = [run for state in states for run in snapshot.states.get(state, ())]
        change = Change("catalog", snapshot.version + 1, removed=gone, catalog=Catalog(next_id=snapshot.number))
    else:
        added = [receipt(snapshot.version + 1, sorted(states))] if kind == "batch" else []
        catalog = Catalog(next_id=snapshot.number) if kind == "catalog" else None
        positions = dict.fromkeys(states, snapshot.number)
        change = Change("batch", snapshot.version + 1, positions, added, catalog=catalog, stamp=snapshot.number)
    model.version = change.version
    model.positions = model.positions if change.positions is None else change.positions
    model.stamp = model.stamp if change.stamp is None else change.stamp
    model.runs -= set(change.removed)
    for written in change.added:
        model.runs |= set(written.runs)
        assert written.file is not None
        model.files[written.file.name] = written.file
    return storage.next(snapshot, change)


@settings(max_examples=examples(25), deadline=None)
@given(STEPS, st.integers(1, 6))
def test_every_reader_sees_what_the_model_says_after_every_step(steps: list[tuple[str, set[int]]], every: int) -> None:
    """Whether kept by the driver, followed by a reader, or read cold, across checkpoints: the same, and the model's."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "CHECKPOINT_EVERY", every)
        storage, snapshot = database(Path(folder))
        reader = local_storage(Path(folder))
        followed = reader.newest()
        model, history = Model(snapshot.version), [contents(snapshot)]
        for kind, states in steps:
            snapshot = take_step(storage, snapshot, model, kind, states)
            model.check(snapshot)
            followed = reader.refresh(followed)
            cold = local_storage(Path(folder)).newest()
            assert contents(followed) == contents(cold) == contents(snapshot)
            assert cold.catalog == followed.catalog == snapshot.catalog
            if history[-1] != contents(snapshot):
                history.append(contents(snapshot))
        for old in history:
            assert contents(local_storage(Path(folder)).at(int(str(old["number"])))) == old


def test_a_snapshot_is_the_same_object_while_nothing_is_new(tmp_path: Path) -> None:
    """`refresh` of the newest snapshot gives back that very object, and after a commit the next one."""
    storage, snapshot = database(tmp_path)
    reader = local_storage(tmp_path)
    seen = reader.newest()
    assert reader.refresh(seen) is seen
    assert reader.refresh(snapshot) is snapshot
    storage.next(snapshot, Change("batch", 1))
    assert reader.refresh(seen).number == seen.number + 1


class CoarseDisk(LocalDisk):
    """A file system whose clock goes by ticks of 40 ms; it counts how often a file is looked for."""

    looks = 0

    def folder_mark(self, folder: str) -> FolderMark | None:
        mark = super().folder_mark(folder)
        return mark and mark._replace(changed=mark.changed // 0.04 * 0.04)

    def exists(self, name: str) -> bool:
        CoarseDisk.looks += 1
        return super().exists(name)


def test_commits_within_one_tick_of_the_clock_are_all_seen(tmp_path: Path) -> None:
    storage, snapshot = database(tmp_path)
    reader = Storage(tmp_path, CoarseDisk(str(tmp_path)))
    for _ in range(20):
        for _ in range(2):
            snapshot = storage.next(snapshot, Change("batch", snapshot.version + 1))
            assert reader.newest().number == snapshot.number


def test_a_folder_that_stays_as_it_is_costs_one_look(tmp_path: Path) -> None:
    _, snapshot = database(tmp_path)
    reader = Storage(tmp_path, CoarseDisk(str(tmp_path)))
    time.sleep(SETTLED_SECONDS + 0.05)
    for _ in range(2):  # the first reads it, the second finds it unchanged
        time.sleep(2 * GLANCE_SECONDS)
        assert reader.newest().number == snapshot.number
    before = CoarseDisk.looks
    for _ in range(5):
        time.sleep(0.002)
        assert reader.newest().number == snapshot.number
    assert CoarseDisk.looks == before


def test_versions_count_what_is_said_and_numbers_every_step(tmp_path: Path) -> None:
    """A merge and an epoch take a number but keep the version; a batch cannot skip one."""
    storage, snapshot = database(tmp_path)
    assert (snapshot.number, snapshot.version, snapshot.epoch) == (2, 0, 2)
    snapshot = storage.next(snapshot, Change("batch", 1, added=[receipt(1, [5])]))
    snapshot = storage.next(
        snapshot, Change("merge", 1, added=[receipt(1, [5], kind="merge")], removed=snapshot.states[5])
    )
    assert (snapshot.number, snapshot.version) == (4, 1)
    for change in (Change("batch", 1), Change("batch", 3), Change("merge", 2), Change("epoch", 2)):
        with pytest.raises(ValueError, match="cannot make version"):
            storage.next(snapshot, change)


def test_there_is_no_database_in_an_empty_folder(tmp_path: Path) -> None:
    """Opening what is not a database says so, and making one twice leaves the first as it is."""
    with pytest.raises(NotFound, match="no database"):
        local_storage(tmp_path).newest()
    first = local_storage(tmp_path).initialise(Catalog(zone="Asia/Tokyo"))
    again = local_storage(tmp_path).initialise(Catalog())
    assert contents(first) == contents(again)
    assert again.catalog.zone == "Asia/Tokyo"


def test_a_trace_stays_open_for_as_long_as_its_runs_stay(tmp_path: Path) -> None:
    """A snapshot reads its own runs, also when they are gone from the newest; what did not change is opened once."""
    storage, snapshot = database(tmp_path)
    spec = StateSpec(16, "keyed", (Column("k", BIGINT, False), Column("v", BIGINT)), 1)
    for version, value in ((1, 10), (2, 20)):
        writer = ZoneFile.writer(storage.disk, file_name(version, 2, 1, 0, version, "batch"))
        writer.add(spec, Rows([pa.array([7]), pa.array([value])], np.ones(1, dtype=np.int64)))
        written = writer.finish().at(version, version)
        snapshot = storage.next(snapshot, Change("batch", version, added=[written]))
        if version == 1:
            older = snapshot
    reader = local_storage(tmp_path)
    seen = reader.newest()
    trace = seen.trace(spec)
    later = storage.next(snapshot, Change("batch", 3))
    assert reader.refresh(seen).trace(spec) is trace
    storage.next(later, Change("catalog", 4, removed=later.states[16]))
    assert reader.refresh(seen).trace(spec).get([7]) == []
    assert trace.get([7]) == seen.trace(spec).get([7]) == [((7, 20), 1)]
    assert older.trace(spec).get([7]) == [((7, 10), 1)]


# Merges


def test_a_merge_whose_input_is_gone_is_refused(tmp_path: Path) -> None:
    """Nothing is committed when a run to be replaced is not there any more."""
    storage, snapshot = database(tmp_path)
    snapshot = storage.next(snapshot, Change("batch", 1, added=[receipt(1, [5, 6])]))
    inputs = snapshot.states[5]
    snapshot = storage.next(snapshot, Change("catalog", 2, removed=inputs))
    with pytest.raises(MergeOutdated, match="does not hold"):
        storage.next(snapshot, Change("merge", 2, added=[receipt(1, [5], kind="merge")], removed=inputs))
    assert local_storage(tmp_path).newest().number == snapshot.number


def test_a_merge_that_leaves_a_run_between_its_inputs_is_refused(tmp_path: Path) -> None:
    """Versions 1 and 3 cannot become one run while 2 stays, unless 2 has none of their words."""
    storage, snapshot = database(tmp_path)
    for version, words in ((1, (0, 99)), (2, (50, 150)), (3, (0, 99)), (4, (100, 200))):
        change = Change("batch", version, added=[receipt(version, [5], words=words)])
        snapshot = storage.next(snapshot, change)
    one, two, three, four = snapshot.states[5]
    with pytest.raises(MergeOutdated, match="merged without"):
        storage.next(snapshot, Change("merge", 4, added=[receipt(3, [5], first=1)], removed=[one, three]))
    with pytest.raises(ValueError, match="made a run of others"):
        storage.next(snapshot, Change("merge", 4, added=[receipt(4, [5], first=2)], removed=[two, three]))
    merged = storage.next(snapshot, Change("merge", 4, added=[receipt(3, [5], first=1)], removed=[one, two, three]))
    assert [(run.first, run.last) for run in merged.states[5]] == [(1, 3), (4, 4)]
    assert set(merged.files) == {run.file for run in merged.states[5]}
    assert four in merged.states[5]


def test_a_run_must_come_with_its_file(tmp_path: Path) -> None:
    """No manifest names a run in a file that it does not name."""
    storage, snapshot = database(tmp_path)
    with pytest.raises(ValueError, match="no receipt gives"):
        storage.next(snapshot, Change("batch", 1, added=[replace(receipt(1, [5]), file=None)]))


# Damage


def manifest_file(root: Path, number: int) -> Path:
    return root / manifest_name(number)


def chain_of(root: Path, steps: int) -> Snapshot:
    storage, snapshot = database(root)
    for version in range(1, steps + 1):
        snapshot = storage.next(snapshot, Change("batch", version, {0: version}, [receipt(version, [5])]))
    return snapshot


def test_a_flipped_byte_of_a_manifest_is_noticed(tmp_path: Path) -> None:
    """Wherever the byte is, and in whichever manifest of the chain: `Damaged`, with the file's name."""
    newest = chain_of(tmp_path, 3)
    for number in range(newest.since, newest.number + 1):
        path = manifest_file(tmp_path, number)
        whole = path.read_bytes()
        for place in range(0, len(whole), 1 if number == newest.number else 17):
            for mask in (0x01, 0x80):
                path.write_bytes(whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :])
                with pytest.raises(Damaged, match=path.name):
                    local_storage(tmp_path).newest()
        for length in (0, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:length])
            with pytest.raises(Damaged, match=path.name):
                local_storage(tmp_path).newest()
        path.write_bytes(whole)
    assert contents(local_storage(tmp_path).newest()) == contents(newest)


def test_a_flipped_byte_of_a_catalog_is_noticed(tmp_path: Path) -> None:
    """Reading a damaged catalog raises `Damaged`, and names it."""
    local_storage(tmp_path).initialise(Catalog(zone="Asia/Tokyo"))
    (path,) = (tmp_path / "catalogs").iterdir()
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x20]) + whole[place + 1 :])
        with pytest.raises(Damaged, match=path.name):
            local_storage(tmp_path).newest().catalog


def test_a_hole_in_the_chain_is_named(tmp_path: Path) -> None:
    """A missing manifest that the newest builds on is an error with its number, not an older database."""
    newest = chain_of(tmp_path, 5)
    manifest_file(tmp_path, 5).unlink()
    with pytest.raises(Damaged, match=f"manifest 000000000005.json .* is missing, and {newest.number} builds on it"):
        local_storage(tmp_path).newest()
    with pytest.raises(NotFound, match="000000000005.json is gone"):
        local_storage(tmp_path).at(6)


def test_manifests_of_two_histories_do_not_mix(tmp_path: Path) -> None:
    """A manifest that does not follow the one before it is noticed even though each is whole."""
    chain_of(tmp_path / "one", 4)
    chain_of(tmp_path / "other", 4)
    foreign = manifest_file(tmp_path / "other", 4).read_bytes()
    manifest_file(tmp_path / "one", 4).write_bytes(foreign)
    with pytest.raises(Damaged, match="does not follow"):
        local_storage(tmp_path / "one").newest()


# Cost


def catalog_of(views: int) -> Catalog:
    """`views` views of one family, as `bench many` makes them."""
    state = StateSpec(17, "keyed", (Column("member", BIGINT, False), Column("id", BIGINT, False)), 2, member=True)
    columns = (Column("id", BIGINT, False),)
    return Catalog(tuple(
        View(100 + n, f"v{n}", f"SELECT id FROM t WHERE c = {n}", columns, (0,), True, (16,), Stored(state, (1,), n), 1)
        for n in range(views)
    ))  # fmt: skip


def test_a_commit_writes_as_much_with_13000_views_as_with_10(tmp_path: Path) -> None:
    """A commit that leaves the catalog writes one small manifest, however large the catalog is."""
    written = []
    for views in (10, 13_000):
        root = tmp_path / str(views)
        storage, snapshot = database(root, catalog=catalog_of(views))
        before = {path: path.stat().st_size for path in root.rglob("*") if path.is_file()}
        for version in range(1, 71):  # across a checkpoint
            snapshot = storage.next(snapshot, Change("batch", version, {0: version}, [receipt(version, [17])]))
        after = {path: path.stat().st_size for path in root.rglob("*") if path.is_file()}
        grown = {path: size for path, size in after.items() if before.get(path) != size}
        assert all(path.parent.name == "manifests" for path in grown)
        written.append(sum(grown.values()))
        assert len(local_storage(root).newest().catalog.views) == views
    # Apart from how the digits of the catalog's length and checksum fall.
    assert abs(written[0] - written[1]) <= 70 * 20


# Formats


@given(st.integers(0, 10**13), st.integers(0, 9), st.integers(0, 99), st.integers(0, 99), st.integers(0, 10**6))
def test_file_names_are_read_back_and_never_twice_the_same(
    version: int, epoch: int, zone: int, server: int, attempt: int
) -> None:
    """A name gives back what it was made of; made again of the same it is another; other names are not ours."""
    made = FileName(version, epoch, zone, server, attempt, "merge")
    name = file_name(*made)
    assert parse_file_name(name) == made
    assert file_name(*made) != name
    assert parse_file_name(name + ".tmp") is None


def test_a_manifest_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    """Also where words and numbers use all 64 bits."""
    newest = chain_of(tmp_path, 2)
    manifest = local_storage(tmp_path).read(newest.number)
    run = RunRef(1, "a.zone", 3, 5, 7, 2**64 - 1, 2**64 - 1, 0, 2**62)
    whole = replace(manifest, added=(run,), removed=((9, "b.zone", 1), (9, "b.zone", 2)), positions={3: 2**62})
    assert Manifest.decode(whole.encode(), "x") == whole

"""The whole database as of one manifest, and how a change leads to the next."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from viewkeeper.catalog.model import Catalog, StateSpec
from viewkeeper.errors import Error
from viewkeeper.trace.disk import Disk
from viewkeeper.trace.manifest import KEEPS_VERSION, CatalogRef, Kind, Manifest, ManifestRef, RunKey
from viewkeeper.trace.receipt import FileRef, Receipt, RunRef
from viewkeeper.trace.run import Run, hold
from viewkeeper.trace.trace import Trace

CHECKPOINT_EVERY = 64
"""Manifests from one checkpoint to the next: what a cold reader has to read at most."""


class MergeOutdated(Error):
    """A merge whose input is gone, or has got a neighbour it did not read: its file is to be thrown away."""


@dataclass(frozen=True)
class Change:
    """What the driver wants to commit; None leaves as it is.

    `version` is the one before for a merge and an epoch, else the next.  `added` are receipts with their versions set;
    `removed` the runs that go, whose files go with their last run.  `progress` replaces what is known of the streams
    and part views it names.  `hashes` come with `positions`.
    """

    kind: Kind
    version: int
    positions: dict[int | str, int] | None = None
    added: Sequence[Receipt] = ()
    removed: Sequence[RunRef] = ()
    catalog: Catalog | None = None
    stamp: int | None = None
    progress: dict[int, dict[str, Any]] | None = None
    hashes: dict[int | str, str] | None = None
    rebased: dict[int | str, int] | None = None


class Chain(Protocol):
    """The chain of manifests that a snapshot was read from (`commit.Storage`)."""

    root: Path
    disk: Disk

    def newest(self) -> Snapshot:
        """The snapshot of the newest manifest."""

    def is_recent(self, number: int) -> bool:
        """Whether pruning cannot have come to manifest `number`."""

    def catalog(self, ref: CatalogRef) -> Catalog:
        """The catalog that a manifest names."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All that one manifest names.  `states` holds the runs of each state id, oldest first; no state is empty.

    Nothing here is ever changed: the snapshot of the next manifest shares what stayed.  `identity` is the manifest's
    own: no other has it, here or in another database, while a number comes again where a database is made anew or an
    older copy is put back.  `database` is the same in all manifests of a database.
    """

    storage: Chain = field(repr=False)
    number: int
    version: int
    epoch: int
    database: str
    identity: str
    since: int
    positions: dict[int | str, int]
    stamp: int
    catalog_ref: CatalogRef
    states: dict[int, tuple[RunRef, ...]]
    files: dict[str, FileRef]
    progress: dict[int, dict[str, Any]]
    hashes: dict[int | str, str]
    rebased: dict[int | str, int]
    _traces: dict[int, Trace] = field(default_factory=dict, repr=False)

    @property
    def ref(self) -> ManifestRef:
        """Its manifest."""
        return ManifestRef(self.number, self.identity)

    @property
    def catalog(self) -> Catalog:
        """Read when first asked for."""
        return self.storage.catalog(self.catalog_ref)

    def trace(self, spec: StateSpec) -> Trace:
        """The state `spec` as of this version; opened once, and shared by later snapshots for as long as it stays."""
        trace = self._traces.get(spec.id)
        if trace is None or len(trace.spec.columns) != len(spec.columns):  # the table has got a column
            hold(self)
            runs = [Run.open(self.storage.disk, ref, self.files[ref.file]) for ref in self.states.get(spec.id, ())]
            trace = self._traces[spec.id] = Trace(spec, runs)
        return trace

    def let_go(self) -> None:
        """Forgets the open traces, since too many files are open; they are opened again when asked for."""
        self._traces.clear()


def advance(storage: Chain, before: Snapshot | None, manifest: Manifest) -> Snapshot:
    """The snapshot of `manifest`; `before` is the one of the manifest it follows, not needed for a checkpoint."""
    if manifest.is_checkpoint or before is None:
        states = _with_runs({}, manifest.added, frozenset())
        files = {file.name: file for file in manifest.files_added}
    else:
        states = _with_runs(before.states, manifest.added, frozenset(manifest.removed))
        files = before.files
        if manifest.files_added or manifest.files_removed:
            files = files | {file.name: file for file in manifest.files_added}
            for name in manifest.files_removed:
                del files[name]
    opened = {} if before is None else before._traces.copy()
    same = {state: trace for state, trace in opened.items() if before and states.get(state) == before.states.get(state)}
    return Snapshot(storage, manifest.number, manifest.version, manifest.epoch, manifest.database,
                    manifest.identity, manifest.since, manifest.positions, manifest.stamp, manifest.catalog, states,
                    files, manifest.progress, manifest.hashes, manifest.rebased, same)  # fmt: skip


def _with_runs(
    states: dict[int, tuple[RunRef, ...]], added: Iterable[RunRef], removed: frozenset[RunKey]
) -> dict[int, tuple[RunRef, ...]]:
    """`states` with runs added and removed, copying what changes; each state's runs stay in order."""
    arriving: dict[int, list[RunRef]] = {}
    for run in added:
        arriving.setdefault(run.state, []).append(run)
    result = dict(states)
    for state in arriving.keys() | {state for state, _, _ in removed}:
        staying = [run for run in states.get(state, ()) if _key(run) not in removed]
        runs = sorted(staying + arriving.get(state, []), key=_age)
        if runs:
            result[state] = tuple(runs)
        else:
            result.pop(state, None)
    return result


def _key(run: RunRef) -> RunKey:
    return run.state, run.file, run.section


def _age(run: RunRef) -> tuple[int, int, int, str, int]:
    """Oldest first; what comes after the versions only makes the order the same in every process."""
    return run.first, run.last, run.low, run.file, run.section


def new_identity() -> str:
    """An identity that no manifest has."""
    return secrets.token_hex(8)


def follow(snapshot: Snapshot, change: Change, catalog: CatalogRef, identity: str | None = None) -> Manifest:
    """The manifest that commits `change` after `snapshot`; under `identity`, or a new one.

    Raises `MergeOutdated` for a merge that does not fit any more, ValueError for any other change that does not fit.
    """
    keeps_version = change.kind in KEEPS_VERSION
    if change.version != snapshot.version + (not keeps_version):
        raise ValueError(f"a {change.kind} after version {snapshot.version} cannot make version {change.version}")
    added = tuple(chain.from_iterable(receipt.runs for receipt in change.added))
    _require_fit(snapshot, change, added)
    removed = frozenset(map(_key, change.removed))
    named = {run.file for run in added}
    files = [receipt.file for receipt in change.added if receipt.file is not None and receipt.file.name in named]
    if unknown := named - {file.name for file in files} - snapshot.files.keys():
        raise ValueError(f"runs in files that no receipt gives: {sorted(unknown)}")
    manifest = Manifest(
        number=snapshot.number + 1,
        version=change.version,
        epoch=snapshot.epoch + (change.kind == "epoch"),
        kind=change.kind,
        database=snapshot.database,
        identity=identity or new_identity(),
        follows=snapshot.identity,
        since=snapshot.since,
        positions=snapshot.positions if change.positions is None else change.positions,
        stamp=snapshot.stamp if change.stamp is None else change.stamp,
        catalog=catalog,
        added=added,
        removed=tuple(sorted(removed)),
        files_added=tuple(files),
        files_removed=_emptied(snapshot, removed, named),
        progress=snapshot.progress if change.progress is None else snapshot.progress | change.progress,
        hashes=snapshot.hashes if change.positions is None else change.hashes or {},
        rebased=snapshot.rebased if change.rebased is None else change.rebased,
    )
    if change.kind == "epoch" or manifest.number - manifest.since >= CHECKPOINT_EVERY:
        return _checkpoint(manifest, advance(snapshot.storage, snapshot, manifest))
    return manifest


def _checkpoint(manifest: Manifest, whole: Snapshot) -> Manifest:
    """The same step, carrying everything."""
    return replace(
        manifest,
        since=manifest.number,
        added=tuple(chain.from_iterable(whole.states.values())),
        removed=(),
        files_added=tuple(whole.files.values()),
        files_removed=(),
    )


def _emptied(snapshot: Snapshot, removed: frozenset[RunKey], named: set[str]) -> tuple[str, ...]:
    """Files whose last named run goes with `removed`."""
    if not removed:
        return ()
    losing = {file for _, file, _ in removed}
    staying = {
        run.file
        for run in chain.from_iterable(snapshot.states.values())
        if run.file in losing and _key(run) not in removed
    }
    return tuple(sorted(losing - staying - named))


def _require_fit(snapshot: Snapshot, change: Change, added: Sequence[RunRef]) -> None:
    """What goes is there, and what a merge makes can stand where its inputs stood."""
    leaving: dict[int, list[RunRef]] = {}
    for run in change.removed:
        leaving.setdefault(run.state, []).append(run)
    for state, runs in leaving.items():
        present = snapshot.states.get(state, ())
        if missing := set(runs).difference(present):
            names = ", ".join(sorted(f"{run.file}:{run.section}" for run in missing))
            message = f"state {state} does not hold the runs {names} any more"
            raise MergeOutdated(message) if change.kind == "merge" else ValueError(message)
        if change.kind == "merge":
            _require_neighbours(runs, set(present).difference(runs))
            first, last = min(run.first for run in runs), max(run.last for run in runs)
            if any(run.state == state and not first <= run.first <= run.last <= last for run in added):
                raise ValueError(f"a merge of versions {first} to {last} of state {state} made a run of others")
    if change.kind == "merge" and (foreign := {run.state for run in added} - leaving.keys()):
        raise ValueError(f"a merge made runs of states it did not read: {sorted(foreign)}")


def _require_neighbours(merged: Sequence[RunRef], staying: Iterable[RunRef]) -> None:
    """No run that stays may be both between the merged ones in time and among their words: which is newer, the merged
    run or that one, would have no answer."""
    first, last = min(run.first for run in merged), max(run.last for run in merged)
    low, high = min(run.low for run in merged), max(run.high for run in merged)
    for run in staying:
        if run.first <= last and run.last >= first and run.low <= high and run.high >= low:
            raise MergeOutdated(
                f"versions {first} to {last} of state {run.state} were merged without run {run.file}:{run.section} "
                f"of versions {run.first} to {run.last}"
            )

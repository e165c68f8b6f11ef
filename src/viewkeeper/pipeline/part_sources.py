"""What comes to streams between two versions, for the views that read them as a whole; and what makes a round's rows
part of these in the round's own commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from viewkeeper.catalog.model import Stream
from viewkeeper.pipeline import tasks
from viewkeeper.pipeline.batches import CHAINED_MAX
from viewkeeper.pipeline.programs import zone_programs
from viewkeeper.pipeline.term import Term
from viewkeeper.pipeline.work import DriverExecutor, ZoneWork
from viewkeeper.streams.keeping.stage import RoundStage
from viewkeeper.streams.part_changes import PartChanges, changes_between
from viewkeeper.streams.part_index import PartIndex, read_index
from viewkeeper.streams.progress import StreamProgress
from viewkeeper.streams.view_progress import ViewProgress
from viewkeeper.trace.receipt import Receipt
from viewkeeper.trace.snapshot import Snapshot


def index_of(snapshot: Snapshot) -> Callable[[int], PartIndex]:
    """The part catalogs of a version, by object id."""
    indexes = read_index(snapshot)
    return lambda id_: indexes.get(id_) or PartIndex()


def changes_of(objects: Iterable[int], older: Snapshot, newer: Snapshot) -> PartChanges:
    """What came to the parts of `objects`, and went from them, from one version to a later one."""

    def kept(id_: int) -> int | None:
        data = newer.progress.get(id_)
        is_stream = isinstance(newer.catalog.by_id(id_), Stream)
        return (StreamProgress.from_dict(data) if is_stream else ViewProgress.from_dict(data)).kept

    return changes_between(objects, index_of(older), index_of(newer), kept)


def kept_with(stage: RoundStage, term: Term, executor: DriverExecutor, attempt: int) -> list[Receipt]:
    """What the views that read streams as a whole write in the version that commits `stage`."""
    snapshot, root, version = term.snapshot, term.storage.root, term.snapshot.version + 1
    program = zone_programs(snapshot.catalog, None)
    changes = stage.part_changes(program.in_parts)
    if not changes.rows:
        return []
    zones = program.reach(changes.objects) | {1}
    work = ZoneWork(
        root=str(root), disk=term.storage.disk, base=snapshot.ref, version=version, epoch=term.epoch,
        attempt=attempt, source=changes, servers=executor.servers if changes.rows > CHAINED_MAX else 1,
        zones=tuple(sorted(zones)), asking=program.asking(zones),
        title=f"viewkeeper {root.name}: version {version}, {changes.rows:,} rows of streams",
    )  # fmt: skip
    return [receipt.at(version, version) for receipt in tasks.run_zones(executor, work)]

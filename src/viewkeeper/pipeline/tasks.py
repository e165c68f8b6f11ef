"""What a view server does with its share of a batch, of a step of a fill or of a merge, without Spark.

`run_zones` and `run_merge` have an executor do it: a stage a zone, or the whole chain as one task.  Nothing is kept
between tasks but open files, the last snapshots and the zone programs of the last catalogs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path

from viewkeeper.catalog.model import Catalog
from viewkeeper.jobs.job import Job, Stage
from viewkeeper.maintenance import declare_tables, zones
from viewkeeper.maintenance.task import Sent
from viewkeeper.maintenance.zone_programs import ZonePrograms
from viewkeeper.pipeline import blocks, sources
from viewkeeper.pipeline.context import ZoneContext
from viewkeeper.pipeline.work import DriverExecutor, MergeWork, ZoneWork
from viewkeeper.trace import merge
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.disk import Disk
from viewkeeper.trace.file import ZoneFile
from viewkeeper.trace.naming import file_name
from viewkeeper.trace.points import reached
from viewkeeper.trace.receipt import Receipt
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.snapshot import Snapshot


def run_zones(executor: DriverExecutor, work: ZoneWork) -> list[Receipt]:
    """What the tasks wrote, in any order; the versions of the runs are not set."""
    if work.servers == 1:
        return executor.run(Job.of_one_task(work, _run_chain))
    return executor.run(Job(work, tuple(Stage(work.servers, partial(_run_zone, zone)) for zone in work.zones)))


def run_merge(executor: DriverExecutor, work: MergeWork) -> Receipt:
    """What the merge wrote."""
    (receipt,) = executor.run(Job.of_one_task(work, _run_merge))
    return receipt


def _run_zone(
    zone: int, work: ZoneWork, server: int, sent: Iterable[blocks.BatchParcel]
) -> Iterator[tuple[int, blocks.BatchParcel | Receipt]]:
    """Runs `zone` on `server` over the parcels that it was sent; yields (server, parcel) for the next zones, or, in the
    last zone, receipts.

    In the first zone the rows come from the work's source, and `sent` is empty.
    """
    storage, base = _state(work)
    first = zone == work.zones[0]
    context = ZoneContext(work, storage, base, seed=first and server == 0)
    program = programs_without(base.catalog, work.fill, work.left_out)
    passed_on: blocks.BatchParcel = []
    inbox: dict[str, list[Sent]] = sources.read(work, server, storage, base, context) if first else {}
    for item in chain.from_iterable(sent):
        if isinstance(item, Receipt) or program.zone_of(item[0]) != zone:
            passed_on.append(item)
        else:
            inbox.setdefault(item[0], []).append(blocks.decode(item[1]))
    if inbox or context.seed:
        zones.run_zone(program, zone, inbox, context)
    receipt = _write(work, context, zone, server)
    if zone == work.zones[-1]:
        yield server, receipt
        yield from ((server, earlier) for earlier in passed_on if isinstance(earlier, Receipt))
        return
    parcels = blocks.address(context.take_sent(), work.servers)
    parcels[server].extend(passed_on)
    parcels[0].append(receipt)
    for receiver, parcel in enumerate(parcels):
        if parcel:
            yield receiver, parcel


def _run_chain(work: ZoneWork) -> Receipt:
    """Runs all zones of a work with one view server; all that it writes is one file."""
    storage, base = _state(work)
    context = ZoneContext(work, storage, base, seed=True)
    program = programs_without(base.catalog, work.fill, work.left_out)
    inbox = sources.read(work, 0, storage, base, context)
    for zone in work.zones:
        now = {target: parts for target, parts in inbox.items() if program.zone_of(target) == zone}
        if now or (context.seed and zone == work.zones[0]):
            zones.run_zone(program, zone, now, context)
        later = {target: parts for target, parts in inbox.items() if target not in now}
        inbox = _joined(later, context.take_sent())
    return _write(work, context, work.zones[-1], 0)


def _run_merge(work: MergeWork) -> Receipt:
    # Named here, not by the driver: a task that Spark repeats needs another name.
    name = file_name(work.version, work.epoch, 0, 0, work.attempt, "merge")
    receipt = merge.run_merge(work.disk, name, work.task, work.dead)
    reached("merge")
    return receipt


def _joined(first: dict[str, list[Sent]], second: dict[str, list[Sent]]) -> dict[str, list[Sent]]:
    return {target: first.get(target, []) + second.get(target, []) for target in {**first, **second}}


def _write(work: ZoneWork, context: ZoneContext, zone: int, server: int) -> Receipt:
    kind = "batch" if work.fill is None else "fill"
    name = file_name(work.version, work.epoch, zone, server, work.attempt, kind)
    writer = ZoneFile.writer(work.disk, name)
    for spec, parts in context.written.values():
        writer.add(spec, Rows.concat(parts))
    receipt = writer.finish()
    reached("zone file written" if work.fill is None else "fill")
    return Receipt(receipt.file, receipt.runs, {**receipt.counters, **context.counters})


@lru_cache(maxsize=16)
def _storage(root: str, disk: Disk) -> Storage:
    return Storage(Path(root), disk)


def _state(work: ZoneWork) -> tuple[Storage, Snapshot]:
    """The storage, and the snapshot of the work's base: nearly always the newest, one small step from the last one."""
    storage = _storage(work.root, work.disk)
    newest = storage.newest()
    return storage, newest if newest.ref == work.base else storage.at(*work.base)


def programs_without(catalog: Catalog, fill: frozenset[int] | None, left_out: frozenset[int]) -> ZonePrograms:
    """`zone_programs`, without the programs of the views and indexes `left_out`."""
    if left_out:  # seldom, and never the same again
        return ZonePrograms(declare_tables.stop(catalog, left_out, "left out"), fill)
    return zone_programs(catalog, fill)


_programs: list[tuple[Catalog, frozenset[int] | None, ZonePrograms]] = []
_PROGRAMS_KEPT = 4


def zone_programs(catalog: Catalog, fill: frozenset[int] | None) -> ZonePrograms:
    """The zone programs of a catalog; compared by identity, since a process decodes each stored catalog once."""
    for known, filled, program in _programs:
        if known is catalog and filled == fill:
            return program
    program = ZonePrograms(catalog, fill)
    _programs.insert(0, (catalog, fill, program))
    del _programs[_PROGRAMS_KEPT:]
    return program

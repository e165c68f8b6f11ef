"""What a view server does with its share of a job: plain functions of a job and blocks of bytes, without Spark.

`run_zone` is one task of one zone; `run_chain` is a whole small job as one task; `run_merge` merges runs.  Nothing is
kept between calls but open files, the last snapshots and the zone programs of the last catalogs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from viewkeeper.catalog.model import Catalog
from viewkeeper.maintenance import declare, zones
from viewkeeper.maintenance.program import Program
from viewkeeper.maintenance.task import Sent
from viewkeeper.pipeline import blocks, sources
from viewkeeper.pipeline.context import ZoneContext
from viewkeeper.pipeline.job import Job, MergeJob
from viewkeeper.trace import merge
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.file import ZoneFile
from viewkeeper.trace.naming import file_name
from viewkeeper.trace.points import reached
from viewkeeper.trace.receipt import Receipt
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.snapshot import Snapshot


def run_zone(job: Job, zone: int, server: int, sealed: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Runs `zone` on `server` over the parcels that it was sent; yields (server, sealed parcel) for the next zones.

    In the first zone the rows come from the job's source, and `sealed` is empty.
    """
    storage, base = _state(job)
    first = zone == job.zones[0]
    context = ZoneContext(job, storage, base, seed=first and server == 0)
    program = programs_without(base.catalog, job.fill, job.left_out)
    passed_on: blocks.Parcel = []
    if first:
        inbox = sources.read(job, server, storage, base, context)
    else:
        inbox = {}
        for target, payload in blocks.open_all(sealed):
            if target != blocks.RECEIPT and program.zone_of(target) == zone:
                inbox.setdefault(target, []).append(blocks.decode(payload))
            else:
                passed_on.append((target, payload))
    if inbox or context.seed:
        zones.run_zone(program, zone, inbox, context)
    parcels = blocks.address(context.take_sent(), job.servers)
    parcels[server].extend(passed_on)
    parcels[0].append(blocks.receipt_item(_write(job, context, zone, server)))
    for receiver, parcel in enumerate(parcels):
        if parcel:
            yield receiver, blocks.seal(parcel)


def run_chain(job: Job) -> Receipt:
    """Runs all zones of a job with one view server; all that it writes is one file."""
    storage, base = _state(job)
    context = ZoneContext(job, storage, base, seed=True)
    program = programs_without(base.catalog, job.fill, job.left_out)
    inbox = sources.read(job, 0, storage, base, context)
    for zone in job.zones:
        now = {target: parts for target, parts in inbox.items() if program.zone_of(target) == zone}
        if now or (context.seed and zone == job.zones[0]):
            zones.run_zone(program, zone, now, context)
        later = {target: parts for target, parts in inbox.items() if target not in now}
        inbox = _joined(later, context.take_sent())
    return _write(job, context, job.zones[-1], 0)


def run_merge(job: MergeJob) -> Receipt:
    """Runs a merge."""
    # Named here, not by the driver: a task that Spark repeats needs another name.
    name = file_name(job.version, job.epoch, 0, 0, job.attempt, "merge")
    receipt = merge.run_merge(_storage(job.root).state, name, job.task, job.dead)
    reached("merge")
    return receipt


def _joined(first: dict[str, list[Sent]], second: dict[str, list[Sent]]) -> dict[str, list[Sent]]:
    return {target: first.get(target, []) + second.get(target, []) for target in {**first, **second}}


def _write(job: Job, context: ZoneContext, zone: int, server: int) -> Receipt:
    kind = "batch" if job.fill is None else "fill"
    name = file_name(job.version, job.epoch, zone, server, job.attempt, kind)
    writer = ZoneFile.writer(_storage(job.root).state, name)
    for spec, parts in context.written.values():
        writer.add(spec, Rows.concat(parts))
    receipt = writer.finish()
    reached("zone file written" if job.fill is None else "fill")
    return Receipt(receipt.file, receipt.runs, {**receipt.counters, **context.counters})


@lru_cache(maxsize=16)
def _storage(root: str) -> Storage:
    return Storage(Path(root))


def _state(job: Job) -> tuple[Storage, Snapshot]:
    """The storage, and the snapshot of the job's base: nearly always the newest, one small step from the last one."""
    storage = _storage(job.root)
    newest = storage.newest()
    return storage, newest if newest.ref == job.base else storage.at(*job.base)


def programs_without(catalog: Catalog, fill: frozenset[int] | None, left_out: frozenset[int]) -> Program:
    """`zone_programs`, without the programs of the views and indexes `left_out`."""
    if left_out:  # seldom, and never the same again
        return Program(declare.stop(catalog, left_out, "left out"), fill)
    return zone_programs(catalog, fill)


_programs: list[tuple[Catalog, frozenset[int] | None, Program]] = []
_PROGRAMS_KEPT = 4


def zone_programs(catalog: Catalog, fill: frozenset[int] | None) -> Program:
    """The zone programs of a catalog; compared by identity, since a process decodes each stored catalog once."""
    for known, filled, program in _programs:
        if known is catalog and filled == fill:
            return program
    program = Program(catalog, fill)
    _programs.insert(0, (catalog, fill, program))
    del _programs[_PROGRAMS_KEPT:]
    return program

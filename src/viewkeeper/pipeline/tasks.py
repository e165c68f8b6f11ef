"""What a view server does with its share of a batch, of a step of a fill or of a merge, without Spark.

`run_zones` and `run_merge` have an executor do it: a stage a zone, or the whole chain as one task.  Nothing is kept
between tasks but open files, the last snapshots and the zone programs of the last catalogs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from viewkeeper.catalog.model import REJECTED
from viewkeeper.jobs.job import Job, Stage
from viewkeeper.maintenance import zones
from viewkeeper.maintenance.task import Sent
from viewkeeper.pipeline import asking, batch_parcels, sources
from viewkeeper.pipeline.context import ZoneContext
from viewkeeper.pipeline.programs import programs_without, state_of
from viewkeeper.pipeline.work import DriverExecutor, MergeWork, ZoneWork
from viewkeeper.trace import merge
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.file import ZoneFile
from viewkeeper.trace.naming import file_name
from viewkeeper.trace.points import reached
from viewkeeper.trace.receipt import Receipt
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.snapshot import Snapshot


@dataclass(frozen=True)
class _Onward:
    """What a task sends to zones of a later job, by way of the driver."""

    receiver: int
    parcel: batch_parcels.BatchParcel


def run_zones(executor: DriverExecutor, work: ZoneWork) -> list[Receipt]:
    """What the tasks wrote, in any order; the versions of the runs are not set.

    A job for the zones between two questions to Spark: mostly one for all of them.
    """
    receipts: list[Receipt] = []
    carried: tuple[tuple[tuple[str, pa.Buffer], ...], ...] | None = None
    for zones_now in _jobs(work):
        if zones_now[0] in work.asking:
            assert carried is not None, "nothing is asked before the first zone"
            answers = asking.answers(executor, work, zones_now[0], receipts, carried)
            carried = tuple((*before, *more) for before, more in zip(carried, answers, strict=True))
        if carried is not None and not any(carried):
            continue
        now = replace(work, zones=zones_now, carried=carried)
        made = executor.run(_job(now))
        receipts += [each for each in made if isinstance(each, Receipt)]
        sent: list[list[tuple[str, pa.Buffer]]] = [[] for _ in range(work.servers)]
        for each in made:
            if isinstance(each, _Onward):
                sent[each.receiver] += [item for item in each.parcel if not isinstance(item, Receipt)]
        carried = tuple(map(tuple, sent))
    return receipts


def _jobs(work: ZoneWork) -> list[tuple[int, ...]]:
    """The zones of `work` as they are run together: Spark is asked before the first of each but the first."""
    made: list[tuple[int, ...]] = []
    for zone in work.zones:
        if made and zone not in work.asking:
            made[-1] += (zone,)
        else:
            made.append((zone,))
    return made


def _job(work: ZoneWork) -> Job:
    if work.servers == 1:
        return Job(work, (Stage(1, _run_chain),))
    zones = tuple(Stage(work.servers, partial(_run_zone, zone)) for zone in work.zones)
    return Job(work, (Stage(work.servers, _read_parts), *zones) if sources.has_parts(work) else zones)


def run_merge(executor: DriverExecutor, work: MergeWork) -> Receipt:
    """What the merge wrote."""
    (receipt,) = executor.run(Job.of_one_task(work, _run_merge))
    return receipt


_Made = batch_parcels.BatchParcel | Receipt | _Onward


def _read_parts(
    work: ZoneWork, server: int, _: Iterable[batch_parcels.BatchParcel]
) -> Iterator[tuple[int, batch_parcels.BatchParcel]]:  # fmt: skip
    """Reads parts of outside logs on `server`, and hands each row to the owner of its key."""
    base = state_of(work)[1]
    parcels = batch_parcels.address(sources.read_parts(work, server, base), work.servers)
    yield from ((receiver, parcel) for receiver, parcel in enumerate(parcels) if parcel)


def _run_zone(
    zone: int, work: ZoneWork, server: int, sent: Iterable[batch_parcels.BatchParcel]
) -> Iterator[tuple[int, _Made]]:  # fmt: skip
    """Runs `zone` on `server` over the parcels that it was sent; yields (server, parcel) for the next zones, or, in the
    last zone, receipts, and what is sent on from there.

    In the first zone the rows come from the work's source; `sent` are those of parts that were read before.
    """
    storage, base = state_of(work)
    first = zone == work.zones[0]
    context = ZoneContext(work, storage, base, server)
    program = programs_without(base.catalog, work.fill, work.left_out)
    passed_on: batch_parcels.BatchParcel = []
    inbox, items = _begin(work, server, storage, base, context) if first else ({}, ())
    for item in chain(items, chain.from_iterable(sent)):
        if isinstance(item, Receipt) or program.zone_of(item[0]) != zone:
            passed_on.append(item)
        else:
            inbox.setdefault(item[0], []).append(batch_parcels.decode(item[1]))
    for rejects in inbox.pop(sources.REJECTS, ()):
        context.write(REJECTED, rejects.rows)
    if inbox or context.seed:
        zones.run_zone(program, zone, inbox, context)
    receipt = _write(work, context, zone, server)
    parcels = batch_parcels.address(context.take_sent(), work.servers)
    parcels[server].extend(passed_on)
    if zone == work.zones[-1]:
        yield server, receipt
        yield from ((server, earlier) for earlier in passed_on if isinstance(earlier, Receipt))
        yield from ((server, _Onward(receiver, parcel)) for receiver, parcel in enumerate(parcels) if parcel)
        return
    parcels[0].append(receipt)
    for receiver, parcel in enumerate(parcels):
        if parcel:
            yield receiver, parcel


def _begin(
    work: ZoneWork, server: int, storage: Storage, base: Snapshot, context: ZoneContext
) -> tuple[dict[str, list[Sent]], Iterable[tuple[str, pa.Buffer]]]:
    """What the first zone of a job begins with: rows of the work's source, or what was carried to it."""
    if work.carried is None:
        return sources.read(work, server, storage, base, context), ()
    return {}, work.carried[server]


def _run_chain(work: ZoneWork, server: int, _: Iterable[Any]) -> Iterator[tuple[int, _Made]]:
    """Runs all zones of a work with one view server; all that it writes is one file."""
    storage, base = state_of(work)
    context = ZoneContext(work, storage, base, server)
    program = programs_without(base.catalog, work.fill, work.left_out)
    inbox, items = _begin(work, server, storage, base, context)
    for target, payload in items:
        inbox.setdefault(target, []).append(batch_parcels.decode(payload))
    for zone in work.zones:
        now = {target: parts for target, parts in inbox.items() if program.zone_of(target) == zone}
        if now or (context.seed and zone == work.zones[0]):
            zones.run_zone(program, zone, now, context)
        later = {target: parts for target, parts in inbox.items() if target not in now}
        inbox = _joined(later, context.take_sent())
    yield server, _write(work, context, work.zones[-1], 0)
    if inbox:
        onward: batch_parcels.BatchParcel = [
            batch_parcels.encode(target, batch_parcels.gather(parts)) for target, parts in inbox.items()
        ]
        yield server, _Onward(server, onward)


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

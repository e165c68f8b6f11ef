"""How streams and the views over them are doing: what is there, what it waits for, how far it is behind."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from viewkeeper.catalog.model import PartView, Stream
from viewkeeper.errors import Error, StoreReplaced
from viewkeeper.plans.match import MatchPlan
from viewkeeper.plans.pattern import PatternAnswer
from viewkeeper.streams.intake.entries import Append
from viewkeeper.streams.intake.stream_log import StreamLog
from viewkeeper.streams.part_index import PartIndex, read_index
from viewkeeper.streams.progress import StreamProgress
from viewkeeper.streams.subscripts import UNBOUNDED
from viewkeeper.streams.view_progress import ViewProgress
from viewkeeper.streams.waiting import next_part, progress_of, waits_for
from viewkeeper.trace.snapshot import Snapshot

ENTRIES_READ = 10_000
"""Log entries that are looked into for rows that wait, at most."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def part_status(
    snapshot: Snapshot, rejected: Mapping[int, int], away: Mapping[str, str]
) -> dict[str, list[dict[str, Any]]]:
    """`streams` and `part_views` of `status`; `rejected` has the number of rejected rows by stream, `away` by its id,
    as text, why one is not fed from outside at present."""
    if not snapshot.catalog.streams:
        return {"streams": [], "part_views": []}
    indexes = read_index(snapshot)
    with StreamLog(snapshot.storage.root, snapshot.storage.disk) as log:
        streams = [
            {"name": stream.name, **_stream(snapshot, stream, indexes.get(stream.id) or PartIndex(), log),
             "rejected": rejected.get(stream.id, 0), **_source(stream, log, away)}
            for stream in snapshot.catalog.streams
        ]  # fmt: skip
    views = [view for view in snapshot.catalog.part_views if not view.hidden]
    return {
        "streams": streams,
        "part_views": [{"name": view.name, **_view(snapshot, view, indexes)} for view in views],
    }


def part_lag(snapshot: Snapshot) -> dict[str, list[dict[str, Any]]]:
    """What of `part_status` tells how far streams and views are; made for polling."""
    streams = [
        {"name": stream.name, **_sealed(snapshot, StreamProgress.from_dict(snapshot.progress.get(stream.id)))}
        for stream in snapshot.catalog.streams
    ]
    views = [{"name": view.name, **_lag(snapshot, view)} for view in snapshot.catalog.part_views
             if not view.hidden]  # fmt: skip
    return {"streams": streams, "part_views": views}


def _stream(snapshot: Snapshot, stream: Stream, index: PartIndex, log: StreamLog) -> dict[str, Any]:
    at = StreamProgress.from_dict(snapshot.progress.get(stream.id))
    end, waiting = log.end(stream.id), _waiting(snapshot, stream, at, log)
    unsealed = -UNBOUNDED if at.next is None else at.next
    opened = index.count_between(unsealed, UNBOUNDED)
    opened += waiting or 0
    return {
        "length": stream.length, **_extent(at, index),
        **_sealed(snapshot, at),
        "open_rows": opened,
        "late_rows": at.late_rows, "waiting_entries": None if waiting is None else max(0, end - at.position),
        "state": "replaced" if waiting is None else "ok",
    }  # fmt: skip


def _source(stream: Stream, log: StreamLog, away: Mapping[str, str]) -> dict[str, Any]:
    """Where a stream is fed from, and up to where in each of its logs."""
    if stream.outside is None:
        return {}
    place, why = log.place(stream.id), away.get(str(stream.id))
    return {"source": stream.outside.kind, "read_upto": {} if place is None else place.positions,
            **({} if why is None else {"state": why})}  # fmt: skip


def _sealed(snapshot: Snapshot, at: StreamProgress) -> dict[str, Any]:
    watermark = None if at.watermark is None else _moment(at.watermark, snapshot.catalog.zone)
    return {"sealed": None if at.next is None else at.next - 1, "watermark": watermark}


def _waiting(snapshot: Snapshot, stream: Stream, at: StreamProgress, log: StreamLog) -> int | None:
    """How many rows the entries that wait for the driver store, of at most ENTRIES_READ; 0 where a newer version has
    taken some of them meanwhile, None where the log was replaced."""
    position, hash_, rows = at.position, at.hash, 0
    try:
        while entries := log.entries(stream.id, position, at.position + ENTRIES_READ - position, hash_):
            position, hash_ = entries[-1].sequence, entries[-1].hash
            rows += sum(entry.stored for entry in entries if isinstance(entry, Append))
        return rows
    except StoreReplaced:
        return None
    except Error:
        newest = StreamProgress.from_dict(snapshot.storage.newest().progress.get(stream.id))
        if newest.position == at.position:
            raise
        return 0


def _view(snapshot: Snapshot, view: PartView, indexes: Mapping[int, PartIndex]) -> dict[str, Any]:
    at = ViewProgress.from_dict(snapshot.progress.get(view.id))
    waiting = waits_for(snapshot.catalog, snapshot.progress, view)
    return {
        "kind": view.kind, "length": view.length, **_extent(at, indexes.get(view.id) or PartIndex()),
        **_lag(snapshot, view), "waits_for": "; ".join(map(str, waiting)) or None,
        "partial_matches": _partial_matches(snapshot, view, indexes),
    }  # fmt: skip


def _lag(snapshot: Snapshot, view: PartView) -> dict[str, Any]:
    stale = ViewProgress.from_dict(snapshot.progress.get(view.id)).stale
    after = next_part(snapshot.catalog, view, snapshot.progress)
    behind = _behind(snapshot, view, after)
    return {"next": after, "lag_parts": None if behind is None else -(-behind // view.length), "lag_seconds": behind,
            "state": "kept" if stale is None else f"stale: {stale}"}  # fmt: skip


def _extent(at: StreamProgress | ViewProgress, index: PartIndex) -> dict[str, int | None]:
    """The first part that is kept, how many parts are, and their rows."""
    bounds = [bound for bound in (at.first, at.kept) if bound is not None]
    if not bounds or at.next is None or at.next <= max(bounds):
        return {"first": None, "parts": 0, "rows": 0}
    first = max(bounds)
    rows = index.count_between(first, at.next - 1)
    return {"first": first, "parts": at.next - first, "rows": rows}


def _behind(snapshot: Snapshot, view: PartView, after: int | None) -> int | None:
    """How many seconds before the end of the newest sealed part of its streams the parts of `view` end; None where it
    has no part that could be built, or no source has one."""
    ends = [at.next * stream.length for stream in _streams_below(snapshot, view)
            if (at := StreamProgress.from_dict(snapshot.progress.get(stream.id))).next is not None]  # fmt: skip
    return None if after is None or not ends else max(0, max(ends) - after * view.length)


def _streams_below(snapshot: Snapshot, view: PartView) -> list[Stream]:
    found, seen, waiting = list[Stream](), {view.id}, list(view.reads)
    while waiting:
        id_ = waiting.pop()
        if id_ not in seen:
            seen.add(id_)
            item = snapshot.catalog.source(id_)
            if isinstance(item, Stream):
                found.append(item)
            else:
                waiting += item.reads
    return found


def _partial_matches(snapshot: Snapshot, view: PartView, indexes: Mapping[int, PartIndex]) -> int | None:
    """How many partial matches a pattern keeps: the rows of what holds them, where it was last written."""
    if not isinstance(view.plan, (PatternAnswer, MatchPlan)):
        return None
    below = [snapshot.catalog.source(id_) for id_ in view.reads]
    holders = [(item.id, item) for item in below if isinstance(item, PartView) and item.hidden]
    holders += [(helper.id, view) for helper in view.helpers]
    count = 0
    for id_, of in holders:
        index, after = indexes.get(id_) or PartIndex(), progress_of(of, snapshot.progress).next
        # A pattern's matches end where a part has no rows; MATCH_RECOGNIZE's go on.
        ends = isinstance(view.plan, PatternAnswer)
        last = None if after is None else after - 1 if ends else index.previous_with_rows(after)
        held = None if last is None else index.at(last)
        count += 0 if held is None else held.rows
    return count


def _moment(microseconds: int, zone: str) -> str:
    return (_EPOCH + datetime.timedelta(microseconds=microseconds)).astimezone(ZoneInfo(zone)).isoformat(" ")

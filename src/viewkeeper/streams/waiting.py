"""What a part that is not there yet waits for, for people: `status`, and the errors of readers."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from viewkeeper.catalog.model import Catalog, PartView, Stream
from viewkeeper.plans.inputs import inputs
from viewkeeper.streams.keeping.settled import Progresses
from viewkeeper.streams.progress import StreamProgress
from viewkeeper.streams.subscripts import lowest_at_least
from viewkeeper.streams.view_progress import ViewProgress

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Waiting:
    """Part `part` of `source` is wanted (None: any part at all), which has parts up to `newest` (None: none)."""

    source: str
    part: int | None
    newest: int | None
    is_stream: bool

    def __str__(self) -> str:
        done = "sealed" if self.is_stream else "built"
        if self.newest is None:
            return f"{self.source}{'' if self.part is None else f'[{self.part}]'}, which has no part yet"
        return f"{self.source}[{self.part}], which is {done} up to part {self.newest}"


def waits_for(catalog: Catalog, progress: Progresses, view: PartView, part: int | None = None) -> list[Waiting]:
    """The parts of streams and other views that part `part` of `view` (None: the next one) waits for; empty where all
    are there.  A hidden helper is named by what it waits for itself."""
    return list(dict.fromkeys(_waits(catalog, progress, view, part)))


def reason(catalog: Catalog, progress: Progresses, of: Stream | PartView, part: int) -> str:
    """Why part `part`, not before NEXT, is not there yet, and what to do."""
    if isinstance(of, Stream):
        return _not_sealed(catalog, progress, of, part)
    mine = ViewProgress.from_dict(progress.get(of.id))
    if mine.stale is not None:
        return f"{of.name} is stale: {mine.stale}"
    waiting = waits_for(catalog, progress, of, part)
    if waiting:
        return f"it waits for {', and for '.join(map(str, waiting))}"
    next_ = "" if mine.next is None else f"part {mine.next} is built next, and "
    return f"{next_}its sources are there: db.maintain() builds it, and db.catch_up() waits for it"


def progress_of(of: Stream | PartView, progress: Progresses) -> StreamProgress | ViewProgress:
    """How far a stream or view is."""
    data = progress.get(of.id)
    return StreamProgress.from_dict(data) if isinstance(of, Stream) else ViewProgress.from_dict(data)


def next_part(catalog: Catalog, view: PartView, progress: Progresses) -> int | None:
    """NEXT of a view, also before it is fixed; None while a source has no part."""
    mine, found = ViewProgress.from_dict(progress.get(view.id)), view.first
    if mine.next is not None:
        return mine.next
    for each in inputs(view, initial=True):
        start = progress_of(catalog.source(each.object), progress).first
        if start is None:
            return None
        lowest = lowest_at_least(each.low, start)
        found = lowest if found is None else max(found, lowest)
    return found


def _waits(catalog: Catalog, progress: Progresses, view: PartView, part: int | None) -> Iterator[Waiting]:
    first, after = ViewProgress.from_dict(progress.get(view.id)).first, next_part(catalog, view, progress)
    wanted = after if part is None or after is None else max(part, after)
    for each in inputs(view, initial=first is None or wanted == first):
        source = catalog.source(each.object)
        if source.id == view.id:
            continue
        there = progress_of(source, progress).next
        named = None if wanted is None else each.high.at(wanted)
        if there is not None and (named is None or named < there):
            continue
        if isinstance(source, PartView) and source.hidden:
            yield from _waits(catalog, progress, source, named)
        else:
            newest = None if there is None else there - 1
            yield Waiting(source.name, named, newest, isinstance(source, Stream))


def _not_sealed(catalog: Catalog, progress: Progresses, stream: Stream, part: int) -> str:
    mine = StreamProgress.from_dict(progress.get(stream.id))
    until = _moment((part + 1) * stream.length + stream.lateness, catalog.zone)
    so_far = "it has no part yet" if mine.next is None else f"it is sealed up to part {mine.next - 1}"
    return (f"{so_far}; a row of {until} or later seals it once db.maintain() or db.catch_up() has brought it in, "
            f"and so does db.stream({stream.name!r}).seal({part})")  # fmt: skip


def _moment(seconds: int, zone: str) -> str:
    try:
        return (_EPOCH + datetime.timedelta(seconds=seconds)).astimezone(ZoneInfo(zone)).isoformat(" ")
    except OverflowError:
        return f"Unix time {seconds:,}"

"""The driver's feeding of streams whose rows come from outside stores: a thread a stream, so that a store that does not
answer holds up its own streams alone."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import closing

from viewkeeper.catalog.model import Catalog, Stream
from viewkeeper.errors import Error, LogLost, is_shortage
from viewkeeper.stores.logs import AWAY_SECONDS
from viewkeeper.stores.outside.contract import LogEnds
from viewkeeper.stores.outside.outside_kinds import kind_of_source
from viewkeeper.stores.outside.stream_source import StreamSource
from viewkeeper.streams.intake.append import StreamTarget
from viewkeeper.streams.intake.outside_intake import take_in
from viewkeeper.streams.intake.stream_log import StreamLog
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.snapshot import Snapshot

BETWEEN_SECONDS = 0.02
"""From one append to the next: each is a file, and what comes meanwhile is one."""

log = logging.getLogger("viewkeeper")


class Feeding:
    """Feeds the streams of a database that are fed from outside."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._feeds: dict[int, _Feed] = {}

    @property
    def errors(self) -> dict[int, str]:
        """By id, why streams are not fed at present."""
        return {id_: feed.error for id_, feed in self._feeds.items() if feed.error is not None}

    @property
    def lost(self) -> dict[int, str]:
        """Those of them that will not be fed any more."""
        return {id_: feed.error for id_, feed in self._feeds.items() if feed.error is not None and feed.is_lost}

    def step(self, catalog: Catalog) -> None:
        """Begins to feed streams that were declared, and ends with those that were dropped."""
        wanted = {stream.id: stream for stream in fed(catalog)}
        for id_ in self._feeds.keys() - wanted.keys():
            self._feeds.pop(id_).stopped.set()
        for id_, stream in wanted.items():
            if id_ not in self._feeds or not self._feeds[id_].is_alive:
                self._feeds[id_] = _Feed(StreamTarget(self._storage, stream, catalog.zone))

    def close(self) -> None:
        """Returns when nothing is fed any more."""
        for feed in self._feeds.values():
            feed.stopped.set()
        for feed in self._feeds.values():
            feed.join()


class _Feed:
    """The feeding of one stream, from its making until `stopped` is set."""

    def __init__(self, target: StreamTarget) -> None:
        self.error: str | None = None
        self.is_lost = False
        self.stopped = threading.Event()
        self._target = target
        self._thread = threading.Thread(target=self._run, name=f"viewkeeper {target.stream.name}", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        pause = AWAY_SECONDS[0]
        while not self.stopped.is_set():
            try:
                with closing(source_of(self._target.stream, self._target.zone)) as source:
                    while not self.stopped.is_set():
                        taken = take_in(self._target, source)
                        self.error, self.is_lost, pause = None, False, AWAY_SECONDS[0]
                        self.stopped.wait(source.poll_seconds if taken is None else BETWEEN_SECONDS)
            except (Error, OSError) as error:
                told = f"{self._target.stream.name} is not fed: {error}"
                if told != self.error:
                    log.warning("%s; it is tried again", told)
                self.is_lost = isinstance(error, LogLost) and not is_shortage(error)
                self.error = told
                self.stopped.wait(pause)
                pause = min(2 * pause, AWAY_SECONDS[1])


def fed(catalog: Catalog) -> list[Stream]:
    """The streams whose rows come from outside stores."""
    return [stream for stream in catalog.streams if stream.outside is not None]


def source_of(stream: Stream, zone: str) -> StreamSource:
    """What a stream is fed from.  Opening talks to nobody."""
    assert stream.outside is not None
    return kind_of_source(stream.outside.kind)(stream, zone)


def ends_of_sources(catalog: Catalog) -> dict[int, LogEnds]:
    """By stream id, where the logs end now that streams are fed from.  Raises StoreAway where a store is away."""
    found = {}
    for stream in fed(catalog):
        with closing(source_of(stream, catalog.zone)) as source:
            found[stream.id] = source.ends()
    return found


def unfed(snapshot: Snapshot, goals: Mapping[int, LogEnds]) -> list[int]:
    """The streams whose sources have not been read up to `goals`."""
    if not goals:
        return []
    with StreamLog(snapshot.storage.root, snapshot.storage.disk) as entered:
        places = {id_: entered.place(id_) for id_ in goals if snapshot.catalog.by_id(id_) is not None}
    return [id_ for id_, place in places.items() if place is None or not _holds(place, goals[id_])]


def _holds(place: LogEnds, goal: LogEnds) -> bool:
    return all(place.positions.get(part, -1) >= end and place.identities.get(part) == goal.identities[part]
               for part, end in goal.positions.items())  # fmt: skip

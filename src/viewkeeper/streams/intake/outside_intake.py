"""Rows of a stream that come from an outside store, each once: what is taken in and how far the store's logs have been
read are entered in one step (docs/decisions/099)."""

from __future__ import annotations

import time

from viewkeeper.catalog.model import Stream
from viewkeeper.errors import LogLost
from viewkeeper.stores.outside.contract import LogEnds, is_another, is_shorter
from viewkeeper.stores.outside.stream_source import StreamSource
from viewkeeper.streams.intake.append import StreamTarget, stored
from viewkeeper.streams.intake.entries import Draft
from viewkeeper.streams.intake.stream_environment import Advance, Appended
from viewkeeper.streams.intake.stream_log import StreamLog
from viewkeeper.streams.intake.writing import Writing


def take_in(target: StreamTarget, source: StreamSource) -> Appended | None:
    """Stores the next rows of `source` in one step; None where there are none now.

    Another process that does so at the same time loses nothing and doubles nothing: one of both is a duplicate.  Raises
    LogLost where the logs are others than those that were read, or end before.
    """
    stream = target.stream
    with StreamLog(target.storage.root, target.storage.disk) as log:
        had, ends = log.place(stream.id), source.ends()
        after = LogEnds({}, {}) if had is None else had
        _require_same(stream, after, ends)
        if ends.positions.keys() - after.positions.keys():  # at first, and where a part has come
            start = source.start()
            after = LogEnds({**start.positions, **after.positions}, {**start.identities, **after.identities})
        if all(after.positions[part] >= end for part, end in ends.positions.items()) and after == had:
            return None
        read = source.read(after, ends)

        def made(writing: Writing, watermark: int | None) -> Draft:
            return writing.of_columns(read.columns, read.rejected, watermark)

        return stored(log, target, Advance(had, read.upto), time.time(), made)


def _require_same(stream: Stream, after: LogEnds, ends: LogEnds) -> None:
    for part, identity in ends.identities.items():
        if after.identities.get(part, identity) != identity:
            raise LogLost(f"{stream.name}: {is_another(part, 'stream')}")
        if ends.positions[part] < (at := after.positions.get(part, 0)):
            raise LogLost(f"{stream.name}: {is_shorter(part, ends.positions[part], at, 'stream')}")

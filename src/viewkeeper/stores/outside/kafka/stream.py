"""A topic as a stream (`stream_source.StreamSource`): each message is a row."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Stream
from viewkeeper.catalog.types import physical_type
from viewkeeper.errors import Error, InputError
from viewkeeper.stores.outside.contract import LogEnds
from viewkeeper.stores.outside.kafka.formats import ADDED, decoder_of, format_of, require_readable
from viewkeeper.stores.outside.kafka.messages import Messages, RowShape
from viewkeeper.stores.outside.kafka.topic import Topic
from viewkeeper.stores.outside.options import filled_in
from viewkeeper.stores.outside.stream_source import SourceRows, StreamSource

MESSAGES_AT_ONCE = 200_000
"""Of all partitions."""


class KafkaStream(StreamSource):
    """Rows that come as messages of a topic."""

    def __init__(self, stream: Stream, zone: str) -> None:
        super().__init__(stream, zone)
        assert stream.outside is not None
        options = filled_in(dict(stream.outside.options))
        self._topic = Topic(options, self._said, "stream")
        shape = RowShape.of(stream.name, stream.columns, (), zone)
        self._decoder = decoder_of(options, format_of(options, ADDED[0]), shape, self._said)
        self._ahead: dict[str, tuple[int, int, Messages]] = {}

    @classmethod
    def check(cls, options: Mapping[str, str]) -> None:
        format_ = format_of(options, ADDED[0])
        require_readable(options, format_)
        if format_ not in ADDED:
            raise InputError(f"format '{format_}' is of rows that have keys; each message of a stream is a row of its "
                             f"own: {', '.join(ADDED)}")  # fmt: skip

    def require_there(self) -> None:
        cleaning = self._topic.cleaning()
        self._topic.starts()
        if cleaning.compacts:
            raise Error(f"topic {self._topic.name!r} is compacted (cleanup.policy {cleaning.policy}): messages go that "
                        "are rows of their own")  # fmt: skip

    def start(self) -> LogEnds:
        return self._topic.starts()

    def ends(self) -> LogEnds:
        return self._topic.ends()

    def read(self, after: LogEnds, upto: LogEnds) -> SourceRows:
        behind = [part for part, end in upto.positions.items() if end > after.positions[part]]
        chunks = {part: self._chunk(part, after.positions[part], upto.positions[part], MESSAGES_AT_ONCE // len(behind))
                  for part in behind}  # fmt: skip
        lasts = [int(messages.stamps[-1]) for part, (end, messages) in chunks.items()
                 if len(messages) and end < upto.positions[part]]  # fmt: skip
        positions, columns, rejected = dict(after.positions), list[list[pa.Array]](), list[tuple[str, bytes]]()
        for part, (end, messages) in chunks.items():
            count = int(np.searchsorted(messages.stamps, min(lasts), "right")) if lasts else len(messages)
            if count < len(messages):
                rest = messages.take(np.arange(count, len(messages)))
                self._ahead[part] = (int(rest.sequences[0]) - 1, end, rest)
                end, messages = self._ahead[part][0], messages.take(np.arange(count))
            positions[part] = end
            found = self._decoder.read(messages)
            columns += [operations.columns for operations, _, _ in found.operations]
            for bad in found.bad:
                data = json.dumps({"message": bad.data.decode(errors="backslashreplace")}).encode()
                rejected.append((f"{bad.reason} (partition {part}, offset {bad.sequence - 1})", data))
        whole = [pa.concat_arrays([each[i] for each in columns]) if columns else pa.nulls(0, physical_type(column.type))
                 for i, column in enumerate(self.stream.columns)]  # fmt: skip
        return SourceRows(whole, rejected, LogEnds(positions, {**after.identities, **upto.identities}))

    def close(self) -> None:
        self._topic.close()

    def _chunk(self, part: str, after: int, upto: int, most: int) -> tuple[int, Messages]:
        """Messages from `after` on, and the offset behind them: those that had been read too far, else the next."""
        begin, end, messages = self._ahead.pop(part, (-1, -1, None))
        if messages is not None and begin == after:
            return end, messages
        end = min(upto, after + most)
        return end, self._topic.messages(int(part), after, end)

    def _said(self, message: str) -> str:
        return f"{self.stream.name}: {message}"

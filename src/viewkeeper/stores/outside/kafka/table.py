"""A topic as a table (`contract.OutsideTable`): a part is a partition, a position the next offset to be read."""

from __future__ import annotations

import base64
import datetime
import math
import threading
import time
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar

from confluent_kafka import KafkaError, KafkaException, Message

from viewkeeper.catalog.model import Table
from viewkeeper.catalog.operation_kinds import DELETE
from viewkeeper.changes.operations import Operations
from viewkeeper.errors import Error, InputError, LogLost
from viewkeeper.stores.outside.contract import LogEnds, OutsideTable, OutsideTraits, PartRange, ReadPart
from viewkeeper.stores.outside.kafka.client import TIMEOUT_SECONDS, dumps
from viewkeeper.stores.outside.kafka.compaction import first_missing
from viewkeeper.stores.outside.kafka.formats import ADDED, KEYED, decoder_of, format_of, is_avro, require_readable
from viewkeeper.stores.outside.kafka.messages import Messages, RowShape
from viewkeeper.stores.outside.kafka.topic import Topic, offset_of
from viewkeeper.stores.outside.options import filled_in
from viewkeeper.stores.outside.said import said_of
from viewkeeper.stores.value_conversion import to_python


class KafkaTable(OutsideTable):
    """Rows that come as messages of a topic."""

    traits: ClassVar[OutsideTraits] = OutsideTraits(
        order="key, within its partition", rows=False, writable=True, partial=False, keyless=True
    )

    def __init__(self, table: Table, zone: str) -> None:
        super().__init__(table, zone)
        assert table.outside is not None
        self._options = filled_in(dict(table.outside.options))
        self._topic = Topic(self._options, self._said, "table")
        self._format = format_of(self._options, KEYED[0])
        shape = RowShape(table.name, table.columns, table.key, self.intake.intakes)
        self.decoder = decoder_of(self._options, self._format, shape, self._said)
        self._writing = threading.Lock()

    @classmethod
    def check(cls, options: Mapping[str, str], keyless: bool) -> None:
        format_ = format_of(options, KEYED[0])
        require_readable(options, format_)
        if keyless and format_ not in ADDED:
            raise InputError(
                f"format '{format_}' needs a PRIMARY KEY; rows that are only added have format 'json-append'"
            )
        if not keyless and format_ in ADDED:
            raise InputError(f"format '{format_}' has no PRIMARY KEY: each message is a row of its own")

    def require_there(self) -> None:
        topic, cleaning = self._topic, self._topic.cleaning()
        gone = {int(partition): offset for partition, offset in topic.starts().positions.items() if offset > 0}
        if cleaning.compacts and self.form.keyless:
            raise Error(f"topic {topic.name!r} is compacted (cleanup.policy {cleaning.policy}): messages go that are "
                        f"rows of their own in format '{self._format}'")  # fmt: skip
        if gone and cleaning.policy != "compact":
            partition, offset = min(gone.items())
            raise Error(f"topic {topic.name!r} begins at offset {offset} of partition {partition}: what came before is "
                        f"gone (cleanup.policy {cleaning.policy}), and with it rows that nobody knows of; take a topic "
                        "that has its beginning, or is compacted")  # fmt: skip

    def start(self) -> LogEnds:
        return self._topic.starts()

    def ends(self) -> LogEnds:
        return self._topic.ends()

    def read(self, range_: PartRange) -> ReadPart:
        part = int(range_.part)
        messages = self._topic.messages(part, range_.after, range_.upto)
        if not self.form.keyless:
            self._require_no_lost_delete(part, range_, messages)
        return self.decoder.read(messages)

    def write(self, operations: Operations) -> Mapping[str, int]:
        reached: dict[str, int] = {}
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append(error)
            else:
                part = str(message.partition())
                reached[part] = max(reached.get(part, 0), offset_of(message) + 1)

        messages = self.written_messages(operations)
        with self._writing:  # one call at a time: what one gives up must not be another's
            producer = self._topic.clients.producer()
            for key, value in messages:
                while True:
                    try:
                        producer.produce(self._topic.name, value, key, on_delivery=delivered)
                        break
                    except BufferError:  # until some of it is delivered
                        producer.poll(0.1)
                producer.poll(0)
            if producer.flush(TIMEOUT_SECONDS):
                producer.purge()  # else it would be written when nobody expects it any more
                producer.flush(TIMEOUT_SECONDS)
        if failed:
            told = next((each for each in failed if each.code() not in _PURGED), None)
            count = f"{len(failed)} of {len(messages)} messages are not written, or nobody knows"
            raise self._topic.told(None if told is None else KafkaException(told), count)
        return reached

    def written_messages(self, operations: Operations) -> list[tuple[bytes | None, bytes | None]]:
        """Keys and values of messages that are `operations`."""
        carried = self.form.carried(operations.kind)
        names = [self.table.columns[i].name for i in carried]
        decoders = [to_python(self.form.types[i], self.zone) for i in carried]
        columns = [column.to_pylist() for column in operations.columns]
        made = []
        for values in zip(*columns, strict=True):
            row = {name: _plain(value if decode is None or value is None else decode(value))
                   for name, value, decode in zip(names, values, decoders, strict=True)}  # fmt: skip
            key = {self.table.columns[i].name: row[self.table.columns[i].name] for i in self.table.key}
            made.append((dumps(key) if key else None, self._envelope(operations.kind, key, row)))
        return made

    def _require_writable(self) -> None:
        if is_avro(self._format):
            raise InputError(
                f"{self.table.name}: messages of format '{self._format}' are written by other programs alone"
            )

    def forget(self, positions: Mapping[str, int]) -> None:
        """Nothing: how long messages stay is the topic's own affair."""

    def close(self) -> None:
        self._topic.close()

    def _envelope(self, kind: int, key: Mapping[str, Any], row: Mapping[str, Any]) -> bytes | None:
        if self._format != "debezium-json":
            return None if kind == DELETE else dumps(row)
        old, new, op = (key, None, "d") if kind == DELETE else (None, row, "u")
        return dumps({"before": old, "after": new, "op": op, "ts_ms": time.time_ns() // 1_000_000})

    def _require_no_lost_delete(self, part: int, range_: PartRange, messages: Messages) -> None:
        """Raises LogLost where messages are gone from a range, and a tombstone that deletes what was read before it may
        have been among them: one that was there for delete.retention.ms, since so long it stays.

        None is lost of what was written, or of a table that began to be read, within that time; nor where nothing had
        been read before the range.
        """
        missing = first_missing(messages.sequences - 1, range_.after, range_.upto)
        if missing is None or not (cleaning := self._topic.cleaning()).compacts:
            return
        since, outside = time.time() - cleaning.kept_seconds, self.table.outside
        if outside is not None and outside.begun is not None and outside.begun > since:
            return
        if range_.after <= self._topic.starts().positions[range_.part]:
            return
        recent = self._topic.first_since(part, since)
        if recent is None or missing < recent:
            raise LogLost(self._said(
                f"messages from offset {missing} of partition {part} on have been compacted away, and tombstones stay "
                f"for {cleaning.kept_seconds:g} seconds (delete.retention.ms), which were over before they were read: "
                "rows that were deleted there would stay here; drop the table, and create it again"
            ))  # fmt: skip

    def _said(self, message: str) -> str:
        return said_of(self.table.id, self.table.name, message)


_PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)


def _plain(value: Any) -> Any:
    """A value as JSON can have it, which is read as the same again."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z") if value.tzinfo else value.isoformat()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{value!r} cannot be written in JSON")
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    return value

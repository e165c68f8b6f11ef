"""A topic as a table (`contract.OutsideTable`): a part is a partition, a position the next offset to be read."""

from __future__ import annotations

import base64
import datetime
import math
import threading
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from viewkeeper.catalog.model import Table
from viewkeeper.catalog.operation_kinds import DELETE
from viewkeeper.changes.operations import Operations
from viewkeeper.errors import Error, InputError, LogLost, StoreAway
from viewkeeper.stores.outside.contract import LogEnds, OutsideTable, OutsideTraits, PartRange, ReadPart, identity_of
from viewkeeper.stores.outside.kafka.client import AWAY, ELECTING, SETTINGS, TIMEOUT_SECONDS, dumps, settings
from viewkeeper.stores.outside.kafka.messages import FORMATS, Decoder, Messages
from viewkeeper.stores.outside.kafka.writings import TIMES, ValueWriting
from viewkeeper.stores.outside.options import choice, filled_in, require_known
from viewkeeper.stores.outside.said import said_of
from viewkeeper.stores.value_conversion import to_python

READ_AT_ONCE = 10_000


class KafkaTable(OutsideTable):
    """Rows that come as messages of a topic."""

    traits: ClassVar[OutsideTraits] = OutsideTraits(
        order="key, within its partition", rows=False, writable=True, partial=False, keyless=True
    )

    def __init__(self, table: Table, zone: str) -> None:
        super().__init__(table, zone)
        assert table.outside is not None
        self._options = filled_in(dict(table.outside.options))
        self._topic = self._options["topic"]
        self._format = choice(self._options, "format", FORMATS, FORMATS[0])
        writing = ValueWriting(self._options.get("timestamps"), self._options.get("decimals", "plain"))
        self.decoder = Decoder(self.intake, self._format, [writing] * len(table.columns))
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._admin: AdminClient | None = None
        self._producer: Producer | None = None
        self._identity: str | None = None
        self._waiting: dict[str, dict[str, int]] = {}

    @classmethod
    def check(cls, options: Mapping[str, str], keyless: bool) -> None:
        require_known("kafka", options, ("bootstrap_servers", "topic"), ("format", "timestamps", "decimals"), SETTINGS)
        format_ = choice(options, "format", FORMATS, FORMATS[0])
        if "timestamps" in options:
            choice(options, "timestamps", TIMES, "")
        if "decimals" in options:
            choice(options, "decimals", ("plain", "base64"), "")
        if keyless and format_ != "json-append":
            raise InputError(
                f"format '{format_}' needs a PRIMARY KEY; rows that are only added have format 'json-append'"
            )
        if not keyless and format_ == "json-append":
            raise InputError("format 'json-append' has no PRIMARY KEY: each message is a row of its own")

    def require_there(self) -> None:
        policy, starts = self._policy(), self._offsets(OffsetSpec.earliest())
        gone = {partition: offset for partition, offset in starts.items() if offset > 0}
        if gone and policy != "compact":
            partition, offset = min(gone.items())
            raise Error(f"topic {self._topic!r} begins at offset {offset} of partition {partition}: what came before "
                        f"is gone (cleanup.policy {policy}), and with it rows that nobody knows of; take a topic that "
                        "has its beginning, or is compacted")  # fmt: skip

    def start(self) -> LogEnds:
        return self._as_ends(self._offsets(OffsetSpec.earliest()))

    def ends(self) -> LogEnds:
        return self._as_ends(self._offsets(OffsetSpec.latest()))

    def read(self, range_: PartRange) -> ReadPart:
        messages = self._messages(int(range_.part), range_.after, range_.upto)
        return self.decoder.read(messages)

    def write(self, operations: Operations) -> Mapping[str, int]:
        reached: dict[str, int] = {}
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append(error)
            else:
                part = str(message.partition())
                reached[part] = max(reached.get(part, 0), _offset(message) + 1)

        messages = self.written_messages(operations)
        with self._writing:  # one call at a time: what one gives up must not be another's
            producer = self._writer()
            for key, value in messages:
                while True:
                    try:
                        producer.produce(self._topic, value, key, on_delivery=delivered)
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
            raise self._told(None if told is None else KafkaException(told), count)
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

    def forget(self, positions: Mapping[str, int]) -> None:
        """Nothing: how long messages stay is the topic's own affair."""

    def close(self) -> None:
        with self._lock:
            self._admin = self._producer = None

    def _envelope(self, kind: int, key: Mapping[str, Any], row: Mapping[str, Any]) -> bytes | None:
        if self._format != "debezium-json":
            return None if kind == DELETE else dumps(row)
        old, new, op = (key, None, "d") if kind == DELETE else (None, row, "u")
        return dumps({"before": old, "after": new, "op": op, "ts_ms": time.time_ns() // 1_000_000})

    def _client(self, **more: Any) -> dict[str, Any]:
        return settings(self._options, **more)

    def _asked(self) -> AdminClient:
        with self._lock:
            if self._admin is None:
                self._admin = AdminClient(self._client())
            return self._admin

    def _writer(self) -> Producer:
        with self._lock:
            if self._producer is None:
                # As Java's clients place keys: a key stays in its partition whoever writes it.
                self._producer = Producer(self._client(**{"enable.idempotence": True, "partitioner": "murmur2_random"}))
            return self._producer

    def _offsets(self, spec: OffsetSpec) -> dict[int, int]:
        """The offsets of all partitions; those behind which transactions are open are not yet there."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                return self._offsets_now(spec)
            except KafkaException as error:
                if error.args[0].code() not in ELECTING or time.monotonic() > deadline:
                    raise self._told(error, "its ends cannot be read") from error
                time.sleep(0.05)

    def _offsets_now(self, spec: OffsetSpec) -> dict[int, int]:
        described = self._asked().describe_topics(TopicCollection([self._topic]), request_timeout=TIMEOUT_SECONDS)
        topic = described[self._topic].result()
        self._identity = identity_of(topic.topic_id)
        asked = {TopicPartition(self._topic, each.id): spec for each in topic.partitions}
        found = self._asked().list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED,
                                           request_timeout=TIMEOUT_SECONDS)  # fmt: skip
        return {place.partition: future.result().offset for place, future in found.items()}

    def _as_ends(self, offsets: Mapping[int, int]) -> LogEnds:
        assert self._identity is not None
        return LogEnds({str(part): offset for part, offset in offsets.items()},
                       {str(part): self._identity for part in offsets})  # fmt: skip

    def _policy(self) -> str:
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        try:
            found = self._asked().describe_configs([resource], request_timeout=TIMEOUT_SECONDS)[resource].result()
        except KafkaException as error:
            raise self._told(error, "its configuration cannot be read") from error
        return str(found["cleanup.policy"].value)

    def _messages(self, partition: int, after: int, upto: int) -> Messages:
        consumer = Consumer(self._client(**{
            "group.id": "viewkeeper", "enable.auto.commit": False, "enable.partition.eof": True,
            "auto.offset.reset": "error", "isolation.level": "read_committed",
        }))  # fmt: skip
        taken: list[Message] = []
        try:
            consumer.assign([TopicPartition(self._topic, partition, after)])
            heard = time.monotonic()
            while True:
                got = consumer.consume(READ_AT_ONCE, 0.2)
                ended = False
                for message in got:
                    error = message.error()
                    if error is None:
                        if _offset(message) >= upto:
                            ended = True
                            break
                        taken.append(message)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        ended = ended or _offset(message) >= upto
                    elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                        raise self._cut_off(partition, after)
                    elif not error.retriable() and error.code() not in AWAY:
                        raise KafkaException(error)
                if ended or (taken and _offset(taken[-1]) >= upto - 1):
                    break
                if got:
                    heard = time.monotonic()
                elif time.monotonic() - heard > TIMEOUT_SECONDS:
                    raise StoreAway(self._said(f"no broker of {self._options['bootstrap_servers']} answers"))
        except KafkaException as error:
            raise self._told(error, f"partition {partition} cannot be read") from error
        finally:
            consumer.close()
        return _as_messages(taken)

    def _cut_off(self, partition: int, after: int) -> LogLost:
        return LogLost(self._said(
            f"the topic {self._topic!r} does not go back to offset {after} of partition {partition} any more: it was "
            "cut off before it had been read; drop the table, and create it again from a new snapshot"
        ))  # fmt: skip

    def _told(self, error: KafkaException | None, what: str) -> Error:
        """The error for what a client says."""
        cause = error.args[0] if error is not None else None
        code = cause.code() if isinstance(cause, KafkaError) else None
        if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return Error(self._said(f"there is no topic {self._topic!r} at {self._options['bootstrap_servers']}"))
        message = self._said(f"{what}: {cause.str() if isinstance(cause, KafkaError) else 'no answer'} "
                             f"({self._options['bootstrap_servers']}, topic {self._topic!r})")  # fmt: skip
        away = cause is None or code in AWAY or (isinstance(cause, KafkaError) and cause.retriable())
        return StoreAway(message) if away else Error(message)

    def _said(self, message: str) -> str:
        return said_of(self.table.id, self.table.name, message)


_PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None, "it has been delivered"
    return offset


def _as_messages(taken: Sequence[Message]) -> Messages:
    offsets = np.fromiter((_offset(message) for message in taken), np.int64, len(taken))
    stamps = np.fromiter((message.timestamp()[1] for message in taken), np.int64, len(taken))
    stamps = np.maximum.accumulate(stamps * 1_000) if len(stamps) else stamps  # producers' clocks differ
    return Messages([message.key() for message in taken], [message.value() for message in taken], offsets + 1, stamps)


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

"""Views as messages in Kafka: the newest row of each key, or each change of one (docs/stores/views.md).

A writing is one transaction, its marker included, which is the newest message of a topic beside, `<topic>.viewkeeper`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from viewkeeper.catalog.outside_store import Target
from viewkeeper.errors import Error, InputError, StoreAway
from viewkeeper.stores.outside.kafka.client import AWAY, SETTINGS, TIMEOUT_SECONDS, dumps, heard, settings
from viewkeeper.stores.outside.options import choice, filled_in, require_known
from viewkeeper.stores.outside.targets import (
    RESERVED,
    Begun,
    Deviation,
    LaterEpoch,
    Marker,
    Mending,
    RowForm,
    TargetTaken,
    ViewTarget,
    Written,
)
from viewkeeper.stores.outside.values import json_values
from viewkeeper.trace.rows import Rows

FORMATS = ("upsert", "changes")

TRANSACTION_SECONDS = 900.0
"""The longest that brokers allow if nobody says otherwise: the first writing of a large view is one transaction."""

TIMES, VERSION = f"{RESERVED}times", f"{RESERVED}version"

_MARKER_KEY = b"marker"
_READ_AT_ONCE = 10_000


class KeyChange(NamedTuple):
    """A row's key, as bytes, and what it was and is; None: not there."""

    key: bytes
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class KafkaTarget(ViewTarget):
    """A view's rows in a topic."""

    what: ClassVar[str] = "messages"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._options = filled_in(dict(target.options))
        self._topic = self._options["topic"]
        self._format = choice(self._options, "format", FORMATS, FORMATS[0])
        self._marker_topic = f"{self._topic}.viewkeeper"
        self._admin: AdminClient | None = None
        self._consumer: Consumer | None = None
        self._producer: Producer | None = None
        self._mine: Marker | None = None
        self._sending = False
        self._failed: KafkaError | None = None

    @classmethod
    def check(cls, options: Mapping[str, str]) -> None:
        require_known("kafka", options, ("bootstrap_servers", "topic"), ("format",), SETTINGS)
        choice(options, "format", FORMATS, FORMATS[0])

    @classmethod
    def collide(cls, one: Mapping[str, str], other: Mapping[str, str]) -> bool:
        same = one["bootstrap_servers"] == other["bootstrap_servers"]
        topics = {one["topic"], other["topic"], f"{one['topic']}.viewkeeper", f"{other['topic']}.viewkeeper"}
        return same and len(topics) < 4

    def marker(self) -> Marker | None:
        with self._told("its marker cannot be read"):
            found = self._newest_marker()
            if found is None and any(low < high for low, high in self._ends(self._topic).values()):
                raise self._taken("messages that are not viewkeeper's")
            return found

    def begin(self, mine: Marker, *, force: bool = False) -> Marker | None:
        was = self.marker()
        self._require_ours(was, mine, force)
        with self._told("a transaction cannot be begun"):
            self._make_topics()
            self._let_go()
            producer = Producer(settings(self._options, **{
                "transactional.id": f"viewkeeper {mine.database} {self._topic}", "partitioner": "murmur2_random",
                "transaction.timeout.ms": int(TRANSACTION_SECONDS * 1_000), "linger.ms": 5,
                "message.timeout.ms": int(TIMEOUT_SECONDS * 1_000),
            }))  # fmt: skip
            producer.init_transactions(TIMEOUT_SECONDS)  # from now on nobody who began before can write
        self._producer, self._mine, self._sending = producer, mine, False
        was = self.marker()
        self._require_ours(was, mine, force)
        if was is None or was.epoch != mine.epoch:  # who comes with an earlier one is refused from now on
            first = Marker(mine.database, mine.view, mine.state)
            self.complete((was or first)._replace(epoch=mine.epoch))
        return was

    def write(self, form: RowForm, at: Written, came: Rows, gone: Rows) -> None:
        before, after = dict(_rows(form, gone)), dict(_rows(form, came))
        keys = [*after, *(key for key in before if key not in after)]
        self._send(at, [KeyChange(key, before.get(key), after.get(key)) for key in keys])

    def complete(self, marker: Marker) -> None:
        said = {"database": marker.database, "view": marker.view, "state": marker.state, "version": marker.at.version,
                "at": str(marker.at), "epoch": marker.epoch}  # fmt: skip
        producer = self._begun()
        with self._told("a transaction cannot be committed"):
            self._produce(producer, self._marker_topic, dumps(said), _MARKER_KEY)
            producer.commit_transaction(TIMEOUT_SECONDS)
        self._sending = False

    def deviations(self, form: RowForm, rows: Iterable[Rows]) -> Iterator[tuple[list[Deviation], Mending]]:
        with self._told("it cannot be read"):
            found = self._folded()
        for block in rows:
            wrong = []
            for key, row in _rows(form, block):
                was = found.pop(key, None)
                if was != row:
                    wrong.append(KeyChange(key, was, row))
            yield _deviating(wrong), wrong
        left = [KeyChange(key, was, None) for key, was in found.items()]
        yield _deviating(left), left

    def mend(self, at: Written, mending: Mending) -> None:
        self._send(at, mending)

    def clear(self) -> None:
        with self._told("it cannot be read"):
            found = self._folded()
        self._send(Written(), [KeyChange(key, was, None) for key, was in found.items()])
        assert self._mine is not None, "it has begun"
        self.complete(Marker(self._mine.database, 0, 0, epoch=self._mine.epoch))

    def get(self, form: RowForm, key: Rows) -> list[dict[str, Any]]:
        raise InputError("a topic has no look-up by key; read the view itself, without source")

    def close(self) -> None:
        self._let_go()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _let_go(self) -> None:
        # What it had begun is given up by the one that begins after it.
        self._producer, self._sending = None, False

    def _require_ours(self, was: Marker | None, mine: Marker, force: bool) -> None:
        if was is not None and was.database != mine.database:
            raise self._taken(f"rows of another database ({was.database})")
        if was is not None and was.epoch > mine.epoch and not force:
            raise LaterEpoch(f"it was written in epoch {was.epoch}, and this is {mine.epoch}")

    def _taken(self, what: str) -> TargetTaken:
        where = f"the topic {self._topic!r} at {self._options['bootstrap_servers']}"
        return TargetTaken(f"{where} holds {what}; take another topic, or delete this one")

    def _begun(self) -> Producer:
        """The producer, in a transaction."""
        if self._producer is None:
            raise Begun("nothing was begun")
        if not self._sending:
            with self._told("a transaction cannot be begun"):
                self._producer.begin_transaction()
            self._sending = True
        return self._producer

    def _send(self, at: Written, changes: Iterable[KeyChange]) -> None:
        headers: list[tuple[str, str | bytes | None]] = [(VERSION, str(at.version))]
        producer = self._begun()
        with self._told("it cannot be written"):
            for change in changes:
                self._produce(producer, self._topic, self._value(change, at.version), change.key, headers)

    def _value(self, change: KeyChange, version: int) -> bytes | None:
        if self._format == "upsert":
            return None if change.after is None else dumps(change.after)
        op = "c" if change.before is None else "d" if change.after is None else "u"
        return dumps({"before": change.before, "after": change.after, "op": op, "version": version})

    def _produce(
        self, producer: Producer, topic: str, value: bytes | None, key: bytes,
        headers: list[tuple[str, str | bytes | None]] | None = None,
    ) -> None:  # fmt: skip
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                producer.produce(topic, value, key, headers=headers or [], on_delivery=self._delivered)
                break
            except BufferError:  # until some of it is delivered
                producer.poll(0.1)
                if time.monotonic() > deadline:
                    raise StoreAway(f"no broker of {self._options['bootstrap_servers']} takes messages") from None
        producer.poll(0)
        if self._failed is not None:
            raise KafkaException(self._failed)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self._failed = self._failed or error

    def _make_topics(self) -> None:
        """Makes the topics that are not there: compacted ones, which keep the newest message of each key."""
        found = self._asked().list_topics(timeout=TIMEOUT_SECONDS).topics
        compacted = {"cleanup.policy": "compact"}
        wanted = [NewTopic(self._topic, config=compacted if self._format == "upsert" else {}),
                  NewTopic(self._marker_topic, num_partitions=1, config=compacted)]  # fmt: skip
        missing = [topic for topic in wanted if topic.topic not in found]
        for future in self._asked().create_topics(missing, request_timeout=TIMEOUT_SECONDS).values() if missing else ():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
        while missing and not {topic.topic for topic in wanted} <= self._asked().list_topics(
            timeout=TIMEOUT_SECONDS
        ).topics.keys():  # fmt: skip
            time.sleep(0.05)

    def _newest_marker(self) -> Marker | None:
        """What the newest message of the marker's topic says: from its end back, since transactions leave gaps."""
        ends = self._ends(self._marker_topic).get(0)
        back = 4
        while ends is not None and ends[0] < ends[1]:
            begin = max(ends[0], ends[1] - back)
            messages = list(self._messages(self._marker_topic, 0, begin, ends[1]))
            if messages:
                said = json.loads(messages[-1].value() or b"{}")
                return Marker(said["database"], said["view"], said["state"], Written.parse(said["at"]), said["epoch"])
            if begin == ends[0]:
                break
            back *= 4
        return None

    def _folded(self) -> dict[bytes, dict[str, Any]]:
        """The newest row of each key."""
        found: dict[bytes, dict[str, Any]] = {}
        for partition, (low, high) in self._ends(self._topic).items():
            for message in self._messages(self._topic, partition, low, high):
                key, row = _bytes(message.key()) or b"", self._row(message)
                if row is None:
                    found.pop(key, None)
                else:
                    found[key] = row
        return found

    def _row(self, message: Message) -> dict[str, Any] | None:
        """The row that a message leaves."""
        value = message.value()
        if value is None:
            return None
        try:
            said = json.loads(value)
            row = said if self._format == "upsert" else said["after"]
        except (ValueError, KeyError, TypeError):
            return {"": "no JSON of a row"}
        return row if row is None or isinstance(row, dict) else {"": "no row"}

    def _ends(self, topic: str) -> dict[int, tuple[int, int]]:
        """Of each partition the first offset, and the one behind the last; empty: there is no topic."""
        known = self._asked().list_topics(timeout=TIMEOUT_SECONDS).topics.get(topic)
        if known is None or known.error is not None:
            return {}
        found = {}
        for partition in known.partitions:
            low, high = self._reader().get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT_SECONDS)
            found[partition] = (low, high)
        return found

    def _messages(self, topic: str, partition: int, low: int, high: int) -> Iterator[Message]:
        """The committed messages of a partition from `low` on, to before `high` or an open transaction."""
        if low >= high:
            return
        reader = self._reader()
        reader.assign([TopicPartition(topic, partition, low)])
        last = time.monotonic()
        while True:
            for message in (got := heard(reader, _READ_AT_ONCE, 0.05)):
                error, offset = message.error(), message.offset()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return
                if error is not None:
                    raise KafkaException(error)
                if offset is None or offset >= high:
                    return
                yield message
            if got:
                last = time.monotonic()
            elif time.monotonic() - last > TIMEOUT_SECONDS:
                raise StoreAway(f"no broker of {self._options['bootstrap_servers']} answers")

    def _reader(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(settings(self._options, **{
                "group.id": "viewkeeper", "enable.auto.commit": False, "enable.partition.eof": True,
                "auto.offset.reset": "earliest", "isolation.level": "read_committed", "fetch.wait.max.ms": 10,
            }))  # fmt: skip
        return self._consumer

    def _asked(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient(settings(self._options))
        return self._admin

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            cause = error.args[0]
            self._failed = None
            self._let_go()
            if cause.code() in _FENCED:
                raise Begun("another writer has begun") from error
            message = f"Kafka at {self._options['bootstrap_servers']}, topic {self._topic!r}: {what}: {cause.str()}"
            away = cause.code() in AWAY or cause.retriable() or cause.txn_requires_abort()
            raise (StoreAway if away else Error)(message) from error


_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED, KafkaError._STATE)


def _rows(form: RowForm, rows: Rows) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Of each row its key and what JSON has of it."""
    names = [column.name for column in form.columns]
    columns = [json_values(column.type, values) for column, values in zip(form.columns, rows.columns, strict=True)]
    if not form.unique:
        names, columns = [*names, TIMES], [*columns, rows.weights.tolist()]
    for values in zip(*columns, strict=True):
        row = dict(zip(names, values, strict=True))
        yield dumps({names[i]: values[i] for i in form.key}), row


def _deviating(changes: list[KeyChange]) -> list[Deviation]:
    return [Deviation(change.key.decode(errors="backslashreplace"), change.after, change.before) for change in changes]


def _bytes(text: str | bytes | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text

"""A topic as a log: its ends, how it is cleaned, and ranges of its messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource, OffsetSpec, ResourceType

from viewkeeper.errors import Error, LogLost, StoreAway
from viewkeeper.stores.outside.contract import LogEnds, identity_of
from viewkeeper.stores.outside.kafka.client import AWAY, ELECTING, TIMEOUT_SECONDS, heard
from viewkeeper.stores.outside.kafka.compaction import Cleaning
from viewkeeper.stores.outside.kafka.kept_clients import KeptClients
from viewkeeper.stores.outside.kafka.messages import Messages

READ_AT_ONCE = 10_000


class Topic:
    """The topic that `options` (OPTIONS, with their secrets) name; for any thread.  A part is a partition, a position
    the next offset to be read.  `said` puts before a message whom it is about; that
    is a table or stream (`feeds`)."""

    def __init__(self, options: Mapping[str, str], said: Callable[[str], str], feeds: str) -> None:
        self.name, self.servers = options["topic"], options["bootstrap_servers"]
        self.clients = KeptClients(options, self.name)
        self._said, self._feeds = said, feeds

    def starts(self) -> LogEnds:
        """The first offsets that are there."""
        return self._offsets(OffsetSpec.earliest())

    def ends(self) -> LogEnds:
        """The offsets behind the last messages; those behind which transactions are open are not yet there."""
        return self._offsets(OffsetSpec.latest())

    def first_since(self, partition: int, seconds: float) -> int | None:
        """The first offset of a message whose timestamp is not before this wall time; None: there is none."""
        found = self._offsets(OffsetSpec.for_timestamp(int(seconds * 1_000))).positions[str(partition)]
        return None if found < 0 else found

    def cleaning(self) -> Cleaning:
        """How old messages go."""
        resource = ConfigResource(ResourceType.TOPIC, self.name)
        try:
            asked = self.clients.admin().describe_configs([resource], request_timeout=TIMEOUT_SECONDS)
            found = asked[resource].result()
        except KafkaException as error:
            raise self.told(error, "its configuration cannot be read") from error
        policy, kept = (str(found[name].value) for name in ("cleanup.policy", "delete.retention.ms"))
        return Cleaning(policy, int(kept) / 1_000)

    def messages(self, partition: int, after: int, upto: int) -> Messages:
        """The messages of a partition from offset `after` on, before `upto`; raises LogLost where it does not go back
        so far."""
        taken: list[Message] = []
        try:
            with self.clients.consumer(partition) as consumer:
                consumer.assign([TopicPartition(self.name, partition, after)])
                last = time.monotonic()
                while not self._take((got := heard(consumer, READ_AT_ONCE, 0.2)), taken, (partition, after, upto)):
                    if got:
                        last = time.monotonic()
                    elif time.monotonic() - last > TIMEOUT_SECONDS:
                        raise StoreAway(self._said(f"no broker of {self.servers} answers"))
        except KafkaException as error:
            raise self.told(error, f"partition {partition} cannot be read") from error
        return _as_messages(taken)

    def told(self, error: KafkaException | None, what: str) -> Error:
        """The error for what a client says."""
        cause = error.args[0] if error is not None else None
        code = cause.code() if isinstance(cause, KafkaError) else None
        if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return Error(self._said(f"there is no topic {self.name!r} at {self.servers}"))
        message = self._said(f"{what}: {cause.str() if isinstance(cause, KafkaError) else 'no answer'} "
                             f"({self.servers}, topic {self.name!r})")  # fmt: skip
        away = cause is None or code in AWAY or (isinstance(cause, KafkaError) and cause.retriable())
        return StoreAway(message) if away else Error(message)

    def close(self) -> None:
        """Gives up the clients of this process."""
        self.clients.close()

    def _take(self, got: Sequence[Message], taken: list[Message], range_: tuple[int, int, int]) -> bool:
        """Takes what is in a range (partition, after, upto) of what has come; whether that was the last of it."""
        partition, after, upto = range_
        for message in got:
            error = message.error()
            if error is None:
                if offset_of(message) >= upto:
                    return True
                taken.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                if message.partition() == partition and offset_of(message) >= upto:
                    return True
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                raise LogLost(self._said(
                    f"the topic {self.name!r} does not go back to offset {after} of partition {partition} any more: it "
                    f"was cut off before it had been read; drop the {self._feeds}, and create it again"
                ))  # fmt: skip
            elif not error.retriable() and error.code() not in AWAY:
                raise KafkaException(error)
        return bool(taken) and offset_of(taken[-1]) >= upto - 1

    def _offsets(self, spec: OffsetSpec) -> LogEnds:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                return self._offsets_now(spec)
            except KafkaException as error:
                if error.args[0].code() not in ELECTING or time.monotonic() > deadline:
                    raise self.told(error, "its ends cannot be read") from error
                time.sleep(0.05)

    def _offsets_now(self, spec: OffsetSpec) -> LogEnds:
        admin = self.clients.admin()
        described = admin.describe_topics(TopicCollection([self.name]), request_timeout=TIMEOUT_SECONDS)
        topic = described[self.name].result()
        asked = {TopicPartition(self.name, each.id): spec for each in topic.partitions}
        found = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED,
                                   request_timeout=TIMEOUT_SECONDS)  # fmt: skip
        offsets = {str(place.partition): future.result().offset for place, future in found.items()}
        return LogEnds(offsets, dict.fromkeys(offsets, identity_of(topic.topic_id)))


def offset_of(message: Message) -> int:
    """The offset of a message that has been delivered."""
    offset = message.offset()
    assert offset is not None, "it has been delivered"
    return offset


def _as_messages(taken: Sequence[Message]) -> Messages:
    offsets = np.fromiter((offset_of(message) for message in taken), np.int64, len(taken))
    stamps = np.fromiter((message.timestamp()[1] for message in taken), np.int64, len(taken))
    stamps = np.maximum.accumulate(stamps * 1_000) if len(stamps) else stamps  # producers' clocks differ
    return Messages([message.key() for message in taken], [message.value() for message in taken], offsets + 1, stamps)

"""What all clients of Kafka here have in common: settings, silence, and what is waited for."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message

SETTINGS = "kafka."
"""What the names of the client's own settings begin with, among OPTIONS."""

TIMEOUT_SECONDS = 10.0
"""So long a broker may take to answer."""

ELECTING = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
"""Who leads a partition is just being settled."""

AWAY = (
    *ELECTING, KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._RESOLVE,
    KafkaError._MSG_TIMED_OUT, KafkaError.REQUEST_TIMED_OUT, KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)  # fmt: skip
"""Errors that end when the brokers are there again."""


def settings(options: Mapping[str, str], **more: Any) -> dict[str, Any]:
    """The settings of a client; `options` are OPTIONS, with their secrets."""
    own = {name.removeprefix(SETTINGS): value for name, value in options.items() if name.startswith(SETTINGS)}
    return {"bootstrap.servers": options["bootstrap_servers"], "logger": _silent(), **more, **own}


def heard(consumer: Consumer, most: int, seconds: float) -> list[Message]:
    """What has come, at most so many messages; where nothing has, the first that comes within `seconds`.

    `consume` itself waits until it has all that it was asked for.
    """
    return consumer.consume(most, 0) or consumer.consume(1, seconds)


def dumps(value: Any) -> bytes:
    """A value as JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _silent() -> logging.Logger:
    """What the client prints of a broker that does not answer; we say it ourselves."""
    log = logging.getLogger("viewkeeper.kafka")
    log.propagate = False
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    return log

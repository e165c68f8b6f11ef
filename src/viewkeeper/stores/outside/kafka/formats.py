"""What messages of a topic are written in (OPTIONS (format)), and who reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from viewkeeper.errors import InputError
from viewkeeper.stores.outside.kafka.client import SETTINGS
from viewkeeper.stores.outside.kafka.json_messages import JsonDecoder
from viewkeeper.stores.outside.kafka.messages import Decoder, RowShape
from viewkeeper.stores.outside.kafka.registry import SchemaRegistry
from viewkeeper.stores.outside.kafka.writings import TIMES, ValueWriting
from viewkeeper.stores.outside.options import choice, require_known
from viewkeeper.stores.outside.outside_kinds import loaded

KEYED = ("debezium-json", "json", "debezium-avro", "avro")
"""Envelopes with old and new row; the newest row of a key, NULL where it is deleted."""

ADDED = ("json-append", "avro-append")
"""Rows that are only added."""

_REGISTRY = ("registry", "registry.user", "registry.password")


def format_of(options: Mapping[str, str], default: str) -> str:
    """The format that OPTIONS name; raises InputError where there is no such one."""
    return choice(options, "format", (*KEYED, *ADDED), default)


def is_avro(format_: str) -> bool:
    """Whether its messages are in Avro, and their schemas in a registry."""
    return "avro" in format_


def require_readable(options: Mapping[str, str], format_: str) -> None:
    """Raises InputError, naming the option, where nobody can read what OPTIONS say."""
    require_known("kafka", options, ("bootstrap_servers", "topic"), ("format", "timestamps", "decimals", *_REGISTRY),
                  SETTINGS)  # fmt: skip
    if is_avro(format_) and "registry" not in options:
        raise InputError(f"format '{format_}' needs registry 'http://...', where the schemas of its messages are")
    if not is_avro(format_) and "registry" in options:
        raise InputError(f"format '{format_}' has no registry; formats in Avro have")
    if "timestamps" in options:
        choice(options, "timestamps", TIMES, "")
    if "decimals" in options:
        choice(options, "decimals", ("plain", "base64"), "")


def decoder_of(options: Mapping[str, str], format_: str, shape: RowShape, said: Callable[[str], str]) -> Decoder:
    """Who reads such messages; `options` with their secrets, `said` puts before a message whom it is about."""
    writing = ValueWriting(options.get("timestamps"), options.get("decimals", "plain"))
    has_envelopes = format_.startswith("debezium")
    if not is_avro(format_):
        return JsonDecoder(shape, has_envelopes, writing)
    made = loaded("kafka", ("viewkeeper.stores.outside.kafka.avro_messages", "AvroDecoder"))
    decoder = made(shape, has_envelopes, writing, SchemaRegistry(options, said))
    assert isinstance(decoder, Decoder)
    return decoder

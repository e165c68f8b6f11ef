"""The kinds of outside stores, by the name behind USING."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from viewkeeper.catalog.outside_store import OutsideStore
from viewkeeper.errors import InputError, NotSupported
from viewkeeper.stores.outside.contract import OutsideTable
from viewkeeper.stores.outside.stream_source import StreamSource

KINDS: Mapping[str, tuple[str, str]] = {
    "kafka": ("viewkeeper.stores.outside.kafka.table", "KafkaTable"),
    "redis": ("viewkeeper.stores.outside.redis.table", "RedisTable"),
    "cassandra": ("viewkeeper.stores.outside.cassandra.cassandra_table", "CassandraTable"),
    "hbase": ("viewkeeper.stores.outside.hbase.hbase_table", "HBaseTable"),
    "delta": ("viewkeeper.stores.outside.delta.lake_table", "DeltaLakeTable"),
    "iceberg": ("viewkeeper.stores.outside.iceberg.iceberg_table", "IcebergTable"),
}
"""Where each is: module and class.  A store's client is loaded when a table of it is."""

SOURCES: Mapping[str, tuple[str, str]] = {"kafka": ("viewkeeper.stores.outside.kafka.stream", "KafkaStream")}
"""The same for what streams are fed from."""


def outside_note(outside: OutsideStore) -> str:
    """Where a table in an outside store is, and how the store differs, for people; no secret is among the options."""
    try:
        traits = f"; {kind_of_store(outside.kind).traits}"
    except (InputError, NotSupported):  # its client is not installed here
        traits = ""
    return f"in {outside.kind} ({_listed(outside)}){traits}"


def source_note(outside: OutsideStore) -> str:
    """Where a stream is fed from, for people."""
    return f"from {outside.kind} ({_listed(outside)})"


def _listed(outside: OutsideStore) -> str:
    return ", ".join(f"{name} '{value}'" for name, value in outside.options)


def kind_of_store(kind: str) -> type[OutsideTable]:
    """The class of tables in stores of `kind`.

    Raises NotSupported where there is no such kind, InputError where its client is not installed.
    """
    place = KINDS.get(kind.lower())
    if place is None:
        raise NotSupported(
            f"USING {kind}: there are {', '.join(KINDS)}; a table without USING is in the embedded store"
        )
    found = loaded(kind, place)
    assert issubclass(found, OutsideTable)
    return found


def kind_of_source(kind: str) -> type[StreamSource]:
    """The class of what streams are fed from in stores of `kind`; raises as `kind_of_store` does."""
    place = SOURCES.get(kind.lower())
    if place is None:
        raise NotSupported(f"USING {kind}: streams are fed from {', '.join(SOURCES)}; without USING rows are appended")
    found = loaded(kind, place)
    assert issubclass(found, StreamSource)
    return found


def loaded(kind: str, place: tuple[str, str]) -> type:
    """The class at `place`, a module and a name in it; raises InputError where the client of `kind` is not
    installed."""
    module, name = place
    try:
        found: type = getattr(import_module(module), name)
    except ImportError as error:
        raise InputError(f"USING {kind} needs the package {error.name}: pip install 'viewkeeper[{kind}]'") from error
    return found

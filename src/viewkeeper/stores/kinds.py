"""The kinds of stores that a database can have its tables in, by the name that its settings give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from viewkeeper.errors import NotSupported
from viewkeeper.settings import Settings
from viewkeeper.stores.contract import Store
from viewkeeper.stores.embedded import EmbeddedStore

Factory = Callable[[Path, Settings, str | None], Store]
"""Opens the store of the database in a folder, given its settings and how durable writes are to be."""


def _embedded(root: Path, settings: Settings, durability: str | None) -> Store:
    return EmbeddedStore(root, settings.nodes, durability, settings.zone)


KINDS: Mapping[str, Factory] = {"embedded": _embedded}


def open_store(root: Path, settings: Settings, durability: str | None) -> Store:
    """The store of the database in `root`; raises NotSupported where it is of a kind that is not known here."""
    factory = KINDS.get(settings.store)
    if factory is None:
        raise NotSupported(f"the tables of {root} are in a store of kind {settings.store!r}; this version of "
                           f"viewkeeper knows {', '.join(KINDS)}")  # fmt: skip
    return factory(root, settings, durability)

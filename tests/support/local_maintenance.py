"""Maintains a database within the test's own process, without Spark."""

from __future__ import annotations

from functools import partial

import pytest

from viewkeeper.database import Database
from viewkeeper.pipeline import maintain
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.stores.embedded import EmbeddedStore
from viewkeeper.stores.logs import Logs
from viewkeeper.trace.local_disk import local_storage


def with_servers(monkeypatch: pytest.MonkeyPatch, servers: int) -> None:
    """From now on so many view servers share all that is maintained here, however little it is."""
    if servers > 1:
        monkeypatch.setattr("viewkeeper.pipeline.batches.CHAINED_MAX", 0)
        monkeypatch.setattr("viewkeeper.pipeline.adopting.CHAINED_MAX", 0)
        monkeypatch.setattr("local_maintenance.LocalExecutor", partial(LocalExecutor, servers))


def catch_up(db: Database) -> int:
    """`db.catch_up()`."""
    store = EmbeddedStore(db.root, zone=db.catalog.zone)
    logs = Logs.of(store, db.catalog.zone)
    try:
        return maintain.catch_up(local_storage(db.root), logs, LocalExecutor, timeout=60.0)
    finally:
        logs.close()
        logs.outside.close()
        store.close()

"""The threads that look at the ends of outside logs, and what is closed under them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import viewkeeper
from file_store import FileStore, FileTable
from viewkeeper.catalog.model import Table
from viewkeeper.stores.outside import outside_kinds as kinds
from viewkeeper.stores.outside.contract import LogEnds


@pytest.mark.parametrize("is_slow", [False, True])
def test_no_client_is_closed_under_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_slow: bool) -> None:
    """A look that ends in time is waited for; one that does not finds its client closed, and nobody hears of that."""
    looking = threading.Event()
    was_closed: list[bool] = []

    class Watched(FileTable):
        def __init__(self, table: Table, zone: str) -> None:
            super().__init__(table, zone)
            self.closed = threading.Event()

        def ends(self) -> LogEnds:
            if threading.current_thread().name == "viewkeeper t":
                looking.set()
                self.closed.wait(60 if is_slow else 0.1)
                was_closed.append(self.closed.is_set())
                if self.closed.is_set():
                    raise TypeError("argument must be an int, or have a fileno() method")
            return super().ends()

        def close(self) -> None:
            self.closed.set()

    monkeypatch.setattr("file_store.FileTable", Watched)
    monkeypatch.setattr(kinds, "KINDS", {**kinds.KINDS, "file": ("file_store", "FileTable")})
    store = FileStore(tmp_path / "store")
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql(f"CREATE TABLE t (id INT, PRIMARY KEY (id)) USING file OPTIONS (folder '{store.folder}')")
        watch = db._logs._watch(db.catalog.outside[0])
        watch.ends()
        assert looking.wait(60)
    watch.join(60)
    assert was_closed and was_closed[-1] is is_slow

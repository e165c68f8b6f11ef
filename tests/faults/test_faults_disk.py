"""A disk that is full at any step leaves no lock behind, and what was told to have failed is never applied."""

from __future__ import annotations

import contextlib
import itertools
import threading
from pathlib import Path

import pytest

import viewkeeper
from full_disk import full_disk
from pipeline_database import Shop, term_of
from viewkeeper.errors import StorageError
from viewkeeper.pipeline import requests
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.maintain import Maintenance
from viewkeeper.trace.local_disk import local_storage
from viewkeeper.trace.lock import driver_lock
from viewkeeper.trace.snapshot import Change

SHOP_VIEWS = ""
KINDS = pytest.mark.parametrize(("lasting", "after"), [(False, False), (False, True), (True, False)])


def declared(shop: Shop, name: str) -> bool | None:
    """Declares a view: whether that was done; None where the error says that this is not known."""
    try:
        shop.declare(f"CREATE VIEW {name} AS SELECT id FROM orders")
    except OSError:
        return False
    except StorageError as error:
        assert "may still be applied" in str(error)
        return None
    return True


@KINDS
def test_a_statement_that_failed_on_a_full_disk_is_never_applied(shop: Shop, lasting: bool, after: bool) -> None:
    """At whatever step the disk is full: with room again the same process goes on, and so does the next."""
    said: dict[str, bool | None] = {}
    for step in itertools.count(1):
        with full_disk(step, lasting=lasting, after=after) as disk:
            said[f"v{step}"] = declared(shop, f"v{step}")
        assert declared(shop, f"w{step}")
        if not disk.failed:
            break
    assert step > 10 and any(done is False for done in said.values())
    for snapshot in (shop.snapshot, local_storage(shop.root).newest()):
        assert all((snapshot.catalog.find(name) is not None) == done for name, done in said.items() if done is not None)
    shop.maintain_once()  # by the next driver, which takes what is in line
    catalog = shop.snapshot.catalog
    assert all((catalog.find(name) is not None) == done for name, done in said.items() if done is not None)
    if lasting or not after:
        assert None not in said.values()


@KINDS
def test_a_pipeline_that_cannot_begin_leaves_the_lock(shop: Shop, lasting: bool, after: bool) -> None:
    """Whatever step of taking the lock and the epoch fails, the next one begins."""
    for step in itertools.count(1):
        with full_disk(step, lasting=lasting, after=after) as disk:
            try:
                with Maintenance(local_storage(shop.root), shop.logs, LocalExecutor):
                    pass
            except (OSError, StorageError):
                assert disk.failed
        assert driver_lock(shop.root).holder() is None
        term_of(shop.root).close()
        if not disk.failed:
            break
    assert step > 5


def test_what_users_call_says_that_the_disk_is_full(tmp_path: Path) -> None:
    with viewkeeper.connect(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
        db.table("t").put({"id": 1})
        with full_disk(1, lasting=True):
            for call in (db.maintain, db.catch_up, db.snapshot):
                with pytest.raises(StorageError, match="make room on the disk"):
                    call()


def test_a_pipeline_without_a_thread_leaves_the_lock(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads run out, too."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            Maintenance(local_storage(shop.root), shop.logs, LocalExecutor)
    term_of(shop.root).close()


@KINDS
def test_a_driver_goes_on_after_a_commit_that_failed_anywhere(shop: Shop, lasting: bool, after: bool) -> None:
    """It finds out whether the commit is in, and commits behind what is: it is not fenced by itself."""
    term = term_of(shop.root)
    for step in itertools.count(1):
        version = term.snapshot.version
        with full_disk(step, lasting=lasting, after=after) as disk, contextlib.suppress(OSError):
            term.commit(Change("batch", version + 1, {0: step}))
        term.settle()
        assert term.snapshot.version in (version, version + 1)
        assert term.snapshot.identity == local_storage(shop.root).newest().identity
        if not disk.failed:
            break
    term.close()
    assert step > 3


def test_a_prepared_answer_is_proved_by_its_own_commit_alone(shop: Shop) -> None:
    """A driver whose commit failed lives on, and its next batch takes the number: that does not prove the statement."""
    term = term_of(shop.root)
    request = requests._write_request(term.storage, "CREATE VIEW a AS SELECT id FROM orders")
    with full_disk(7) as disk, pytest.raises(OSError, match="No space left"):
        requests.answer_all(term)
    assert disk.failed and term.storage.disk.exists(request + requests.PREPARED)
    assert term.storage.newest().number == term.snapshot.number, "the commit failed"
    term.commit(Change("batch", term.snapshot.version + 1, {0: 1}))
    assert requests.answer_all(term)
    assert term.snapshot.catalog.find("a") is not None
    term.close()


def test_a_request_taken_back_is_passed_over_by_a_driver_that_has_read_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the requester that gives up and the driver that begins only one gets the request."""
    term = term_of(shop.root)
    request = requests._write_request(term.storage, "CREATE VIEW a AS SELECT id FROM orders")
    run = requests.declare_script.run

    def taken_back(*arguments: object) -> object:
        assert requests._withdrawn(term.storage, request, OSError(), driving=False) is None
        return run(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(requests.declare_script, "run", taken_back)
    requests.answer_all(term)
    term.close()
    assert shop.snapshot.catalog.find("a") is None
    assert not list((shop.root / "requests").iterdir())

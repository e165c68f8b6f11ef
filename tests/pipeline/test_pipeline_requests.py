"""Declarations from any process: durable, applied exactly once, all or nothing."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from pipeline_database import Shop, term_of
from viewkeeper.errors import DeclarationError, NotSupported, Timeout
from viewkeeper.pipeline import requests
from viewkeeper.trace.local_disk import local_storage

SHOP_VIEWS = ""


def pending(root: Path) -> list[Path]:
    return sorted((root / "requests").iterdir())


def test_a_script_is_one_change(shop: Shop) -> None:
    """All statements of one script are one new version; views may read earlier views of it."""
    before = shop.snapshot.version
    answer = shop.declare("CREATE VIEW a AS SELECT id, price FROM orders; CREATE VIEW b AS SELECT price FROM a;")
    assert answer.objects == (("CREATE", "VIEW", "a"), ("CREATE", "VIEW", "b"))
    assert shop.snapshot.version == answer.version == before + 1
    assert pending(shop.root) == []


def test_a_script_with_a_wrong_statement_changes_nothing(shop: Shop) -> None:
    """The error of the second statement, with its place, comes back, and the first has no effect."""
    before = shop.snapshot.version
    with pytest.raises(DeclarationError) as caught:
        shop.declare("CREATE VIEW a AS SELECT id FROM orders;\nCREATE VIEW b AS SELECT nothing FROM orders")
    assert (caught.value.line, caught.value.column) == (2, 25)
    with pytest.raises(NotSupported):
        shop.declare("CREATE VIEW a AS SELECT soundex(note) AS s FROM orders")
    assert shop.snapshot.version == before
    assert shop.snapshot.catalog.find("a") is None


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DROP TABLE orders", "used by a"),
        ("DROP VIEW a", "used by b"),
        ("DROP TABLE a", "use DROP VIEW a"),
        ("DROP VIEW nothing", "no view nothing"),
        ("CREATE TABLE A (id BIGINT)", "a"),
    ],
)
def test_refusals_name_what_is_in_the_way(shop: Shop, statement: str, message: str) -> None:
    """What is used, of another kind, absent or taken is refused by name."""
    shop.declare("CREATE VIEW a AS SELECT id FROM orders; CREATE VIEW b AS SELECT id FROM a")
    with pytest.raises(DeclarationError, match=message):
        shop.declare(statement)


def test_drop_takes_indexes_along_and_frees_runs(shop: Shop) -> None:
    """Dropping a view drops its indexes, and the manifest no longer names runs of their states."""
    shop.write(1, 30)
    shop.declare("CREATE VIEW a AS SELECT id, customer FROM orders; CREATE INDEX by_customer ON a (customer)")
    shop.maintain_once()
    with_view = len(shop.snapshot.states)
    answer = shop.declare("DROP VIEW a; DROP VIEW IF EXISTS a")
    assert answer.objects == (("DROP", "INDEX", "by_customer"), ("DROP", "VIEW", "a"))
    assert len(shop.snapshot.states) == with_view - 2
    assert shop.snapshot.catalog.find("by_customer") is None


def test_a_running_driver_answers(shop: Shop) -> None:
    """While a pipeline holds the lock, a request from elsewhere waits for its next step."""
    maintainer = shop.maintainer()
    answers: list[requests.ScriptAnswer] = []
    asking = threading.Thread(target=lambda: answers.append(shop.declare("CREATE VIEW a AS SELECT id FROM orders")))
    asking.start()
    while asking.is_alive():
        maintainer.step()
    asking.join()
    shop.catch_up(maintainer)  # the thread may end before the step that fills
    maintainer.close()
    assert answers[0].version == shop.snapshot.version - 1  # the fill followed
    assert shop.view("a") == shop.expected("a") if shop.orders else not shop.view("a")


def test_unanswered_requests_stay_in_line(shop: Shop) -> None:
    """A requester that gives up says so, and whoever comes next applies what it asked for."""
    holder = term_of(shop.root)
    with pytest.raises(Timeout):
        requests.submit(local_storage(shop.root), "CREATE VIEW a AS SELECT id FROM orders", wait=0.05)
    holder.close()
    shop.declare("CREATE VIEW b AS SELECT id FROM a")
    assert shop.snapshot.catalog.find("a") is not None


@pytest.mark.parametrize("committed", [True, False])
def test_a_request_is_applied_exactly_once(shop: Shop, committed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that dies just before or just after the commit leaves a request that the next one applies once."""
    term = term_of(shop.root)
    request = requests._write_request(term.storage, "CREATE VIEW a AS SELECT id FROM orders")

    class Died(BaseException):
        pass

    def die(*_: object) -> None:
        raise Died

    monkeypatch.setattr(*((requests, "_finish") if committed else (term.storage, "next")), die)
    with pytest.raises(Died):
        requests.answer_all(term)
    monkeypatch.undo()
    term.close()
    assert (shop.snapshot.catalog.find("a") is not None) == committed
    second = term_of(shop.root)
    assert requests.answer_all(second)
    second.close()
    answer = json.loads(second.storage.disk.read(request + requests.ANSWER))
    assert answer["objects"] == [["CREATE", "VIEW", "a"]]
    assert shop.snapshot.catalog.find("a") is not None

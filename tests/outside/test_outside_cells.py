"""Tables whose cells have timestamps, through the whole path: adopted while they are written, followed, checked."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import viewkeeper
from cell_model import Write, rows_of, stored_bytes
from cell_store import PARTS, CellStore, CellTable
from local_maintenance import catch_up, with_servers
from viewkeeper.checker.check import Report, check_views
from viewkeeper.database import Database
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.evidence import DatabaseEvidence
from viewkeeper.pipeline import adopting
from viewkeeper.stores.outside import outside_kinds as kinds

DECLARED = """
CREATE TABLE t (a STRING, n BIGINT, p BIGINT, s STRING, b BIGINT, PRIMARY KEY (p, a, b))
  USING cassandra OPTIONS (folder '{}');
CREATE VIEW rows AS SELECT p, a, b, n, s FROM t;
CREATE VIEW sums AS SELECT s, count(*) AS c FROM t GROUP BY s
"""


KINDS = ["insert", "insert", "update", "unset", "delete", "range"]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CellStore:
    monkeypatch.setattr(kinds, "KINDS", {**kinds.KINDS, "cassandra": ("cell_store", "CellTable")})
    monkeypatch.setattr(CellTable, "between", None)
    return CellStore(tmp_path / "store")


@pytest.fixture
def db(tmp_path: Path, store: CellStore) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        yield database


def change(store: CellStore, chance: random.Random, operations: int, since: int = 0) -> None:
    """Writes of any time after `since`, some of which both parts have."""
    for _ in range(operations):
        key = (chance.randrange(3), chance.choice("xyz"), chance.randrange(3))
        kind, stamp = chance.choice(KINDS), since + chance.randrange(1, 40)
        cells: dict[str, Any] = {"n": chance.choice([None, 1, 2, -1]), "s": chance.choice([None, "", "x"])}
        if kind in ("unset", "update"):
            del cells[chance.choice(["n", "s"])]
        write = Write(kind, key, stamp, {} if kind in ("delete", "range") else cells)
        if kind == "range":
            first, last = sorted([key[1:], (chance.choice("xyz"), chance.randrange(3))])
            write = Write("range", key[:1], stamp, low=(first[: chance.randrange(3)], True),
                          high=(last[: chance.randrange(3)], True))  # fmt: skip
        for part in chance.choice([PARTS, PARTS[:1], PARTS[1:]]):
            store.write(write, part)


def reports(db: Database) -> list[Report]:
    with db._newest.held() as version:
        return check_views(DatabaseEvidence(version, db._logs), ["rows", "sums"], None)


def require_right(db: Database, store: CellStore) -> None:
    expected = [(*key, *row) for key, row in rows_of(store.writes, ["n", "s"], stored_bytes).items()]
    assert Counter(tuple(row.values()) for row in db.view("rows").rows()) == Counter(expected)
    sums = Counter(row[-1] for row in expected)
    assert {tuple(row.values()) for row in db.view("sums").rows()} == set(sums.items())
    assert [report.problem for report in reports(db) if report.problem] == []


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_views_hold_what_the_store_does_after_each_batch(
    db: Database, store: CellStore, seed: int, servers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes come in any order, in several logs, before, within and behind the scan; the check agrees, also when the
    log is ahead of the version."""
    with_servers(monkeypatch, servers)
    monkeypatch.setattr(adopting, "ROWS_AT_ONCE", 4)
    chance = random.Random(seed)
    change(store, chance, 30)
    later = Write("insert", (9, "x", 0), 50, {"n": 1, "s": "x"})
    monkeypatch.setattr(CellTable, "between", lambda: store.write(later, "0"))
    db.sql(DECLARED.format(store.folder))
    catch_up(db)
    CellTable.between = None
    for _ in range(5):
        catch_up(db)
        change(store, chance, 20, since=40)
        assert [report.problem for report in reports(db) if report.problem] == []
        catch_up(db)
        require_right(db, store)


def test_what_is_refused_of_such_tables(db: Database, store: CellStore) -> None:
    with pytest.raises(DeclarationError, match="n is NOT NULL, and cassandra knows no such columns"):
        db.sql(DECLARED.format(store.folder).replace("n BIGINT", "n BIGINT NOT NULL"))
    with pytest.raises(DeclarationError, match="expected the first columns of the primary key, p, a, b"):
        db.sql(DECLARED.format(f"{store.folder}', partition_key 'a, p"))
    db.sql(DECLARED.format(store.folder))
    with pytest.raises(NotSupported, match="t, whose cells have timestamps in cassandra, keeps its columns"):
        db.sql("ALTER TABLE t DROP COLUMN n")

"""A database with a view over an Iceberg table, and what it must hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import viewkeeper
from iceberg_writer import IcebergWriter
from viewkeeper.checker.check import check_views
from viewkeeper.checker.report import Report
from viewkeeper.database import Database
from viewkeeper.evidence import DatabaseEvidence
from viewkeeper.stores.outside.contract import OutsideTable
from viewkeeper.stores.outside.outside_kinds import kind_of_store

ROW = {"id": 1, "g": 1, "a": 2, "note": "x"}

VIEWS = """
CREATE VIEW groups AS SELECT g, count(*) AS n, sum(a) AS total, min(note) AS least FROM t GROUP BY g;
CREATE VIEW both AS SELECT t.id, here.name FROM t JOIN here ON t.g = here.id
"""


@contextmanager
def with_names(root: Path) -> Iterator[Database]:
    """A database that has names for two groups."""
    with viewkeeper.connect(root, durability="process") as database:
        database.sql("CREATE TABLE here (id INT, name STRING, PRIMARY KEY (id))")
        database.table("here").put_many([{"id": 1, "name": "one"}, {"id": 2, "name": "two"}])
        yield database


def declared(writer: IcebergWriter, more: str = VIEWS, columns: str = "(PRIMARY KEY (id))") -> str:
    return f"CREATE TABLE t {columns} USING iceberg {writer.options}; {more}"


def reports(db: Database, *views: str) -> list[Report]:
    with db._newest.held() as version:
        return check_views(DatabaseEvidence(version, db._logs), list(views), None)


def problems(db: Database, *views: str) -> list[str]:
    """What the checker says of views that are not right."""
    return [report.problem or report.verdict for report in reports(db, *views) if report.verdict != "right"]


def require_right(db: Database, writer: IcebergWriter) -> None:
    rows = list(writer.rows.values())
    assert Counter(tuple(row.values()) for row in db.sql("SELECT id, g, a, note FROM t")) == Counter(
        tuple(row.values()) for row in rows
    )
    assert {(row["g"], row["n"]) for row in db.view("groups").rows()} == set(Counter(r["g"] for r in rows).items())
    names = {1: "one", 2: "two"}
    both = Counter((row["id"], names[row["g"]]) for row in rows if row["g"] in names)
    assert Counter(tuple(row.values()) for row in db.view("both").rows()) == both
    assert problems(db, "groups", "both") == []


def opened_table(db: Database) -> OutsideTable:
    (table,) = (table for table in db.catalog.tables if table.name == "t")
    return kind_of_store("iceberg")(table, "UTC")

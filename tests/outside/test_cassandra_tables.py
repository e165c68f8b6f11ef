"""Tables of a real Cassandra, written by a foreign client: views hold what CQL reads there."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cassandra.cluster import Session

import viewkeeper
from cassandra_rows import CassandraRows
from local_maintenance import catch_up, with_servers
from store_servers import unique
from viewkeeper.catalog.model import Catalog, Table
from viewkeeper.checker.check import check_views
from viewkeeper.database import Database
from viewkeeper.errors import DeclarationError, Error, InputError, LogLost
from viewkeeper.evidence import DatabaseEvidence
from viewkeeper.pipeline import adopting
from viewkeeper.pipeline.declare_script import run
from viewkeeper.servers import Cassandra
from viewkeeper.servers.cassandra_log import CassandraLog
from viewkeeper.stores.outside.cassandra import row_access
from viewkeeper.stores.outside.contract import PartRange
from viewkeeper.stores.outside.opened import OutsideTables

VIEWS = """
CREATE VIEW rows AS SELECT id, customer, price, note FROM orders;
CREATE VIEW spend AS SELECT customer, sum(price) AS total, count(*) AS n, max(note) AS most FROM orders
  GROUP BY customer
"""


@pytest.fixture
def make(cassandra_session: Session, cassandra: Cassandra, cassandra_log: CassandraLog) -> Callable[..., CassandraRows]:
    """Makes a table of a name of its own."""
    return lambda *columns: CassandraRows(
        cassandra_session, cassandra, [cassandra_log], unique("orders").replace("-", "_"), *columns
    )


@pytest.fixture
def rows(make: Callable[..., CassandraRows]) -> CassandraRows:
    return make()


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        yield database


def stored(rows: CassandraRows) -> Counter[tuple[Any, ...]]:
    """The rows that have any of the columns that are declared; one that has others alone is none here."""
    return Counter((row["id"], row["customer"], row["price"], row["note"]) for row in rows.rows())


def require_right(db: Database, rows: CassandraRows) -> None:
    expected = stored(rows)
    found = Counter(tuple(row.values()) for row in db.view("rows").rows())
    assert found == expected
    groups: dict[int | None, list[Decimal]] = {}
    for _, customer, price, _ in expected.elements():
        groups.setdefault(customer, []).append(Decimal(0) if price is None else price)
    totals = {row["customer"]: (row["total"] or Decimal(0), row["n"]) for row in db.view("spend").rows()}
    assert totals == {customer: (sum(prices), len(prices)) for customer, prices in groups.items()}
    assert problems(db) == []


def problems(db: Database) -> list[str]:
    with db._newest.held() as version:
        reports = check_views(DatabaseEvidence(version, db._logs), ["rows", "spend"], None)
    return [report.problem for report in reports if report.problem]


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("seed", range(2))
def test_views_hold_what_the_table_does(
    db: Database, rows: CassandraRows, seed: int, servers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adopted while it is written; then followed through writes of any time, ties, and batches."""
    with_servers(monkeypatch, servers)
    chance = random.Random(seed)
    for id_ in range(30):
        rows.put(id_, customer=chance.choice([1, 2, None]), price=Decimal(id_))
    with monkeypatch.context() as patched:
        between_pages(patched, lambda: rows.change(chance, 5, timed=False, updates=False))
        db.sql(rows.declared(VIEWS))
        catch_up(db)
    catch_up(db)
    require_right(db, rows)
    for _ in range(4):
        rows.change(chance, 40, keys=chance.choice([3, 40]))
        catch_up(db)
        require_right(db, rows)


def between_pages(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Does something before each page of rows is read, of which there are many."""
    read = row_access.RowAccess._stamped

    def stamped(self: row_access.RowAccess, page: Any) -> Any:
        do()
        return read(self, page)

    monkeypatch.setattr(row_access, "ROWS_A_PAGE", 3)
    monkeypatch.setattr(row_access, "AT_ONCE", 1)
    monkeypatch.setattr(adopting, "ROWS_AT_ONCE", 6)
    monkeypatch.setattr(row_access.RowAccess, "_stamped", stamped)


def test_what_is_put_through_viewkeeper_is_there_and_its_token_in_the_views(db: Database, rows: CassandraRows) -> None:
    db.sql(rows.declared(VIEWS))
    orders = db.table("orders")
    token = orders.put({"id": 1, "customer": 1, "price": "19.90"})
    token |= orders.put({"id": 1, "note": "x"})
    token |= orders.put_many([{"id": id_, "customer": 2, "price": id_} for id_ in range(2, 500)])
    token |= orders.delete(2)
    token |= orders.delete_many(range(4, 500))
    token |= orders.delete(3, columns=["price", "note"])
    assert viewkeeper.Token.parse(str(token)) == token
    assert orders.get(1) == {"id": 1, "customer": 1, "price": Decimal("19.90"), "note": "x"}
    assert orders.get(3) == {"id": 3, "customer": 2, "price": None, "note": None}
    assert orders.get(2) is None
    with pytest.raises(InputError, match="no column 'amount'"):
        orders.put({"id": 1, "amount": 1})
    catch_up(db)
    assert stored(rows) == Counter({(1, 1, Decimal("19.90"), "x"): 1, (3, 2, None, None): 1})
    require_right(db, rows)
    assert db.view("spend").get(1, after=token) == {"customer": 1, "total": Decimal("19.90"), "n": 1, "most": "x"}
    note = db.sql("DESCRIBE orders").note
    assert note is not None and note.endswith(
        "order per cell timestamp, its rows and their log, written by put and delete, too"
    )


def test_a_row_is_there_as_long_as_it_was_inserted_or_has_a_value(db: Database, rows: CassandraRows) -> None:
    db.sql(rows.declared(VIEWS))
    catch_up(db)
    rows.run("UPDATE T SET customer = 1 WHERE id = 1")
    rows.put(2, customer=1)
    catch_up(db)
    require_right(db, rows)
    rows.run("UPDATE T SET customer = NULL WHERE id = 1")
    rows.run("UPDATE T SET customer = NULL WHERE id = 2")
    catch_up(db)
    assert stored(rows) == Counter({(2, None, None, None): 1})
    require_right(db, rows)


def test_what_expires_is_rejected_and_refused(db: Database, rows: CassandraRows) -> None:
    db.sql(rows.declared(VIEWS))
    catch_up(db)
    rows.run("INSERT INTO T (id, customer) VALUES (1, 1) USING TTL 1000")
    rows.run("UPDATE T USING TTL 1000 SET customer = 1 WHERE id = 2")
    rows.run("INSERT INTO T (id, price) VALUES (3, 1.234)")
    rows.put(4, customer=1)
    catch_up(db)
    assert [row["id"] for row in db.view("rows").rows()] == [4]
    reasons = [row["reason"] for row in db.rejected("orders")]
    assert sum("time to live" in each for each in reasons) == 2
    assert sum("price: 1.234 has more digits" in each for each in reasons) == 1
    db.sql("DROP TABLE orders CASCADE")
    db.sql(rows.declared(VIEWS))
    with pytest.raises(Error, match="the row with the key .* (has a time to live|is none that can be kept)"):
        catch_up(db)


@pytest.mark.parametrize(("columns", "declared", "why"), [
    ("id bigint PRIMARY KEY, tags set<text>", "(id BIGINT, tags STRING, PRIMARY KEY (id))", "tags is of .* set<text>"),
    ("id bigint, c int, s int static, PRIMARY KEY (id, c)", "(id BIGINT, c INT, s INT, PRIMARY KEY (id, c))",
     "its column s is static, which is not supported: leave it out"),
    ("id bigint PRIMARY KEY, n int", "(id BIGINT, n SMALLINT, PRIMARY KEY (id))", "is INT, and declared is SMALLINT"),
    ("id bigint PRIMARY KEY, n int", "(id BIGINT, m INT, PRIMARY KEY (id))", "it has no column m; it has id, n"),
    ("id bigint PRIMARY KEY, n int", "(id BIGINT, n INT, PRIMARY KEY (n))",
     r"its PRIMARY KEY is \(id\), and declared is \(n\)"),
    ("a int, b int, c int, PRIMARY KEY ((a, b), c)", "(a INT, b INT, c INT, PRIMARY KEY (a, b, c))",
     r"its partition key is \(a, b\); say so: OPTIONS \(partition_key 'a, b'\)"),
    ("id double PRIMARY KEY, n int", "(id DOUBLE, n INT, PRIMARY KEY (id))", "double and in the key"),
])  # fmt: skip
def test_what_cannot_be_declared(
    db: Database, make: Callable[..., CassandraRows], columns: str, declared: str, why: str
) -> None:
    with pytest.raises(DeclarationError, match=why):
        db.sql(make(columns).declared(columns=declared))


def test_tables_that_cannot_be_followed(db: Database, make: Callable[..., CassandraRows], rows: CassandraRows) -> None:
    expiring = make("id bigint PRIMARY KEY", " AND default_time_to_live = 60")
    with pytest.raises(DeclarationError, match=r"its rows expire \(default_time_to_live = 60\)"):
        db.sql(expiring.declared(columns="(id BIGINT, PRIMARY KEY (id))"))
    with pytest.raises(DeclarationError, match="there is no table shop.nowhere"):
        db.sql(rows.declared().replace(rows.name, "nowhere"))
    for change, why in (
        (("log_readers '127.0.0.1:", "log_readers '127.0.0.1:1"), "who serves a node's log .* does not answer"),
        (("log_readers '127.0.0.1:", "log_readers '"), "expected HOST:PORT"),
        (("keyspace 'shop', ", ""), "cassandra needs keyspace"),
    ):
        with pytest.raises(DeclarationError, match=why):
            db.sql(rows.declared().replace(*change))
    rows.run("ALTER TABLE T WITH cdc = false")
    with pytest.raises(DeclarationError, match="its changes are not logged; switch it on: ALTER TABLE .* cdc = true"):
        db.sql(rows.declared())


def test_columns_that_are_left_out_are_those_of_the_store(db: Database, make: Callable[..., CassandraRows]) -> None:
    rows = make('id uuid, "At" timestamp, ok boolean, day date, data blob, small tinyint, PRIMARY KEY (id, "At")')
    rows.run("INSERT INTO T (id, \"At\", ok, day, small) VALUES (00000000-0000-0000-0000-00000000000a, 1000, true, "
             "'2024-02-29', -1)")  # fmt: skip
    db.sql(f"CREATE TABLE t (PRIMARY KEY (id, At)) USING cassandra {rows.options}; CREATE VIEW v AS SELECT * FROM t")
    rows.run('UPDATE T SET data = 0xff WHERE id = 00000000-0000-0000-0000-00000000000a AND "At" = 1000')
    catch_up(db)
    (row,) = db.view("v").rows()
    assert list(row) == ["id", "At", "data", "day", "ok", "small"]
    assert row["id"] == "00000000-0000-0000-0000-00000000000a" and row["data"] == b"\xff" and row["ok"] is True
    assert (row["At"].timestamp(), str(row["day"]), row["small"]) == (1, "2024-02-29", -1)
    token = db.table("t").put({"id": row["id"], "At": row["At"], "day": row["day"], "data": b"", "ok": False})
    catch_up(db)
    assert token and next(iter(db.view("v").rows())) == {**row, "data": b"", "ok": False}
    with pytest.raises(InputError, match="whole milliseconds"):
        db.table("t").delete((row["id"], row["At"].replace(microsecond=1)))


@pytest.mark.parametrize(
    "order", ["", " AND CLUSTERING ORDER BY (a DESC, b DESC)", " AND CLUSTERING ORDER BY (a ASC, b DESC)"]
)
def test_ranges_of_rows_that_are_deleted(db: Database, make: Callable[..., CassandraRows], order: str) -> None:
    rows = make("p int, a int, b text, v int, PRIMARY KEY (p, a, b)", order)
    columns = "(p INT, a INT, b STRING, v INT, PRIMARY KEY (p, a, b))"
    db.sql(rows.declared("CREATE VIEW v AS SELECT p, a, b, v FROM orders", columns))
    catch_up(db)
    chance = random.Random(len(order))
    for _ in range(4):
        for _ in range(40):
            key = (chance.randrange(2), chance.randrange(4), chance.choice("xyz"))
            stamp = f" USING TIMESTAMP {chance.randrange(1, 30)}" if chance.random() < 0.5 else ""
            where, values = chance.choice([
                ("p = %s", key[:1]), ("p = %s AND a = %s", key[:2]), ("p = %s AND a > %s", key[:2]),
                ("p = %s AND a <= %s", key[:2]), ("p = %s AND a = %s AND b >= %s", key),
                ("p = %s AND a = %s AND b < %s", key), ("p = %s AND a = %s AND b = %s", key),
            ])  # fmt: skip
            if chance.random() < 0.4:
                rows.run(f"DELETE FROM T {stamp} WHERE {where}", *values)
            else:
                rows.run(f"INSERT INTO T (p, a, b, v) VALUES (%s, %s, %s, %s){stamp}", *key, chance.randrange(9))
        catch_up(db)
        expected = Counter((row["p"], row["a"], row["b"], row["v"]) for row in rows.rows())
        assert Counter(tuple(row.values()) for row in db.view("v").rows()) == expected
    assert not list(db.rejected("orders"))


def test_a_table_that_was_made_anew_or_emptied_stops(db: Database, rows: CassandraRows) -> None:
    db.sql(rows.declared(VIEWS))
    rows.change(random.Random(1), 20)
    catch_up(db)
    rows.run("TRUNCATE T ")
    rows.put(1, customer=1)
    with pytest.raises(LogLost, match=r"it was emptied \(TRUNCATE\), of which no log tells; drop the table"):
        catch_up(db)
    db.sql("DROP TABLE orders CASCADE")
    db.sql(rows.declared(VIEWS))
    catch_up(db)
    require_right(db, rows)
    rows.run("DROP TABLE T ")
    CassandraRows(rows.session, rows.server, rows.logs, rows.name)
    with pytest.raises(LogLost, match="is not the one that was read before"):
        catch_up(db)


def test_columns_may_come_and_go_that_nobody_names(db: Database, rows: CassandraRows) -> None:
    db.sql(rows.declared(VIEWS))
    rows.change(random.Random(1), 20)
    rows.run("ALTER TABLE T ADD late int")
    rows.run("INSERT INTO T (id, customer, late) VALUES (1, 1, 1)")
    rows.run("ALTER TABLE T DROP more")
    rows.run("INSERT INTO T (id, customer, late) VALUES (2, 1, 1)")
    catch_up(db)
    require_right(db, rows)
    rows.run("ALTER TABLE T DROP note")
    with pytest.raises(Error, match="it has no column note; it has"):
        catch_up(db)


def test_what_others_write_moves_no_end(rows: CassandraRows, make: Callable[..., CassandraRows]) -> None:
    other, opened = make(), OutsideTables("UTC").of(one_table(rows))
    opened.start()
    before = opened.ends()
    for id_ in range(20):
        other.put(id_, customer=1)
    assert opened.ends() == before
    rows.put(1, customer=1)
    ends = opened.ends()
    (part,) = ends.positions
    assert ends.positions[part] > before.positions[part]
    found = opened.read(PartRange(opened.table.id, part, before.positions[part], ends.positions[part],
                                  ends.identities[part]))  # fmt: skip
    assert [len(each) for each, _, _ in found.operations] == [1]
    opened.close()


def test_steps_over_several_tables_are_read_for_each(rows: CassandraRows, make: Callable[..., CassandraRows]) -> None:
    other = make()
    opened = [OutsideTables("UTC").of(one_table(each)) for each in (rows, other)]
    begin = [each.ends() for each in opened]
    rows.run(f'BEGIN BATCH INSERT INTO T (id, note) VALUES (1, \'a\'); INSERT INTO shop."{other.name}" (id, note) '
             "VALUES (1, 'b'); APPLY BATCH")  # fmt: skip
    for table, before, note in zip(opened, begin, "ab", strict=True):
        ends = table.ends()
        ((part, upto),) = ends.positions.items()
        found = table.read(PartRange(table.table.id, part, before.positions[part], upto, ends.identities[part]))
        ((operations, sequences, _),) = found.operations
        assert operations.columns[3].to_pylist() == [note] and np.all(sequences <= upto)
        table.close()


def one_table(rows: CassandraRows) -> Table:
    table = run(Catalog(), rows.declared()).catalog.find("orders")
    assert isinstance(table, Table)
    return table

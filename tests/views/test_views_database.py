"""What a user does with a database: declare, write, read, ask, all at one version."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import viewkeeper
from local_maintenance import catch_up
from viewkeeper import Database, DeclarationError, InputError, NotFound, NotReady, NotSupported
from viewkeeper.catalog.model import REJECTED, Table
from viewkeeper.changes.operations import TableForm
from viewkeeper.changes.verify import operation_bytes
from viewkeeper.pipeline.term import Term
from viewkeeper.stores.intake import TableIntake
from viewkeeper.trace.commit import GLANCE_SECONDS
from viewkeeper.trace.file import ZoneFile
from viewkeeper.trace.local_disk import local_storage
from viewkeeper.trace.lock import driver_lock
from viewkeeper.trace.snapshot import Change
from written import physical

ORDERS = """CREATE TABLE Orders (id BIGINT, customer BIGINT, price DECIMAL(15,2), placed DATE, at TIMESTAMP,
                                 note STRING, PRIMARY KEY (id))"""
SPEND = "CREATE VIEW spend AS SELECT customer, sum(price) AS total, count(*) AS n FROM orders GROUP BY customer"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "shop", durability="process") as database:
        database.sql(ORDERS)
        yield database


@pytest.fixture
def shop(db: Database) -> Database:
    """A few orders, and `spend` and an index up to date."""
    db.sql(f"{SPEND}; CREATE INDEX by_n ON spend (n); CREATE INDEX by_customer ON orders (customer)")
    rows = [{"id": i, "customer": i % 3, "price": Decimal(i) / 4, "note": "x" * i} for i in range(8)]
    db.table("orders").put_many([*rows, {"id": 100}])
    catch_up(db)
    return db


def test_a_write_is_read_at_once_in_its_table_and_after_maintenance_in_the_view(db: Database) -> None:
    db.sql(SPEND)
    orders = db.table("ORDERS")
    token = orders.put({"ID": 1, "customer": 7, "price": "19.90", "placed": "2024-02-29"})
    assert orders.get(1)["placed"] == datetime.date(2024, 2, 29)
    with pytest.raises(NotReady, match="spend waits to be filled"):
        db.view("spend").get(7)
    catch_up(db)
    assert db.view("Spend").get(7, after=token) == {"customer": 7, "total": Decimal("19.90"), "n": 1}
    orders.delete(1)
    catch_up(db)
    assert orders.get(1) is None
    assert db.view("spend").get(7) is None


def test_every_kind_of_read_agrees(shop: Database) -> None:
    view = shop.view("spend")
    rows = list(view.scan())
    assert [row["customer"] for row in rows] == [None, 0, 1, 2]
    assert [view.get(row["customer"]) for row in rows] == rows

    def ordered(found: list[dict[str, object]]) -> list[dict[str, object]]:
        return sorted(found, key=lambda row: (row["customer"] is not None, row["customer"]))

    assert ordered(list(view.rows())) == rows
    assert ordered(view.to_arrow().to_pylist()) == rows
    assert ordered(list(shop.sql("SELECT * FROM spend"))) == rows
    assert len(view.to_pandas()) == 4


def test_indexes_on_tables_and_views_answer_with_all_rows(shop: Database) -> None:
    assert [row["customer"] for row in shop.view("spend").get(2, index="by_n")] == [2]
    assert sorted(row["id"] for row in shop.table("orders").get(1, index="by_customer")) == [1, 4, 7]
    assert shop.table("orders").get(9, index="by_customer") == []


def test_a_global_aggregate_is_read_by_the_empty_key(db: Database) -> None:
    db.sql("CREATE VIEW total AS SELECT count(*) AS n, max(price) AS top FROM orders")
    catch_up(db)
    assert db.view("total").get() == db.view("total").get(()) == {"n": 0, "top": None}
    assert list(db.view("total").scan()) == [{"n": 0, "top": None}]
    with pytest.raises(InputError, match=r"total is read by the empty key \(\)"):
        db.view("total").get(1)


def test_rows_without_a_primary_key_are_a_bag(db: Database) -> None:
    db.sql("CREATE TABLE hits (page STRING, ms INT); CREATE VIEW slow AS SELECT page, ms FROM hits WHERE ms > 9")
    db.table("hits").put_many([{"page": "a", "ms": 10}, {"page": "a", "ms": 10}, {"page": "b"}])
    catch_up(db)
    assert db.view("slow").get(("a", 10)) == [{"page": "a", "ms": 10}] * 2
    assert db.table("hits").delete({"page": "a", "ms": 10})
    assert not db.table("hits").delete({"page": "a", "ms": 11})
    catch_up(db)
    assert len(db.view("slow").get(("a", 10))) == 1
    assert sorted(row["page"] for row in db.sql("SELECT page FROM hits")) == ["a", "b"]


def test_select_sorts_and_limits_as_spark_does(shop: Database) -> None:
    ask = "SELECT id, price FROM orders WHERE price > 0.5 OR price IS NULL ORDER BY price DESC, id"
    assert [row["id"] for row in shop.sql(ask)] == [7, 6, 5, 4, 3, 100]
    assert [row["id"] for row in shop.sql("SELECT id, price FROM orders ORDER BY price, id LIMIT 3")] == [100, 0, 1]
    assert [row["id"] for row in shop.sql("SELECT id FROM orders ORDER BY price DESC LIMIT 2 OFFSET 1")] == [6, 5]
    assert [row["id"] for row in shop.sql("SELECT id FROM orders ORDER BY price DESC NULLS FIRST LIMIT 1")] == [100]
    assert shop.sql("SELECT * FROM orders LIMIT 0").to_arrow().num_rows == 0
    joined = shop.sql(
        "SELECT o.id, s.n FROM orders o JOIN spend s ON o.customer = s.customer WHERE s.n = 2 ORDER BY id"
    )
    assert joined.to_arrow().to_pylist() == [{"id": 2, "n": 2}, {"id": 5, "n": 2}]


def test_two_columns_of_one_name_are_not_lost_silently(shop: Database) -> None:
    result = shop.sql("SELECT id, id FROM orders")
    assert result.to_arrow().num_columns == 2
    with pytest.raises(InputError, match="two columns are called 'id'"):
        list(result)


def test_a_snapshot_reads_one_version_whatever_is_committed(shop: Database) -> None:
    with shop.snapshot() as snapshot:
        before = snapshot.view("spend").get(1)
        shop.table("orders").put({"id": 1, "customer": 1, "price": 1000})
        version = catch_up(shop)
        assert version > snapshot.version
        assert snapshot.view("spend").get(1) == before
        assert list(snapshot.sql("SELECT total FROM spend WHERE customer = 1")) == [{"total": before["total"]}]
        with pytest.raises(InputError, match="a snapshot only reads"):
            snapshot.sql("DROP VIEW spend")
    assert shop.view("spend").get(1)["total"] == before["total"] + Decimal("999.75")


def test_show_and_describe_say_what_there_is(shop: Database) -> None:
    assert [(row["table"], row["key"]) for row in shop.sql("SHOW TABLES")] == [("Orders", "id")]
    (view,) = shop.sql("SHOW VIEWS")
    assert (view["view"], view["key"], view["filled"], view["indexes"]) == ("spend", "customer", True, "by_n")
    described = shop.sql("DESCRIBE spend")
    assert [row["data_type"] for row in described] == ["bigint", "decimal(25,2)", "bigint"]
    assert described.note == "view key (customer), one row a key"
    plan = "\n".join(row["plan"] for row in shop.sql("EXPLAIN VIEW spend"))
    assert plan == shop.explain("spend")
    assert "PRE-AGGREGATION" in plan


def test_explain_comes_in_three_formats(shop: Database) -> None:
    read = json.loads(shop.explain("spend", format="json"))
    assert [each["rows"] for each in read["operators"][-1]["states"]] == [len(shop.view("spend").to_arrow())]
    new = "CREATE VIEW more AS SELECT id, customer FROM orders"
    (line,) = shop.sql(f"EXPLAIN JSON {new}")
    assert json.loads(line["plan"])["operators"][-1]["states"][0]["estimated"] is True
    assert shop.explain("spend", format="mermaid").startswith("flowchart TD")
    assert [row["plan"] for row in shop.sql("EXPLAIN MERMAID VIEW spend")][0] == "flowchart TD"
    with pytest.raises(InputError, match="there are 'text', 'json' and 'mermaid'"):
        shop.explain("spend", format="xml")
    with pytest.raises(NotSupported, match="EXPLAIN JSON SELECT is not supported"):
        shop.sql("EXPLAIN JSON SELECT 1")


def test_a_wrong_statement_names_its_place_in_the_whole_script(shop: Database) -> None:
    script = (
        "SELECT id FROM orders;\n\n  CREATE VIEW a AS SELECT id FROM orders;  CREATE VIEW b AS\nSELECT nix FROM orders"
    )
    with pytest.raises(DeclarationError) as refused:
        shop.sql(script)
    assert (refused.value.line, refused.value.column) == (4, 8)
    with pytest.raises(NotFound):
        shop.view("a")


def test_what_does_not_exist_or_is_not_supported_is_named(shop: Database) -> None:
    with pytest.raises(NotFound, match="'spend' is not a table"):
        shop.table("spend")
    with pytest.raises(NotFound, match="'orders' is not a view"):
        shop.view("orders")
    with pytest.raises(InputError, match="engine='duck'"):
        shop.sql("SELECT 1", engine="duck")
    with pytest.raises(NotSupported, match="not supported yet"):
        viewkeeper.connect("cassandra://host/keyspace")


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow", "jsonl"])
def test_files_of_each_format_are_loaded(db: Database, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"rows.{suffix}"
    table = pa.table({"id": [1, 2], "note": ["a", None]})
    if suffix == "parquet":
        pyarrow.parquet.write_table(table, file)
    elif suffix == "csv":
        pyarrow.csv.write_csv(table, file)
    elif suffix == "arrow":
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        file.write_text('{"id": 1, "note": "a"}\n{"id": 2, "note": null}\n')
    assert sum(count for count, _ in db.table("orders").load(file)) == 2
    assert (db.table("orders").get(1)["note"], db.table("orders").get(2)["note"]) == ("a", None)


def test_what_was_rejected_is_listed_and_put_again(db: Database, tmp_path: Path) -> None:
    db.sql(SPEND)
    catch_up(db)
    table = db.catalog.tables[0]
    put_aside(db, operation_of(table, {"id": 5, "customer": 7, "price": 100}), b"not an operation")
    assert [(row["table"], row["reason"]) for row in db.rejected("orders")] == [("Orders", "tried")] * 2
    assert db.put_rejected_again("orders") == 1
    assert [row["operation"] for row in db.rejected()] == [b"not an operation"]
    assert db.table("orders").get(5)["customer"] == 7
    catch_up(db)
    assert db.view("spend").get(7)["n"] == 1


def operation_of(table: Table, row: dict[str, object]) -> bytes:
    """What `rejected` would keep of a put of `row`."""
    form = TableForm(table)
    puts = TableIntake(form, "UTC").rows([row])
    return operation_bytes(form, form.as_rows(puts, 0, np.array([1]), np.array([1])), 0)


def put_aside(db: Database, *operations: bytes) -> None:
    """Commits rejected operations as a batch would."""
    storage = local_storage(db.root)
    lock = driver_lock(storage.root)
    lock.acquire("statement", 1.0)
    term = Term(storage, lock)
    rows = [(db.catalog.tables[0].id, 0, i, 1, "tried", operation) for i, operation in enumerate(operations)]
    writer = ZoneFile.writer(storage.disk, "000000000001-e1-z1-s0-a1-batch-00000000.zone")
    writer.add(REJECTED, physical(REJECTED.columns, rows, [1] * len(rows)))
    version = term.snapshot.version + 1
    term.commit(Change("batch", version, added=[writer.finish().at(version, version)]))
    term.close()


def test_a_file_of_unknown_format_is_refused(db: Database, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot tell the format"):
        list(db.table("orders").load(tmp_path / "rows.xls"))
    with pytest.raises(InputError, match="no such file"):
        list(db.table("orders").load(tmp_path / "rows.csv"))


def test_timestamps_are_shown_in_the_databases_zone(tmp_path: Path) -> None:
    with viewkeeper.connect(tmp_path / "berlin", zone="Europe/Berlin", durability="process") as db:
        db.sql(ORDERS + "; CREATE VIEW times AS SELECT id, at FROM orders")
        db.table("orders").put({"id": 1, "at": datetime.datetime(2024, 7, 1, 12)})
        catch_up(db)
        at = db.view("times").get(1)["at"]
        assert at == datetime.datetime(2024, 7, 1, 10, tzinfo=datetime.UTC)
        assert at.hour == 12
        assert next(db.view("times").rows())["at"] == at == db.table("orders").get(1)["at"]


def test_a_database_keeps_what_it_was_made_with(tmp_path: Path) -> None:
    viewkeeper.connect(tmp_path / "db", nodes=3, zone="Europe/Berlin", durability="process").close()
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        assert (db.catalog.zone, sorted(node["node"] for node in db.status()["nodes"])) == ("Europe/Berlin", [0, 1, 2])
    with pytest.raises(InputError, match="nodes=3"):
        viewkeeper.connect(tmp_path / "db", nodes=2)
    for nodes in (0, 1.5, "2", True):
        with pytest.raises(InputError, match="1 to 256 nodes"):
            viewkeeper.connect(tmp_path / "another", nodes=nodes)  # type: ignore[arg-type]
    assert not (tmp_path / "another").exists()
    with pytest.raises(InputError, match="no such time zone"):
        viewkeeper.connect(tmp_path / "other", zone="Mars/Base")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").touch()
    with pytest.raises(viewkeeper.Error, match="not a viewkeeper database"):
        viewkeeper.connect(tmp_path / "home")


def test_what_the_operating_system_refuses_is_named_with_what_to_do(tmp_path: Path) -> None:
    """A folder that is a file, was moved away or has no room is told by its path, with the remedy."""
    (tmp_path / "file").write_text("")
    with pytest.raises(viewkeeper.StorageError, match="file: Not a directory; name a folder"):
        viewkeeper.connect(tmp_path / "file")
    for wrong in ("a\0b", None, 5):
        with pytest.raises(InputError, match="no place for a database"):
            viewkeeper.connect(wrong)  # type: ignore[arg-type]
    with viewkeeper.connect(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (a INT, PRIMARY KEY (a))")
        (tmp_path / "db").rename(tmp_path / "moved")
        time.sleep(GLANCE_SECONDS)
        for use in (
            lambda: db.sql("CREATE TABLE u (a INT)"), lambda: db.sql("SELECT a FROM t"), db.snapshot, db.status,
        ):  # fmt: skip
            with pytest.raises(viewkeeper.StorageError, match="moved or deleted. connect to where it is"):
                use()


def test_a_closed_database_says_so_and_what_to_do(tmp_path: Path) -> None:
    """Whatever is asked of a closed database or snapshot, or of handles of it, is refused with the remedy."""
    db = viewkeeper.connect(tmp_path)
    db.sql("CREATE TABLE t (id BIGINT, PRIMARY KEY (id)); "
           "CREATE STREAM m (ts TIMESTAMP NOT NULL) TIMESTAMP BY ts PARTITION LENGTH 60")  # fmt: skip
    table, stream, snapshot = db.table("t"), db.stream("m"), db.snapshot()
    snapshot.close()
    with pytest.raises(viewkeeper.Error, match="the snapshot is closed; take another"):
        snapshot.sql("SELECT * FROM t")
    db.close()
    for use in (lambda: db.sql("SELECT * FROM t"), db.maintain, db.catch_up, db.status, db.rejected, db.snapshot,
                lambda: db.table("t"), lambda: table.put({"id": 1}), lambda: stream.append([])):  # fmt: skip
        with pytest.raises(viewkeeper.Error, match="is closed; connect to it again"):
            use()


def test_a_folder_without_a_database_stays_as_it_is_until_something_is_declared(tmp_path: Path) -> None:
    """Whatever reads says that there is no database, and what to do; the first CREATE makes one."""
    for place in (tmp_path / "absent", tmp_path / "empty"):
        if place.name == "empty":
            place.mkdir()
        with viewkeeper.connect(place) as db:
            for read in (
                db.status, db.lag, db.snapshot, db.rejected, db.catch_up, lambda: db.catalog,  # noqa: B023
                lambda: db.table("t"), lambda: db.view("v"), lambda: db.stream("m"),  # noqa: B023
                lambda: db.sql("SELECT 1 AS one FROM t"), lambda: db.sql("SHOW TABLES"),  # noqa: B023
                lambda: db.explain("v"), lambda: db.sql("SELECT 1", engine="spark"),  # noqa: B023
            ):  # fmt: skip
                with pytest.raises(NotFound, match=r"there is no database in .*viewkeeper init --db"):
                    read()
            assert place.exists() == (place.name == "empty") and not list(place.glob("*"))
            with viewkeeper.connect(place) as other:
                other.sql("CREATE TABLE t (id BIGINT, PRIMARY KEY (id))")
            assert db.table("t").get(1) is None, "another process has made it meanwhile"


def test_a_database_that_was_never_made_can_be_closed(tmp_path: Path) -> None:
    db = viewkeeper.connect(tmp_path / "absent")
    db.close()
    db.close()
    for use in (lambda: db.catalog, lambda: db.sql("CREATE TABLE t (id BIGINT)"), db.maintain):
        with pytest.raises(viewkeeper.Error, match="is closed"):
            use()
    assert not (tmp_path / "absent").exists()

"""Tables over hashes of a real server, written by a foreign client."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner

import viewkeeper
from local_maintenance import catch_up, with_servers
from orders_elsewhere import VIEWS, problems, require_views, with_customers
from redis_rows import RedisRows, put_of
from store_servers import unique
from viewkeeper.catalog.model import Catalog, Table
from viewkeeper.checker.check import check_views
from viewkeeper.cli import cli
from viewkeeper.database import Database
from viewkeeper.errors import DeclarationError, InputError, LogLost
from viewkeeper.evidence import DatabaseEvidence
from viewkeeper.pipeline import adopting
from viewkeeper.pipeline.declare_script import run
from viewkeeper.servers import Redis
from viewkeeper.stores.outside.contract import PartRange
from viewkeeper.stores.outside.opened import OutsideTables
from viewkeeper.stores.outside.redis import table as redis_table
from viewkeeper.stores.outside.redis.scripts import rows_script
from viewkeeper.stores.outside.redis.table import RedisTable


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with with_customers(tmp_path / "db") as database:
        yield database


@pytest.fixture
def rows(redis: Redis) -> Iterator[RedisRows]:
    made = RedisRows(redis.url, unique("orders"))
    yield made
    made.client.close()


def require_right(db: Database, rows: RedisRows) -> None:
    """The views hold what the foreign program knows."""
    require_views(db, {id_: (None if (customer := row.get("customer")) is None else int(customer),
                             None if (price := row.get("price")) is None else Decimal(price), row.get("note"))
                       for id_, row in rows.model.items()})  # fmt: skip


def between_blocks(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Does something before each block of rows is read, of which there are many."""
    block = RedisTable._block

    def read(self: RedisTable, cursor: int, mark: bytes | None) -> object:
        do()
        return block(self, cursor, mark)

    monkeypatch.setattr(redis_table, "SCANNED_AT_ONCE", 3)
    monkeypatch.setattr(redis_table, "ROWS_AT_ONCE", 4)
    monkeypatch.setattr(adopting, "ROWS_AT_ONCE", 6)
    monkeypatch.setattr(RedisTable, "_block", read)


@pytest.mark.parametrize("servers", [1, 2, 8])
@pytest.mark.parametrize("seed", range(2))
def test_views_hold_what_the_writer_knows(
    db: Database, rows: RedisRows, seed: int, servers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adopted full, among other keys, while it is written; then followed."""
    with_servers(monkeypatch, servers)
    monkeypatch.setattr(redis_table, "READ_AT_ONCE", 10)
    chance = random.Random(seed)
    for key in range(50):
        rows.client.hset(f"other{key}", mapping={"customer": "1"})
        rows.client.set(f"{rows.prefix}x:{key}", "1")
    rows.change(chance, 150)
    with monkeypatch.context() as patched:
        db.sql(rows.declared(VIEWS))
        between_blocks(patched, lambda: rows.change(chance, 5))
        catch_up(db)
    catch_up(db)
    require_right(db, rows)
    for _ in range(5):
        rows.change(chance, 40, keys=chance.choice([3, 40]))
        db.table("customers").put({"id": 1, "name": "a"})
        catch_up(db)
        require_right(db, rows)


def test_what_is_put_through_viewkeeper_is_in_redis_and_its_token_in_the_views(db: Database, rows: RedisRows) -> None:
    db.sql(rows.declared(VIEWS))
    orders = db.table("orders")
    token = orders.put({"id": 1, "customer": 1, "price": "19.90"})
    token |= orders.put({"id": 1, "note": "x"})
    token |= orders.put_many([{"id": id_, "customer": 2, "price": id_} for id_ in range(2, 2500)])
    assert isinstance(token | orders.delete(2), viewkeeper.Token)
    token |= orders.delete_many(range(4, 2500))
    token |= orders.delete(3, columns=["price", "note"])
    assert viewkeeper.Token.parse(str(token)) == token
    assert orders.get(1) == {"id": 1, "customer": 1, "price": Decimal("19.90"), "note": "x"}
    assert orders.get(3) == {"id": 3, "customer": 2, "price": None, "note": None}
    assert orders.get(2) is None
    assert rows.client.hgetall(f"{rows.prefix}:1") == {b"customer": b"1", b"price": b"19.90", b"note": b"x"}
    with pytest.raises(InputError, match="no column 'amount'"):
        orders.put({"id": 1, "amount": 1})
    catch_up(db)
    rows.model = {1: {"customer": "1", "price": "19.90", "note": "x"}, 3: {"customer": "2"}}
    require_right(db, rows)
    assert db.view("spend").get(1, after=token) == {"customer": 1, "total": Decimal("19.90"), "n": 1, "most": "x"}
    assert db.sql("DESCRIBE orders").note == (
        f"primary key (id); in redis (url '{rows.url}', prefix '{rows.prefix}'); order per key, its rows and their "
        "log, written by put and delete, too"
    )


def test_entries_that_are_none_are_rejected(db: Database, rows: RedisRows) -> None:
    db.sql(rows.declared(VIEWS))
    catch_up(db)
    rows.put({"id": 1, "customer": "1", "price": "1.00"})
    rows.client.xadd(f"{rows.prefix}.log", {"hello": "world"})
    rows.put({"id": 2, "customer": "1", "price": "1.00"})
    catch_up(db)
    require_right(db, rows)
    assert [row["operation"] for row in db.rejected("orders")] == [b"hello\0world"]
    assert db.put_rejected_again("orders") == 0


def test_a_log_that_is_trimmed_too_far_stops_its_table_alone(db: Database, rows: RedisRows) -> None:
    db.sql(rows.declared(VIEWS + "CREATE VIEW names AS SELECT name FROM customers"))
    rows.change(random.Random(1), 30)
    catch_up(db)
    rows.client.xtrim(f"{rows.prefix}.log", maxlen=0, approximate=False)
    rows.change(random.Random(2), 30)
    catch_up(db)  # what was gone had been read
    require_right(db, rows)
    rows.change(random.Random(3), 30)
    rows.client.xtrim(f"{rows.prefix}.log", maxlen=5, approximate=False)
    db.table("customers").put({"id": 3, "name": "c"})
    with pytest.raises(LogLost, match=r"does not go back to entry 61 any more: it was trimmed.*drop the table"):
        catch_up(db)
    assert {row["name"] for row in db.view("names").rows()} == {"a", "b", "c"}


def test_an_entry_that_was_deleted_before_it_was_read_is_missed(db: Database, rows: RedisRows) -> None:
    db.sql(rows.declared(VIEWS))
    catch_up(db)
    rows.change(random.Random(1), 30)
    rows.client.xdel(f"{rows.prefix}.log", "12-0")
    with pytest.raises(LogLost, match="entries were deleted, before they had been read"):
        catch_up(db)


@pytest.mark.parametrize("written", [0, 5, 100])
def test_a_log_that_was_made_anew_is_not_taken_for_the_one_that_was_read(
    db: Database, rows: RedisRows, written: int
) -> None:
    db.sql(rows.declared(VIEWS))
    rows.change(random.Random(1), 30)
    catch_up(db)
    rows.client.delete(f"{rows.prefix}.log")
    if written:
        rows.change(random.Random(2), written)
    with pytest.raises(LogLost, match="not the one that was read before" if written else "is gone, as if by FLUSHALL"):
        catch_up(db)
    db.sql("DROP TABLE orders CASCADE")
    db.sql(rows.declared(VIEWS))
    catch_up(db)
    require_right(db, rows)


def test_a_row_that_was_written_past_the_script_is_found_by_check(db: Database, rows: RedisRows) -> None:
    db.sql(rows.declared(VIEWS))
    rows.change(random.Random(1), 30)
    catch_up(db)
    assert problems(db) == ["", ""]
    rows.client.hset(f"{rows.prefix}:999", mapping={"customer": "1"})
    assert all("orders" in problem for problem in problems(db))
    rows.client.delete(f"{rows.prefix}:999")
    assert problems(db) == ["", ""]


def test_check_reads_on_where_the_views_are_behind(db: Database, rows: RedisRows) -> None:
    db.sql(rows.declared(VIEWS))
    rows.change(random.Random(1), 30)
    catch_up(db)
    rows.change(random.Random(2), 30)
    assert problems(db) == ["", ""]


def test_a_row_that_was_rejected_is_left_out_by_check_and_named(db: Database, rows: RedisRows) -> None:
    db.sql(rows.declared(VIEWS))
    rows.change(random.Random(1), 30)
    rows.put({"id": 7, "customer": "1", "price": "1.00", "note": "x"})
    catch_up(db)
    rows.run(*put_of(7, {"price": "1.999"}))  # its hash has what no row can
    rows.run(*put_of("x", {"price": "1"}))
    catch_up(db)
    assert len(db.rejected("orders")) == 2
    with db._newest.held() as version:
        (report,) = check_views(DatabaseEvidence(version, db._logs), ["spend"], None)
    assert report.verdict == "right"
    mend = "mend or delete it, or choose a prefix that no other keys have"
    assert sorted(report.left_out) == [
        "orders 7",
        f"orders: the hash {rows.prefix}:7 is no row of it: column price: 1.999 has more digits behind "
        f"the point than DECIMAL(15,2); {mend}",
        f"orders: the hash {rows.prefix}:x is no row of it: key column id: 'x' is no BIGINT; {mend}",
    ]  # fmt: skip
    rows.put({"id": 7, "customer": "1", "price": "1.00", "note": "x"})
    rows.client.delete(f"{rows.prefix}:x")
    catch_up(db)
    require_right(db, rows)


def test_hashes_that_were_there_before_the_script_are_adopted(db: Database, rows: RedisRows) -> None:
    for id_ in range(100):
        rows.client.hset(f"{rows.prefix}:{id_}", mapping={"id": id_, "customer": "1", "price": "1.00", "other": "x"})
        rows.model[id_] = {"id": id_, "customer": "1", "price": "1.00"}
    db.sql(rows.declared(VIEWS))
    rows.change(random.Random(1), 50)
    catch_up(db)
    require_right(db, rows)


@pytest.mark.parametrize(("name", "fields", "why"), [
    ("x", {"price": "1"}, "key column id: 'x' is no BIGINT"), ("7", {"price": "1.999"}, "column price: "),
])  # fmt: skip
def test_a_hash_that_is_no_row_is_refused_by_name(
    db: Database, rows: RedisRows, name: str, fields: dict[str, str], why: str
) -> None:
    rows.client.hset(f"{rows.prefix}:{name}", mapping=fields)
    with rows.client.pipeline() as others:  # the names of others come first, or between
        for each in range(3000):
            others.set(f"{rows.prefix}-other-{each}", 1)
        others.execute()
    with pytest.raises(DeclarationError, match=f"the hash {rows.prefix}:{name} is no row of it: {why}"):
        db.sql(rows.declared())


def test_rows_that_expire_are_refused(db: Database, rows: RedisRows, monkeypatch: pytest.MonkeyPatch) -> None:
    # So many names are looked at when a table is declared; other tests have theirs in this Redis, too.
    monkeypatch.setattr(redis_table, "SCANNED_AT_ONCE", 10_000_000)
    rows.change(random.Random(1), 30, keys=5)
    (row, *_) = rows.client.keys(f"{rows.prefix}:*")
    rows.client.expire(row, 1000)
    with pytest.raises(DeclarationError, match=r"orders cannot be declared: .* expires \(EXPIRE\), which no log tells"):
        db.sql(rows.declared(VIEWS))
    rows.client.persist(row)
    db.sql(rows.declared(VIEWS))
    catch_up(db)
    require_right(db, rows)


def test_a_log_is_trimmed_behind_what_was_read_if_nobody_else_reads_it(
    db: Database, rows: RedisRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_table, "KEPT", 300)
    db.sql(rows.declared(VIEWS).replace("OPTIONS (", "OPTIONS (trim 'true', "))
    rows.change(random.Random(1), 1000)
    catch_up(db)
    assert rows.client.xlen(f"{rows.prefix}.log") == 1000
    opened = db._logs.outside.of(db.catalog.tables[1])
    opened.forget({"0": 1000})
    assert 300 <= rows.client.xlen(f"{rows.prefix}.log") < 500
    rows.change(random.Random(2), 100)
    catch_up(db)
    require_right(db, rows)
    db.sql("DROP TABLE orders CASCADE")
    db.sql(rows.declared(VIEWS))
    catch_up(db)
    db._logs.outside.of(db.catalog.tables[1]).forget({"0": 1100})
    assert rows.client.xlen(f"{rows.prefix}.log") > 300
    require_right(db, rows)


def test_columns_go_and_have_the_names_that_the_fields_have(db: Database, rows: RedisRows) -> None:
    db.sql(rows.declared())
    rows.put({"id": 1, "customer": "1", "note": "x"})
    catch_up(db)
    db.sql("ALTER TABLE orders DROP COLUMN price")
    rows.put({"id": 1, "more": "5", "price": "1.00"})
    catch_up(db)
    assert list(db.sql("SELECT * FROM orders")) == [{"id": 1, "customer": 1, "note": "x"}]
    for change, why in (
        ("RENAME COLUMN note TO remark", "note is called so in the store that orders is in"),
        ("ALTER COLUMN note SET DEFAULT 'x'", "note of orders has no DEFAULT"),
    ):
        with pytest.raises(DeclarationError, match=why):
            db.sql(f"ALTER TABLE orders {change}")


def test_a_clock_that_was_set_back_changes_no_order(rows: RedisRows) -> None:
    opened = OutsideTables("UTC").of(one_table(rows))
    for number, at in enumerate(("2000", "1000", "1500", "3000"), 1):
        opened.start()
        rows.client.xadd(
            f"{rows.prefix}.log", {"put": "1", "at": at, "null": "", "customer": str(number)}, id=f"{number}-0"
        )
    ends = opened.ends()
    found = opened.read(PartRange(opened.table.id, "0", 0, 4, ends.identities["0"]))
    assert [each.tolist() for _, _, each in found.operations] == [[2000, 2000, 2000, 3000]]


def one_table(rows: RedisRows) -> Table:
    table = run(Catalog(), rows.declared()).catalog.find("orders")
    assert isinstance(table, Table)
    return table


def test_the_script_is_printed_for_other_programs() -> None:
    assert CliRunner().invoke(cli, ["script", "redis"]).output == rows_script()


def test_the_program_in_the_document_does_what_is_said_beside_it(
    db: Database, redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = (Path(__file__).parents[2] / "docs" / "stores" / "redis.md").read_text()
    (program,) = re.findall(r"^```py\n(.*?)^```", document, re.DOTALL | re.MULTILINE)
    (declared,) = re.findall(r"^```sql\n(.*?)^```", document, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.lua").write_text(rows_script())
    exec(program.replace("redis.Redis()", f"redis.Redis.from_url('{redis.url}')"), {})
    db.sql(declared.replace("redis://localhost:6379/0", redis.url))
    catch_up(db)
    nothing = {"customer": 7, "price": None}
    assert list(db.sql("SELECT * FROM orders ORDER BY id")) == [{"id": 1, **nothing}, {"id": 2, **nothing}]

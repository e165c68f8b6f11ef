"""Views that are written to Delta tables, as foreign programs find them there."""

from __future__ import annotations

import datetime
import json
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

import viewkeeper
from foreign_delta import DeltaPlace
from foreign_rows import texts
from local_maintenance import catch_up
from viewkeeper.errors import DeclarationError, StoreAway
from viewkeeper.stores.outside.delta import row_files
from viewkeeper.stores.outside.targets import Begun, Marker, Written, opened
from viewkeeper.trace import points
from written_shop import (
    TABLES,
    VIEWS,
    Shop,
    checked,
    maintained,
    require_older_copy_told,
    require_right_after_kills,
    require_soon,
)


@pytest.fixture
def place(tmp_path: Path) -> DeltaPlace:
    return DeltaPlace(tmp_path / "lake")


@pytest.fixture
def shop(tmp_path: Path, place: DeltaPlace) -> Iterator[Shop]:
    made = Shop(tmp_path / "db", place)
    made.declare()
    yield made
    made.db.close()


@pytest.mark.parametrize("rows_a_file", [8, 200_000])
def test_a_foreign_program_finds_the_views_after_each_batch(
    shop: Shop, place: DeltaPlace, monkeypatch: pytest.MonkeyPatch, rows_a_file: int
) -> None:
    monkeypatch.setattr(row_files, "ROWS_A_FILE", rows_a_file)
    chance = random.Random(3)
    shop.require_there()
    for _ in range(8):
        shop.change(chance, 30)
        shop.require_there()
    with maintained(shop):
        for _ in range(5):
            shop.change(chance, 20)
            require_soon(shop)
    for view in VIEWS:
        require_sound(place, view)
    for key in list(shop.orders):
        shop.db.table("orders").delete(key)
    shop.orders.clear()
    shop.require_there()


def require_sound(place: DeltaPlace, view: str) -> None:
    """What the log says of files is so, and their bounds are those of their rows."""
    said = pa.table(place.table(view).get_add_actions(flatten=True)).to_pylist()
    for file in said:
        path = place.path(view) / file["path"]
        rows = duckdb.sql(f"SELECT * FROM read_parquet('{path}')").to_arrow_table()
        assert (file["size_bytes"], file["num_records"]) == (path.stat().st_size, len(rows))
        for name in rows.column_names:
            assert file[f"null_count.{name}"] == rows[name].null_count
            if file.get(f"min.{name}") is not None:
                values = [value for value in rows[name].to_pylist() if value is not None]
                assert (file[f"min.{name}"], file[f"max.{name}"]) == (min(values), max(values))


@pytest.mark.faults
@pytest.mark.parametrize("point", points.TARGET_POINTS)
def test_after_a_kill_nothing_is_missing_doubled_or_left_over(shop: Shop, tmp_path: Path, point: str) -> None:
    require_right_after_kills(shop, tmp_path, point)


@pytest.mark.faults
def test_a_database_of_which_an_older_copy_was_put_back_is_told_and_written_as_a_whole(
    shop: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    require_older_copy_told(shop, tmp_path, caplog)


def test_a_folder_that_is_not_empty_is_refused(shop: Shop, place: DeltaPlace, tmp_path: Path) -> None:
    shop.require_there()
    with viewkeeper.connect(tmp_path / "other") as other:
        other.sql(TABLES)

        def refused(where: str, match: str) -> None:
            with pytest.raises(DeclarationError, match=match):
                other.sql(f"CREATE VIEW spend {shop.using(where)} AS SELECT count(*) AS n FROM orders")

        refused("spend", r"a view of another database .*; take another place, or delete")
        write_deltalake(str(place.path("mine")), pa.table({"id": [1]}))
        refused("mine", "mine holds a table that is not viewkeeper's; take another path, or delete what is there")
        place.path("files").mkdir()
        (place.path("files") / "notes.txt").write_text("x")
        refused("files", "files holds what is no Delta table, such as 'notes.txt'; take another path")
        assert other.catalog.find("spend") is None
    for where in ("named", "named/below"):
        with pytest.raises(DeclarationError, match="named is written there already"):
            shop.db.sql(f"CREATE VIEW more {shop.using(where)} AS SELECT count(*) AS n FROM orders")


def test_options_are_checked_and_no_secret_is_kept(shop: Shop, place: DeltaPlace) -> None:
    for options, message in {
        "path 'some/where'": "say the whole path",
        "path '/x', evry_seconds '1'": "did you mean every_seconds",
        "path '/x', every_seconds 'often'": "such as '10'",
        "path '/x', every_seconds '601'": "at most 600",
        "path '/x', delta.logRetentionDuration '7 days'": "such as 'interval 7 days'",
        "path '/x', delta.enableChangeDataFeed 'yes'": "there are true, false",
        "path 's3://b/t', storage.aws_secret_access_key 'x'": "a secret is not kept",
        "path 's3://b/t', storage.aws_secret_access_key_env 'NOSUCH_'": "no such environment variable",
    }.items():
        with pytest.raises(DeclarationError, match=message):
            shop.db.sql(f"CREATE VIEW v USING delta OPTIONS ({options}) AS SELECT count(*) AS n FROM orders")
    where = f"also written to delta (path '{place.path('spend')}', every_seconds '0')"
    assert shop.db.explain("spend").splitlines()[-1] == where


def test_properties_are_those_of_the_table_and_a_view_server_follows_its_feed(
    shop: Shop, place: DeltaPlace, tmp_path: Path
) -> None:
    using = shop.using("fed").replace("every", "delta.enableChangeDataFeed 'true', delta.checkpointInterval '3', every")
    shop.db.sql(f"CREATE VIEW fed {using} AS SELECT id, customer FROM orders")
    chance = random.Random(5)
    shop.change(chance, 40)
    catch_up(shop.db)
    with viewkeeper.connect(tmp_path / "next", durability="process") as following:
        following.sql(f"CREATE TABLE t (PRIMARY KEY (id)) USING delta OPTIONS (path '{place.path('fed')}');"
                      "CREATE VIEW n AS SELECT customer, count(*) AS n FROM t GROUP BY customer")  # fmt: skip
        for _ in range(4):
            shop.change(chance, 30)
            catch_up(shop.db)
            catch_up(following)
            counts = Counter(row["customer"] for row in shop.orders.values())
            assert {(row["customer"], row["n"]) for row in following.view("n").rows()} == set(counts.items())
    assert list((place.path("fed") / "_delta_log").glob("*.checkpoint.parquet"))


@pytest.mark.parametrize("running", [False, True])
def test_what_was_changed_by_hand_is_found_and_mended(shop: Shop, place: DeltaPlace, running: bool) -> None:
    shop.change(random.Random(11), 40)
    shop.require_there()
    assert all(report.ok and report.target.startswith("what is in delta is right, as of") for report in checked(shop))
    ids = sorted(row[0] for row in place.rows("named", ["id"]))
    table = place.table("named")
    table.update({"name": "'by hand'"}, predicate=f"id = {ids[0]}")
    table.delete(f"id = {ids[1]}")
    twice = table.to_pyarrow_table().filter(pa.compute.equal(pa.compute.field("id"), int(ids[2])))
    write_deltalake(table, pa.concat_tables([twice, twice.set_column(0, "id", pa.array([999]))]), mode="append")
    place.table("notes").update({"viewkeeper:times": '"viewkeeper:times" + 1'})
    reports = {report.view: report for report in checked(shop)}
    named = reports["named"]
    assert named.verdict == "target wrong"
    assert named.target.startswith("4 rows in delta are wrong, as of version")
    assert {line.split(":")[0] for line in named.target_differing} == {f"id={id_}" for id_ in [*ids[:3], 999]}
    assert any("'name': 'by hand'" in line for line in named.target_differing)
    notes = len(place.rows("notes", ["note", "customer"]))
    assert reports["notes"].target.startswith(f"{notes} rows in delta are wrong")
    with maintained(shop) if running else nullcontext():
        mended = {report.view: report for report in checked(shop, repair=True)}
    assert all(report.ok for report in mended.values())
    assert mended["named"].target.endswith("; 4 rows were mended")
    assert shop.found() == shop.expected()


@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize("how", ["removed", "made anew", "other columns"])
def test_a_table_that_is_not_what_it_was_is_told_or_made_again(
    shop: Shop, place: DeltaPlace, how: str, running: bool
) -> None:
    chance, has_extra = random.Random(12), "has the columns .* extra STRING; viewkeeper check --repair mends it"
    shop.change(chance, 40)
    with maintained(shop) if running else nullcontext():
        shop.db.catch_up(timeout=60.0) if running else catch_up(shop.db)
        if how == "other columns":
            more = place.table("spend").to_pyarrow_table().append_column("extra", pa.array(["x"] * len(spend(place))))
            write_deltalake(str(place.path("spend")), more, mode="overwrite", schema_mode="overwrite")
        else:
            shutil.rmtree(place.path("spend"))
        if how == "made anew":
            write_deltalake(str(place.path("spend")), pa.table({"id": [1]}))
        shop.change(chance, 5)
        if how != "removed":
            with pytest.raises(StoreAway, match="not viewkeeper's" if how == "made anew" else has_extra):
                shop.db.catch_up(timeout=60.0) if running else catch_up(shop.db)
        if how == "made anew":
            shutil.rmtree(place.path("spend"))
        if how == "other columns":
            report = next(report for report in checked(shop, repair=True) if report.view == "spend")
            assert report.ok
        time.sleep(1.2 if running else 0.0)
        shop.db.catch_up(timeout=60.0) if running else catch_up(shop.db)
        assert shop.found() == shop.expected()


@pytest.mark.parametrize(("how", "message"), [
    ("vectors", "it has deletion vectors, which is not supported"), ("partitions", "it is partitioned; delete it")
])  # fmt: skip
def test_a_table_that_others_have_made_unreadable_is_told(
    shop: Shop, place: DeltaPlace, how: str, message: str
) -> None:
    shop.change(random.Random(19), 40)
    shop.require_there()
    path = str(place.path("spend"))
    if how == "vectors":
        place.table("spend").alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    else:
        write_deltalake(path, spend(place), mode="overwrite", schema_mode="overwrite", partition_by=["n"])
    shop.change(random.Random(20), 5)
    with pytest.raises(StoreAway, match=f"spend cannot be written to delta: {path} was changed by others: {message}"):
        catch_up(shop.db)
    shutil.rmtree(path)
    shop.require_there()


def spend(place: DeltaPlace) -> pa.Table:
    return place.table("spend").to_pyarrow_table()


def test_rows_are_read_where_they_are_written(shop: Shop) -> None:
    shop.change(random.Random(12), 60)
    shop.require_there()
    for view in VIEWS:
        reader = shop.db.view(view)
        for row in list(reader.rows()):
            values = tuple(row[column.name] for column in shop.db._newest.version().shape(view).key)
            assert reader.get(values, source="store") == reader.get(values)
    assert shop.db.view("spend").get(77, source="store") is None
    assert shop.db.view("notes").get(("no", 1), source="store") == []


def test_values_of_all_types_are_deltas_own_and_read_back_as_they_are(shop: Shop, place: DeltaPlace) -> None:
    columns = ["id BIGINT", "b BOOLEAN", "t TINYINT", "h SMALLINT", "n INT", "f FLOAT", "d DOUBLE", "m DECIMAL(38,10)",
               "s DECIMAL(9,8)", "v STRING", "y BINARY", "e DATE", "z TIMESTAMP", "w TIMESTAMP_NTZ", "c CHAR(3)",
               "i INTERVAL DAY TO SECOND", "g INTERVAL YEAR TO MONTH", "a ARRAY<DECIMAL(5,2)>",
               "k STRUCT<x: TIMESTAMP, y: BINARY>", "p MAP<INT, DOUBLE>", "q MAP<STRING, ARRAY<DATE>>",
               "j ARRAY<INTERVAL DAY>"]  # fmt: skip
    shop.db.sql(f"CREATE TABLE wide ({', '.join(columns)}, PRIMARY KEY (id))")
    shop.db.sql(f"""CREATE VIEW whole_rows {shop.using("rows")} AS SELECT * FROM wide;
                    CREATE VIEW bag {shop.using("bag")} AS SELECT b, d, f, m, y, e, z, k, a FROM wide""")
    zone = datetime.UTC
    full = {
        "b": True, "t": -5, "h": 300, "n": 7, "f": 0.1, "d": 1e300, "m": Decimal("12345678901234567890.0000000001"),
        "s": Decimal("1E-8"), "v": "ä:%\n\x00\"", "y": b"\x00\xff", "e": datetime.date(1, 1, 1),
        "z": datetime.datetime(2024, 5, 1, 12, 0, 0, 7, zone), "w": datetime.datetime(1969, 12, 31, 23), "c": "ab",
        "i": datetime.timedelta(days=-3, microseconds=1), "g": "1-2", "a": [Decimal("1.50"), None],
        "k": {"x": datetime.datetime(2024, 1, 1, tzinfo=zone), "y": b"z"}, "p": {1: 0.5, 2: float("inf")},
        "q": {"": [datetime.date(2024, 2, 29)]}, "j": [datetime.timedelta(days=2)],
    }  # fmt: skip
    rows = [{"id": 1, **full}, {"id": 2}, {"id": 3, **full, "d": float("nan"), "f": float("-inf"), "v": ""}, {"id": 4}]
    shop.db.table("wide").put_many(rows)
    catch_up(shop.db)
    for _ in range(2):
        for name in ("whole_rows", "bag"):
            reader = shop.db.view(name)
            for row in list(reader.rows()):
                key = tuple(row[column.name] for column in shop.db._newest.version().shape(name).key)
                here, there = reader.get(key), reader.get(key, source="store")
                assert repr(there) == repr(here)
                assert here
        assert all(report.ok for report in checked(shop, names=["whole_rows", "bag"]))
        shop.db.table("wide").put({"id": 4, **full, "d": -0.0})
        shop.db.table("wide").delete(2)
        catch_up(shop.db)
    fields = {field["name"]: field["type"] for field in json.loads(place.table("rows").schema().to_json())["fields"]}
    assert [fields[name] for name in "bthnfdmsvyezwcig"] == [
        "boolean", "byte", "short", "integer", "float", "double", "decimal(38,10)", "decimal(9,8)", "string", "binary",
        "date", "timestamp", "timestamp_ntz", "string", "long", "integer"]  # fmt: skip
    read = place.table("rows").to_pyarrow_dataset()
    connection = duckdb.connect()
    connection.register("t", read)
    (row,) = connection.sql("""SELECT m, s, v, y, e, epoch_us(z), w, epoch_us(k.x), k.y, p, q, a, i, g, j
                               FROM t WHERE id = 1""").fetchall()  # fmt: skip
    assert row == (
        full["m"], full["s"], full["v"], full["y"], full["e"], 1_714_564_800_000_007, full["w"],
        1_704_067_200_000_000, b"z", {1: 0.5, 2: float("inf")}, full["q"], full["a"], -259_199_999_999, 14,
        [172_800_000_000],
    )  # fmt: skip


def test_names_of_columns_may_have_any_signs(shop: Shop, place: DeltaPlace) -> None:
    shop.db.sql(f"""CREATE VIEW odd {shop.using("odd")} AS
                      SELECT id AS `a.b`, named_struct('b', customer) AS a, note AS `x y'"%=ü`, price AS Price
                      FROM orders;
                    CREATE VIEW of_one {shop.using("of_one")} AS SELECT note AS `a.b`, customer AS `b c` FROM orders""")
    for seed in range(3):
        shop.change(random.Random(seed), 30)
        catch_up(shop.db)
        assert all(report.ok for report in checked(shop, names=["odd", "of_one"]))
        read = place.table("odd").to_pyarrow_table().to_pylist()
        assert {(row["a.b"], row["a"]["b"], row["x y'\"%=ü"], row["Price"]) for row in read} == {
            (key, row["customer"], row["note"], row["price"]) for key, row in shop.orders.items()
        }
        for key in shop.orders:
            reader = shop.db.view("odd")
            assert reader.get(key, source="store") == reader.get(key)


def test_rows_of_a_dropped_view_go_and_the_table_can_be_used_again(shop: Shop, place: DeltaPlace) -> None:
    shop.change(random.Random(13), 30)
    shop.require_there()
    shop.db.sql("DROP VIEW named; DROP VIEW notes")
    shutil.rmtree(place.path("notes"))
    with maintained(shop):
        while len(shop.db.catalog.targets) > 2:
            shop.change(random.Random(1), 1)
            shop.db.catch_up(timeout=60.0)
    assert not place.rows("named", ["id"])
    assert not place.path("notes").exists()
    shop.db.sql(f"CREATE VIEW named {shop.using('named')} AS "
                "SELECT count(*) AS n, CAST('2024-05-01' AS TIMESTAMP_NTZ) AS w FROM orders")  # fmt: skip
    catch_up(shop.db)
    assert place.rows("named", ["n", "w"]) == texts([(len(shop.orders), "2024-05-01 00:00:00")])


def test_a_view_with_another_query_takes_over_what_was_written(shop: Shop, place: DeltaPlace) -> None:
    shop.change(random.Random(14), 30)
    shop.require_there()
    for query in ("customer, count(*) AS n, CAST(max(id) AS STRING) AS total", "customer, count(*) AS n",
                  "customer, count(*) + 1 AS n", "note, count(*) AS n"):  # fmt: skip
        group = query.split(",")[0]
        shop.db.sql(f"ALTER VIEW spend AS SELECT {query} FROM orders GROUP BY {group}")
        catch_up(shop.db)
        counts = Counter(row[group] for row in shop.orders.values())
        assert place.rows("spend", [group, "n"]) == texts((each, n + ("+ 1" in query)) for each, n in counts.items())
    shop.db.sql("ALTER VIEW named AS SELECT id FROM orders WHERE id < 0")
    catch_up(shop.db)
    assert place.table("named").to_pyarrow_table() == pa.table({"id": pa.array([], pa.int64())})


def test_others_may_compact_and_clean_up_while_it_is_written(
    shop: Shop, place: DeltaPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "ROWS_A_FILE", 4)
    chance, ended = random.Random(15), threading.Event()

    def optimise() -> None:
        while not ended.is_set():
            with suppress(CommitFailedError):  # what was written meanwhile has files of it
                place.table("named").optimize.compact()
            place.table("named").create_checkpoint()

    shop.require_there()
    other = threading.Thread(target=optimise)
    with maintained(shop):
        shop.change(chance, 100)
        require_soon(shop)
        other.start()
        try:
            for _ in range(10):
                shop.change(chance, 20)
                shop.db.catch_up(timeout=60.0)
        finally:
            ended.set()
            other.join()
        require_soon(shop)
        place.table("named").vacuum(0, dry_run=False, enforce_retention_duration=False)
        require_soon(shop)
    assert any("OPTIMIZE" in commit["operation"] for commit in place.table("named").history())
    require_sound(place, "named")


def test_many_small_writings_leave_few_files(shop: Shop, place: DeltaPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "ALIKE_MAX", 3)
    shop.db.sql(f"CREATE VIEW plain {shop.using('plain')} AS SELECT id, price FROM orders")
    most = 0
    with maintained(shop):
        for i in range(15):
            shop.db.table("orders").put_many({"id": 10 * i + j, "price": Decimal(5)} for j in range(i % 3 + 1))
            shop.db.catch_up(timeout=60.0)
            most = max(most, len(place.table("plain").file_uris()))
    assert len(place.rows("plain", ["id"])) == 30
    assert 2 <= most <= 5


def test_versions_in_which_nothing_changed_are_told_now_and_then(shop: Shop, place: DeltaPlace) -> None:
    using = shop.using("kept").replace("every_seconds '0'", "every_seconds '0.2'")
    shop.db.sql(f"CREATE VIEW kept {using} AS SELECT id FROM orders")
    with maintained(shop):
        shop.db.table("orders").put({"id": 1})
        shop.db.catch_up(timeout=60.0)
        begun, before = time.monotonic(), place.table("kept").version()
        while place.table("kept").version() == before:
            shop.db.table("orders").put({"id": 1})
            shop.db.catch_up(timeout=60.0)
        assert time.monotonic() - begun > 1.5
        told = place.version("kept")
        shop.db.table("orders").put({"id": 2})
        shop.db.catch_up(timeout=60.0)
        assert place.version("kept") > told
        assert place.rows("kept", ["id"]) == texts([(1,), (2,)])
        shop.db.table("orders").put({"id": 1})
        shop.db.catch_up(timeout=60.0)
        shutil.rmtree(place.path("kept"))
        shop.db.table("orders").put({"id": 1})
        time.sleep(1.5)
        shop.db.catch_up(timeout=60.0)
        assert place.rows("kept", ["id"]) == texts([(1,), (2,)])
    assert all(report.ok for report in checked(shop, names=["kept"], repair=True))


def test_a_table_is_written_so_often_as_is_said(shop: Shop, place: DeltaPlace) -> None:
    slow = shop.using("slow").replace("every_seconds '0'", "every_seconds '1.5'")
    shop.db.sql(f"CREATE VIEW slow {slow} AS SELECT id, price FROM orders")
    chance = random.Random(16)
    with maintained(shop):
        shop.db.catch_up(timeout=60.0)
        begun, before = time.monotonic(), place.table("slow").version()
        while time.monotonic() < begun + 3.0:
            shop.change(chance, 5)
            time.sleep(0.1)
        assert place.table("slow").version() - before <= 2
        shop.db.catch_up(timeout=60.0)
        assert place.rows("slow", ["id"]) == texts((key,) for key in shop.orders)


@pytest.mark.faults
def test_storage_that_is_away_holds_up_its_views_alone(shop: Shop, place: DeltaPlace, tmp_path: Path) -> None:
    elsewhere = DeltaPlace(tmp_path / "elsewhere")
    shop.db.sql(f"CREATE VIEW elsewhere {elsewhere.using('elsewhere')} AS SELECT count(*) AS n FROM orders")
    chance = random.Random(17)
    with maintained(shop):
        shop.change(chance, 20)
        require_soon(shop)
        place.folder.rename(tmp_path / "away")
        place.folder.write_text("no folder")
        shop.change(chance, 20)
        with pytest.raises(StoreAway, match="spend cannot be written to delta: .*/lake/spend"):
            shop.db.catch_up(timeout=60.0)
        assert elsewhere.rows("elsewhere", ["n"]) == texts([(len(shop.orders),)])
        views = {view["name"]: view for view in shop.db.status()["views"]}
        assert views["elsewhere"]["target_error"] is None
        assert views["spend"]["lag_versions"] > 0
        place.folder.unlink()
        (tmp_path / "away").rename(place.folder)
        require_soon(shop)


def test_what_a_writing_left_that_was_cut_off_before_there_was_a_table_is_no_hindrance(
    shop: Shop, place: DeltaPlace
) -> None:
    (place.path("spend") / "_delta_log").mkdir(parents=True)
    (place.path("spend") / f"{row_files.OURS}x.parquet").write_text("cut off")
    shop.require_there()


def test_who_has_begun_before_writes_nothing_any_more(shop: Shop, place: DeltaPlace) -> None:
    shop.change(random.Random(18), 30)
    shop.require_there()
    view = shop.db.view("spend")._source.version().view("spend")
    assert view.target is not None
    database = shop.db._newest.version().snapshot.database
    first, earlier, later = opened(view.target), opened(view.target), opened(view.target)
    with pytest.raises(Begun):
        first.complete(Marker(database, 1, 1, Written(1)))
    assert earlier.begin(Marker(database, 1, 1, epoch=1_000)) is not None
    assert later.begin(Marker(database, 1, 1, epoch=1_001)) is not None
    for late in (lambda: earlier.complete(Marker(database, 1, 1, Written(1), 1_000)), earlier.clear):
        with pytest.raises(Begun):
            late()
    before = place.rows("spend", ["customer", "total"])
    later.complete(Marker(database, 1, 1, Written(7, 3, "ab" * 8), 1_001))
    assert later.marker() == Marker(database, 1, 1, Written(7, 3, "ab" * 8), 1_001)
    assert before == place.rows("spend", ["customer", "total"])
    place.table("spend").create_checkpoint()
    DeltaTable(str(place.path("spend"))).optimize.compact()
    assert opened(view.target).marker() == later.marker()
    later.clear()
    assert not place.rows("spend", ["customer"])
    for target in (first, earlier, later):
        target.close()

"""What a user does with a stream: declare, append, seal, read, look at how it is; in Python and on the command line."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import viewkeeper
from local_maintenance import catch_up
from viewkeeper import Database, DeclarationError, InputError, NotFound, NotReady, NotSupported
from viewkeeper.catalog.model import Stream
from viewkeeper.cli import cli
from viewkeeper.pipeline import maintain
from viewkeeper.pipeline.driver import Maintainer
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.term import Term
from viewkeeper.stores.embedded import EmbeddedStore
from viewkeeper.stores.logs import Logs
from viewkeeper.streams.intake.append import StreamTarget, append
from viewkeeper.streams.intake.stream_log import StreamLog
from viewkeeper.trace.local_disk import LocalDisk, local_storage
from viewkeeper.trace.lock import driver_lock

STREAM = """CREATE STREAM M (ts TIMESTAMP NOT NULL, src STRING, loss INT)
            TIMESTAMP BY ts PARTITION LENGTH 60 LATENESS 60 HORIZON 600"""
HIGH = """CREATE VIEW high AS SELECT src, count(*) AS ct FROM M PATTERN [a, b+] WHERE a.loss > 1 AND b.loss > 1
          GROUP BY src"""


def at(minute: int, loss: int = 5, src: str = "a") -> dict[str, Any]:
    return {"ts": f"2015-01-01 10:{minute:02}:00", "src": src, "loss": loss}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "net") as database:
        database.sql(f"{STREAM}; {HIGH}")
        yield database


def test_appended_rows_are_open_until_their_part_is_sealed(db: Database) -> None:
    m = db.stream("m")
    appended = m.append([at(0), at(1), {"ts": None}])
    assert (appended.stored, appended.rejected, appended.duplicate) == (2, 1, False)
    assert [row["ts"].minute for row in m.open()] == [0, 1]
    catch_up(db)
    assert (len(m.open()), m.newest) == (2, None)
    m.append(pa.table({"ts": ["2015-01-01 10:03:00"]}))
    assert len(m.open().to_arrow()) == 3
    catch_up(db)
    assert [row["ts"].minute for row in m.rows()] == [0, 1]
    assert m.open().to_pandas()["ts"].dt.minute.tolist() == [3]
    assert (m.next or 0) - (m.first or 0) == 2


def test_the_same_id_stores_once_and_an_empty_append_nothing(db: Database) -> None:
    m = db.stream("M")
    assert m.append([at(0)], id="x").stored == 1
    again = m.append([at(0), at(1)], id="x")
    assert (again.stored, again.duplicate) == (1, True)
    assert m.append([]).stored == 0
    assert len(m.open()) == 1


def test_a_call_seals_and_a_view_follows(db: Database) -> None:
    m, high = db.stream("M"), db.view("high")
    m.append([at(0), at(1), at(2)])
    m.seal(m.subscript_at("2015-01-01 10:01"))
    catch_up(db)
    assert list(high.at("2015-01-01 10:01")) == [{"src": "a", "ct": 2}]
    with pytest.raises(NotReady, match=r"high\[23668442\] is not built yet: it waits for M\[23668442\], which is"):
        high.at("2015-01-01 10:02")
    with pytest.raises(InputError, match="sealed up to a subscript"):
        m.seal("10:01")  # type: ignore[arg-type]


def test_a_snapshot_reads_one_version_and_writes_nothing(db: Database) -> None:
    m = db.stream("M")
    m.append([at(0), at(5)])
    catch_up(db)
    with db.snapshot() as old:
        m.append([at(0, src="late")])
        catch_up(db)
        for reader, rows in ((old, 1), (db, 2)):
            assert len(reader.stream("M").at("2015-01-01 10:00")) == rows
            assert list(reader.sql("SELECT count(*) AS n FROM M"))[0]["n"] == rows
        assert not hasattr(old.stream("M"), "append")
        changed = m.changed_since(old.version)
    assert [(each.first, each.last) for each in changed] == [(m.first, m.first)]


def test_names_lead_to_what_they_mean(db: Database) -> None:
    with pytest.raises(NotFound, match=r"'M' is a stream, not a view; read it with db\.stream\('M'\)"):
        db.view("M")
    with pytest.raises(NotFound, match=r"'high' is a view over streams, not a table: it is read with db\.view"):
        db.table("high")
    with pytest.raises(NotSupported, match="high has parts, and no keys"):
        db.view("high").get("a")
    with pytest.raises(NotSupported, match="M is kept part by part, and has no indexes.*line 1, column 19"):
        db.sql("CREATE INDEX i ON m (src)")
    with pytest.raises(DeclarationError, match="there is no table or view hihg; did you mean high"):
        db.sql("SELECT * FROM hihg")
    with pytest.raises(NotFound, match="None does not exist"):
        db.stream(None)  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="'m' is a stream: rows are appended"):
        db.table("m")
    with pytest.raises(NotFound, match="'high' is a view over streams, kept by viewkeeper; only streams are written"):
        db.stream("high").append([at(0)])
    assert db.stream("high").name == db.view("HIGH").name == "high"


def test_status_says_how_far_streams_and_views_are(db: Database) -> None:
    db.stream("M").append([at(0), at(1), at(4), {"ts": None}])
    (waiting,) = db.status()["streams"]
    assert (waiting["open_rows"], waiting["waiting_entries"], waiting["sealed"]) == (3, 1, None)
    catch_up(db)
    status = db.status()
    (stream,), (view,) = status["streams"], status["part_views"]
    assert (stream["first"], stream["sealed"], stream["parts"]) == (23668440, 23668442, 3)
    assert (stream["rows"], stream["open_rows"], stream["rejected"]) == (2, 1, 1)
    assert stream["late_rows"] == 0
    db.stream("M").append([at(0), at(3)])
    catch_up(db)
    assert db.status()["streams"][0]["late_rows"] == 1
    assert stream["watermark"] == "2015-01-01 10:04:00+00:00"
    assert (view["next"], view["lag_parts"], view["lag_seconds"], view["state"]) == (23668443, 0, 0, "kept")
    assert view["waits_for"] == "M[23668443], which is sealed up to part 23668442"
    assert view["partial_matches"] == 0
    assert db.lag()["streams"] == [{"name": "M", "sealed": 23668442, "watermark": stream["watermark"]}]


def test_catch_up_tells_how_many_appends_are_in(db: Database) -> None:
    told: list[tuple[int, int]] = []
    db.stream("M").append([at(0)])
    db.stream("M").append([at(1)])
    store = EmbeddedStore(db.root)
    maintain.catch_up(
        local_storage(db.root), Logs.of(store), LocalExecutor, 60.0, lambda done, total: told.append((done, total))
    )
    store.close()
    assert (told[0], told[-1]) == ((0, 2), (2, 2))


def test_rejected_rows_are_listed_and_put_again_where_that_helps(db: Database) -> None:
    m = db.stream("M")
    m.append([at(0)])
    m.append([{"ts": None, "src": "never"}])
    ahead = {"ts": "9000-01-01 00:00:00", "src": "too soon", "loss": 1}
    m.append([ahead, ahead])
    catch_up(db)
    listed = db.rejected("m")
    assert [row["table"] for row in listed] == ["M"] * 3
    assert sorted(json.loads(row["operation"])["src"] for row in listed) == ["never", "too soon", "too soon"]
    assert db.put_rejected_again() == 0
    assert len(db.rejected()) == 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("viewkeeper.rejections.time.time", lambda: 221_845_392_000.0)
        assert db.put_rejected_again("M") == 2
    assert [json.loads(row["operation"])["src"] for row in db.rejected("M")] == ["never"]


def test_the_command_line_loads_shows_and_reads_streams(db: Database, tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        command, *rest = arguments
        result = CliRunner().invoke(cli, [command, "--db", str(db.root), *rest], catch_exceptions=False)
        assert result.exit_code == 0
        return result.stdout

    file = tmp_path / "rows.csv"
    file.write_text("ts,src,loss\n2015-01-01 10:00:00,a,5\n2015-01-01 10:01:00,a,6\n2015-01-01 10:05:00,a,7\n,a,8\n")
    assert json.loads(run("load", "m", str(file), "--id", "monday", "--json")) == {
        "stored": 3, "rejected": 1, "loaded_before": 0}  # fmt: skip
    assert "0 rows stored; 1 of 1 files were loaded before" in run("load", "m", str(file), "--id", "monday")
    catch_up(db)
    assert json.loads(run("sql", "SELECT count(*) AS n FROM M[23668440..23668441]", "--json")) == {"n": 2}
    assert json.loads(run("sql", "SELECT * FROM high[23668441]", "--json")) == {"src": "a", "ct": 2}
    assert json.loads(run("sql", "SHOW STREAMS", "--json"))["sealed"] == 23668443
    assert "views over streams" in run("status")
    assert json.loads(run("status", "--json"))["streams"][0]["name"] == "M"
    assert json.loads(run("rejected", "M", "--json"))["reason"].startswith("column ts is NULL")
    with pytest.raises(NotFound, match="M has parts, and no keys"):
        run("get", "M", "5")
    with pytest.raises(InputError, match="--id is for streams"):
        run("load", "nothing", str(file), "--id", "x")


def test_a_stream_dropped_while_nobody_maintains_leaves_nothing(tmp_path: Path) -> None:
    """Its entries and ids are gone with the statement, its files when they are old enough; who knew it appends nothing
    more.  What a killed statement left goes with the next driver of any kind."""
    root = tmp_path / "net"
    with ExitStack() as stack:
        db = stack.enter_context(viewkeeper.connect(root))
        db.sql(f"{STREAM}; CREATE STREAM other (ts TIMESTAMP NOT NULL) TIMESTAMP BY ts PARTITION LENGTH 60")
        log = stack.enter_context(StreamLog(root, LocalDisk(str(root))))
        m, stream = db.stream("m"), db.catalog.find("m")
        assert isinstance(stream, Stream)
        m.append([at(0)], id="x")
        (root / "streams" / "follow" / str(stream.id) / "f").mkdir(parents=True)
        db.sql("DROP STREAM m")
        assert not log.entries(stream.id, 0, 10) and log.known(stream.id, "x") is None
        assert not (root / "streams" / "follow" / str(stream.id)).exists()
        with pytest.raises(NotFound, match="m"):
            m.append([at(1)])
        with pytest.raises(NotFound, match="does not exist any more"):
            append(StreamTarget(local_storage(root), stream, "UTC"), [at(1)])
        other = db.catalog.find("other")
        assert isinstance(other, Stream)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(StreamLog, "forget", lambda self, id_: None)
            db.stream("other").append([{"ts": at(0)["ts"]}])
            db.sql("DROP STREAM other")
        assert log.entries(other.id, 0, 10)
        db.sql("CREATE TABLE t (id BIGINT, PRIMARY KEY (id))")
        assert not log.entries(other.id, 0, 10)
        assert list((root / "state").glob("append-*"))
        lock = driver_lock(root)
        lock.acquire("pipeline", 10.0)
        with closing(EmbeddedStore(root)) as store:
            maintainer = Maintainer(Term(local_storage(root), lock), Logs.of(store), LocalExecutor())
            maintainer.parts.tidy(maintainer.term, time.time() + 7200)
            maintainer.close()
        assert not list((root / "state").glob("append-*"))

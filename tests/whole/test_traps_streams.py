"""Small inputs that made other systems wrong: windows, watermarks, late data, restarts, names.  Each test's name ends
in the case's letter and number."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import lmdb
import pyarrow as pa
import pytest

import viewkeeper
from faulty_database import INJECTED, FaultyDatabase
from local_maintenance import catch_up
from stream_database import StreamDatabase, moment
from viewkeeper.errors import Busy, DeclarationError, Error, NotFound
from viewkeeper.streams.intake.append import StreamTarget, append
from viewkeeper.streams.part_index import read_index
from viewkeeper.streams.view_progress import ViewProgress

BY_TIME = "(ts TIMESTAMP NOT NULL, k STRING, v BIGINT) TIMESTAMP BY ts PARTITION LENGTH"


def rows(*given: tuple[float, str, int | None]) -> list[dict[str, Any]]:
    return [{"ts": moment(at), "k": k, "v": v} for at, k, v in given]


def send(database: StreamDatabase, *given: tuple[float, str, int | None]) -> None:
    database.append("s", rows(*given))
    database.drive()


def test_a_second_aggregate_takes_the_first_ones_parts_for_no_late_rows_k133(database: StreamDatabase) -> None:
    """The 10-minute maximum of 5-minute counts has a row for every 10 minutes."""
    database.declare(f"CREATE STREAM s {BY_TIME} 300")
    database.declare("""CREATE VIEW five AS INITIALIZE five[i] AS SELECT count(*) AS n FROM s[i]
        UPDATE five[j] AS SELECT count(*) FROM s[j] PARTITION LENGTH 300 BACKFILL;
        CREATE VIEW ten AS INITIALIZE ten[i] AS SELECT max(n) AS most FROM five[2*i..2*i+1]
        UPDATE ten[j] AS SELECT max(n) FROM five[2*j..2*j+1] PARTITION LENGTH 600 BACKFILL""")
    send(database, (0, "a", 1), (10, "a", 1), (310, "a", 1))
    send(database, (650, "a", 1), (910, "a", 1), (920, "a", 1), (930, "a", 1))
    send(database, (1800, "a", 1))
    assert [database.rows("ten", part) for part in range(3)] == [[(2,)], [(3,)], [(0,)]]
    assert database.progress("ten").next == 3


def test_a_negative_event_time_lies_in_the_part_below_zero_k135(database: StreamDatabase) -> None:
    """An event at -13 s is in [-20, -10), and in the windows over that part."""
    database.declare(f"CREATE STREAM s {BY_TIME} 10")
    database.declare("CREATE VIEW w AS SELECT k, count(*) AS n FROM s [WINDOW 10 SECONDS] GROUP BY k")
    send(database, (-13, "a", 1), (25, "b", 1))
    assert database.progress("w").first == -2
    assert [database.rows("w", part) for part in (-2, -1, 0, 1)] == [[("a", 1)], [], [], []]


def test_rows_of_one_batch_are_taken_by_their_time_k137(database: StreamDatabase) -> None:
    """A at 0 and B at 5, then A at 3: A's rows are 0 and 3, and none of them late."""
    database.declare(f"CREATE STREAM s {BY_TIME} 10")
    database.declare("""CREATE VIEW runs AS SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts
        MEASURES count(*) AS n, first(a.ts) AS since, last(a.ts) AS until PATTERN (a+ z)
        DEFINE a AS v > 0, z AS v = 0)""")
    send(database, (0, "A", 1), (5, "B", 1), (3, "A", 2), (7, "A", 0))
    send(database, (20, "A", 1))
    assert database.rows("runs", 0) == [("A", 3, moment(0), moment(3))]
    assert database.progress("s").late_rows == 0  # type: ignore[union-attr]


def test_a_late_row_goes_to_its_own_part_or_is_rejected_k139(database: StreamDatabase) -> None:
    """After a watermark of 30 a row of 11 is no part of what comes at 32: it changes its own part, or HORIZON rejects
    it with the reason."""
    for name, horizon in (("s", ""), ("strict", "HORIZON 10")):
        database.declare(f"CREATE STREAM {name} {BY_TIME} 5 {horizon}")
        database.declare(f"CREATE VIEW {name}_n AS SELECT k, count(*) AS n FROM {name} [WINDOW 5 SECONDS] GROUP BY k")
        for at in (10, 30, 11, 32, 40):
            database.append(name, rows((at, "a", 1)))
    database.drive()
    assert [database.rows("s_n", part) for part in (2, 6)] == [[("a", 2)], [("a", 2)]]
    assert [database.rows("strict_n", part) for part in (2, 6)] == [[("a", 1)], [("a", 2)]]


def test_hours_across_a_clock_change_are_real_hours_k143(tmp_path: Path) -> None:
    """In New York's spring and autumn nights each row's part is one real hour, and none is shared or lost."""
    with viewkeeper.connect(tmp_path, zone="America/New_York") as db:
        db.sql(f"CREATE STREAM s {BY_TIME} 3600; CREATE VIEW n AS SELECT count(*) AS n FROM s [WINDOW 1 HOUR]")
        zone = ZoneInfo("America/New_York")
        spring = [datetime.datetime(2026, 3, 8, 1, 30), datetime.datetime(2026, 3, 8, 3, 30)]
        autumn = [datetime.datetime(2026, 11, 1, hour, 30, tzinfo=datetime.UTC) for hour in (5, 6)]
        s = db.stream("s")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("viewkeeper.streams.intake.append.time.time", lambda: 1_800_000_000.0)
            s.append([{"ts": at} for at in [*spring, *autumn]] + [{"ts": autumn[1] + datetime.timedelta(hours=2)}])
        catch_up(db)
        parts = [int(at.replace(tzinfo=at.tzinfo or zone).timestamp()) // 3600 for at in [*spring, *autumn]]
        assert parts[1] - parts[0] == 1 and parts[3] - parts[2] == 1
        assert [list(db.view("n").part(part).rows()) for part in parts] == [[{"n": 1}]] * 4


def test_a_row_an_hour_gives_as_many_hours_as_rows_k145(tmp_path: Path) -> None:
    """457 rows that come in three chunks, in a database of a named zone, lie in 457 parts."""
    with viewkeeper.connect(tmp_path, zone="Europe/Berlin") as db:
        db.sql(f"CREATE STREAM s {BY_TIME} 1 HOUR; CREATE VIEW n AS SELECT count(*) AS n FROM s [WINDOW 1 HOUR]")
        times = [moment(1_700_000_000 + 3600 * i) for i in range(458)]
        chunks = [pa.record_batch({"ts": pa.array(times[i : i + 153], pa.timestamp("us", "UTC"))})
                  for i in range(0, 458, 153)]  # fmt: skip
        db.stream("s").append(pa.Table.from_batches(chunks))
        catch_up(db)
        assert [row["n"] for row in db.view("n").rows()] == [1] * 457


def test_what_comes_for_an_open_part_after_a_refresh_counts_k147(database: StreamDatabase) -> None:
    """Catching up in the middle of a part does not close it."""
    database.declare(f"CREATE STREAM s {BY_TIME} 30 DAYS")
    database.declare("CREATE VIEW n AS SELECT count(*) AS n FROM s [WINDOW 30 DAYS]")
    send(database, (3 * 86_400, "a", 1))
    assert database.progress("s").next is None
    send(database, (4 * 86_400, "a", 1))
    send(database, (31 * 86_400, "a", 1))
    assert database.rows("n", 0) == [(2,)]


def test_a_value_is_carried_through_a_day_without_a_row_k149(database: StreamDatabase) -> None:
    """Each of 24 hours without any row has the last value."""
    database.declare(f"CREATE STREAM s {BY_TIME} 3600")
    database.declare("""CREATE VIEW filled AS INITIALIZE filled[i] AS SELECT k, max(v) AS v FROM s[i] GROUP BY k
        UPDATE filled[j] AS SELECT COALESCE(n.k, p.k), COALESCE(n.v, p.v) FROM
            (SELECT k, max(v) AS v FROM s[j] GROUP BY k) AS n FULL OUTER JOIN filled[j-1] AS p ON n.k = p.k
        PARTITION LENGTH 3600 BACKFILL""")
    send(database, (0, "a", 5))
    send(database, (26 * 3600, "b", 7))
    assert [database.rows("filled", hour) for hour in range(1, 25)] == [[("a", 5)]] * 24


def test_rows_at_the_watermark_may_still_come_k153(database: StreamDatabase) -> None:
    """A+ B with B at 5 is decided when 5 has passed: an A at 5, which the tie column puts before B, belongs to it."""
    database.declare(f"CREATE STREAM s {BY_TIME} 1")
    database.declare("""CREATE VIEW found AS SELECT * FROM s MATCH_RECOGNIZE (ORDER BY ts, v
        MEASURES count(*) AS n PATTERN (A+ B) DEFINE A AS k = 'A', B AS k = 'B')""")
    send(database, (1, "A", 1))
    send(database, (5, "B", 9))
    assert database.progress("found").next == 5
    send(database, (5, "A", 2))
    send(database, (6.5, "C", 1))
    assert database.rows("found", 5) == [(3,)]


def test_a_view_declared_while_rows_come_counts_each_once_l155_l157(database: StreamDatabase) -> None:
    """Rows that were stored before, and those taken in one round with the declaration, or late in it, count once."""
    database.declare(f"CREATE STREAM s {BY_TIME} 60")
    for part in range(20):
        send(database, (60 * part, "a", 1))
    database.append("s", rows((1200, "a", 1), (5, "a", 1)))
    database.declare("CREATE VIEW n AS SELECT k, count(*) AS n FROM s [WINDOW 1 MINUTE] GROUP BY k")
    database.append("s", rows((6, "a", 1), (1260, "a", 1)))
    database.drive()
    assert [database.rows("n", part) for part in range(21)] == [[("a", 3)], *[[("a", 1)]] * 20]


def test_a_busy_stream_does_not_starve_the_filling_of_a_view_l159(database: StreamDatabase) -> None:
    """A view over a long history is whole after as many rounds as its parts need, whatever comes meanwhile."""
    database.declare(f"CREATE STREAM s {BY_TIME} 60")
    send(database, *((60 * part, "a", 1) for part in range(1000)))
    database.declare("CREATE VIEW n AS SELECT k, count(*) AS n FROM s [WINDOW 1 MINUTE] GROUP BY k")
    maintainer = database.maintainer()
    for step in range(4):
        database.append("s", rows((60 * (1000 + step), "a", 1)))
        maintainer.parts.step(maintainer.term)
        maintainer.parts.finish(maintainer.term)
    maintainer.close()
    assert database.progress("n").next == database.progress("s").next == 1003


def test_what_was_stored_before_a_crash_counts_once_m163(database: StreamDatabase) -> None:
    """A writer that has not heard of its append sends it again with the same id: one row, one sum."""
    database.declare(f"CREATE STREAM s {BY_TIME} 60; CREATE VIEW t AS SELECT sum(v) AS v FROM s [WINDOW 1 MINUTE]")
    for _ in range(2):
        append(StreamTarget(database.storage, database.stream("s"), "UTC"), rows((1, "a", 10)), "batch 1")
        database.drive()
    send(database, (60, "a", 1))
    assert database.rows("t", 0) == [(10,)]


def test_a_hole_in_the_log_is_named_m167(database: StreamDatabase) -> None:
    """Where an entry is missing, keeping stops with an error that says which; nothing is built past it."""
    database.declare(f"CREATE STREAM s {BY_TIME} 60")
    for part in range(5):
        database.append("s", rows((60 * part, "a", 1)))
    database.close()
    (folder,) = {path.parent for path in (database.root / "streams").rglob("data.mdb")}
    with lmdb.open(str(folder), max_dbs=8) as environment, environment.begin(write=True) as txn:
        entries = environment.open_db(b"entries", txn)
        with txn.cursor(entries) as cursor:
            assert cursor.first() and cursor.next()
            cursor.delete()
    again = StreamDatabase(database.root)
    with pytest.raises(Error, match=r"entry 2 of stream \d+ was trimmed"):
        again.drive()
    assert again.progress("s").next is None
    again.close()


def test_a_batch_that_fails_after_reading_is_retried_with_the_same_result_m171(tmp_path: Path) -> None:
    """A round whose query failed leaves nothing that the next try could go on from."""
    database = FaultyDatabase(tmp_path)
    database.declare(f"CREATE STREAM s {BY_TIME} 60")
    database.declare("CREATE VIEW w AS SELECT k, sum(v) AS v FROM s [WINDOW 2 MINUTES] GROUP BY k")
    database.failing = {("w", 2)}
    send(database, (0, "a", 1), (60, "a", 2), (120, "a", 4), (180, "a", 8))
    progress = database.progress("w")
    assert isinstance(progress, ViewProgress) and (progress.next, progress.stale) == (2, f"part 2: {INJECTED}")
    database.failing = set()
    send(database, (240, "a", 16))
    assert [database.rows("w", part) for part in (1, 2, 3)] == [[("a", 3)], [("a", 6)], [("a", 12)]]
    database.close()


def test_names_mean_the_same_in_any_case_and_quoted_n173(tmp_path: Path) -> None:
    """Rows given to person, PERSON and Person, and a view over `PERSON`, are of one stream."""
    with viewkeeper.connect(tmp_path) as db:
        db.sql(f"CREATE STREAM person {BY_TIME} 60; CREATE VIEW n AS SELECT K, count(*) AS n FROM `PERSON` "
               "[WINDOW 1 MINUTE] GROUP BY k")  # fmt: skip
        for name in ("person", "PERSON", "Person"):
            db.stream(name).append([{"TS": moment(1), "k": "red"}])
        db.stream("person").append([{"ts": moment(60)}])
        catch_up(db)
        assert list(db.view("N").part(0).rows()) == [{"K": "red", "n": 3}]


def test_a_quoted_keyword_may_be_the_time_n175(database: StreamDatabase) -> None:
    """LATENESS works on a time column called `timestamp`, and on a view's column too."""
    database.declare("""CREATE STREAM s (`timestamp` TIMESTAMP NOT NULL, x INT) TIMESTAMP BY `timestamp`
        PARTITION LENGTH 60 LATENESS 60;
        CREATE VIEW v AS SELECT x AS `timestamp` FROM s;
        CREATE VIEW w AS SELECT `timestamp`, count(*) AS n FROM v [WINDOW 1 MINUTE] GROUP BY `timestamp`""")
    database.append("s", [{"timestamp": moment(0), "x": 5}, {"timestamp": moment(119), "x": 6}])
    database.drive()
    assert database.progress("s").next is None
    database.append("s", [{"timestamp": moment(120), "x": 6}])
    database.drive()
    assert database.rows("w", 0) == [(5, 1)]


def test_more_names_than_columns_are_refused_n177(database: StreamDatabase) -> None:
    """A view that names more columns than its query has is refused when it is declared."""
    database.declare(f"CREATE STREAM s {BY_TIME} 60")
    with pytest.raises(DeclarationError):
        database.declare("CREATE VIEW v (y, z) AS SELECT count(*) FROM s [WINDOW 1 MINUTE]")


def test_a_failed_refresh_leaves_what_there_was_n185(tmp_path: Path) -> None:
    """A repair that fails leaves the part with its old rows, and never empty."""
    database = FaultyDatabase(tmp_path)
    database.failing = set()
    database.declare(f"CREATE STREAM s {BY_TIME} 60")
    database.declare("CREATE VIEW w AS SELECT k, sum(v) AS v FROM s [WINDOW 1 MINUTE] GROUP BY k")
    send(database, (0, "a", 1), (0, "b", 1), (0, "c", 1), (60, "a", 1))
    database.failing = {("w", 0)}
    send(database, (1, "a", 5))
    assert database.rows("w", 0) == [("a", 1), ("b", 1), ("c", 1)]
    database.close()


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_a_join_reacts_to_both_streams_n187(database: StreamDatabase, order: str) -> None:
    """The pair is there whichever stream's row comes first, and whichever is late."""
    for name in "ab":
        database.declare(f"CREATE STREAM {name} {BY_TIME} 60")
    database.declare("""CREATE VIEW j AS INITIALIZE j[i] AS SELECT a.v, b.v AS w FROM a[i] JOIN b[i] ON a.k = b.k
        UPDATE j[j] AS SELECT a.v, b.v FROM a[j] JOIN b[j] ON a.k = b.k PARTITION LENGTH 60 BACKFILL""")
    for name in "ab":
        database.append(name, rows((0, "x", None), (60, "x", None)))
    database.drive()
    for name in order:
        database.append(name, rows((1, "k", 1)))
        database.drive()
    assert (1, 1) in database.rows("j", 0)


def test_state_of_keys_that_never_come_again_goes_o189_o191(database: StreamDatabase) -> None:
    """Each key comes once: what views and helpers keep of the newest part is that of the window's keys, and of helpers
    few parts are kept."""
    database.declare(f"CREATE STREAM s {BY_TIME} 60 HORIZON 120")
    database.declare("""CREATE VIEW w AS SELECT k, sum(v) AS v, max(v) AS most FROM s [WINDOW 3 MINUTES] GROUP BY k;
        CREATE VIEW r AS SELECT /*+ STRATEGY(running) */ k, sum(v) AS v FROM s [WINDOW 3 MINUTES] GROUP BY k;
        CREATE VIEW p AS SELECT k, count(*) AS n FROM s PATTERN [a, b+] WHERE a.v > 0 AND b.v > 0 GROUP BY k""")
    send(database, *((60 * part, f"key {part}", 1) for part in range(200)))
    database.tidy()
    snapshot = database.storage.newest()
    for view in snapshot.catalog.part_views:
        for id_ in (view.id, *(helper.id for helper in view.helpers)):
            last = read_index(snapshot)[id_].at(198)
            assert last is not None and last.rows <= 3, view.name
            if id_ != view.id or view.hidden:
                assert read_index(snapshot)[id_].rows <= 30, view.name


def test_a_writer_without_rows_does_not_hold_the_watermark_o193(database: StreamDatabase) -> None:
    """With two writers of which one never has a row, and sends empty appends, windows close."""
    database.declare(f"CREATE STREAM s {BY_TIME} 60; CREATE VIEW n AS SELECT count(*) AS n FROM s [WINDOW 1 MINUTE]")
    for part in range(3):
        database.append("s", [])
        send(database, (60 * part, "a", 1))
    assert [database.rows("n", part) for part in (0, 1)] == [[(1,)], [(1,)]]


def test_two_days_months_apart_change_two_parts_o197(database: StreamDatabase) -> None:
    """One append with late rows of June 5 and September 5 changes these two days, and computes no others."""
    database.declare(f"CREATE STREAM s {BY_TIME} 1 DAY; CREATE VIEW n AS SELECT k, count(*) AS n FROM s [WINDOW 1 DAY] "
                     "GROUP BY k")  # fmt: skip
    june, september = (int(datetime.datetime(2015, month, 5, 12, tzinfo=datetime.UTC).timestamp()) for month in (6, 9))
    send(database, *((june - 86_400 * 10 + 86_400 * day, "a", 1) for day in range(120)))
    version = database.storage.newest().version
    send(database, (june, "a", 1), (september, "a", 1))
    changed = read_index(database.storage.newest())[database.view("n").id].changed_since(version)
    assert changed == [(june // 86_400,) * 2, (september // 86_400,) * 2]


def test_a_view_on_a_view_loses_what_the_lower_one_loses_p201(database: StreamDatabase) -> None:
    """A late row takes an hour below HAVING: the day over it no longer counts that hour."""
    database.declare(f"CREATE STREAM s {BY_TIME} 3600")
    database.declare("""CREATE VIEW hours AS SELECT k, sum(v) AS v FROM s [WINDOW 1 HOUR] GROUP BY k HAVING sum(v) > 10;
        CREATE VIEW days AS INITIALIZE days[i] AS SELECT count(*) AS n, CAST(sum(v) AS BIGINT) AS v
            FROM hours[24*i..24*i+23]
        UPDATE days[j] AS SELECT count(*), CAST(sum(v) AS BIGINT) FROM hours[24*j..24*j+23] PARTITION LENGTH 86400
        BACKFILL""")
    send(database, (0, "a", 11), (3600, "a", 12), (86_400, "a", 1))
    assert database.rows("days", 0) == [(2, 23)]
    send(database, (10, "a", -5))
    assert database.rows("hours", 0) == []
    assert database.rows("days", 0) == [(1, 12)]


def test_only_one_refreshes_and_the_other_is_told_p203(database: StreamDatabase) -> None:
    """While one driver maintains a second is refused; what it was to refresh is seen by the first."""
    database.declare(f"CREATE STREAM s {BY_TIME} 60; CREATE VIEW n AS SELECT count(*) AS n FROM s [WINDOW 1 MINUTE]")
    send(database, (0, "a", 1), (60, "a", 1))
    maintainer = database.maintainer()
    database.append("s", rows((1, "a", 1)))
    with pytest.raises(Busy):
        database.maintainer()
    maintainer.parts.step(maintainer.term)
    maintainer.parts.finish(maintainer.term)
    maintainer.close()
    assert database.rows("n", 0) == [(2,)]


def test_reading_what_is_gone_says_so_n181(tmp_path: Path) -> None:
    """A part that has expired is an error with the parts that are kept, and not a missing file."""
    with viewkeeper.connect(tmp_path, nodes=1, durability="process") as db:
        db.sql(f"CREATE STREAM s {BY_TIME} 60 EXPIRE AFTER 300")
        db.stream("s").append(rows(*((60 * part, "a", part) for part in range(50))))
        catch_up(db)
    database = StreamDatabase(tmp_path)
    database.tidy()
    database.close()
    with viewkeeper.connect(tmp_path) as db:
        with pytest.raises(NotFound, match=r"s\[3\] has expired: parts from 44 on are kept"):
            db.stream("s").part(3)
        assert [(each.first, each.last) for each in db.stream("s").changed_since(0)] == [(44, 48)]

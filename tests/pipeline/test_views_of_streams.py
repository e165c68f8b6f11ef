"""Views that take rows of streams together: kept by the operators of views over tables, in the streams' commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_database import StreamDatabase, moment
from viewkeeper.catalog.model import Table, View
from viewkeeper.checker.check import check_views
from viewkeeper.errors import DeclarationError, NotSupported, ViewBroken
from viewkeeper.evidence import DatabaseEvidence
from viewkeeper.jobs.job import Job
from viewkeeper.maintenance.explain import explain_view
from viewkeeper.maintenance.operators import aggregate
from viewkeeper.pipeline import part_sources
from viewkeeper.pipeline.fills import unfilled
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.plans.maintenance import Aggregate
from viewkeeper.stores.logs import Logs
from viewkeeper.trace.snapshot import Snapshot
from viewkeeper.views.parts_at_version import Parts
from viewkeeper.views.version import Version

DECLARED = """
CREATE TABLE hosts (name STRING, site STRING, PRIMARY KEY (name));
CREATE STREAM m (ts TIMESTAMP NOT NULL, src STRING, x INT) TIMESTAMP BY ts PARTITION LENGTH 60 LATENESS 60;
CREATE STREAM n (at TIMESTAMP NOT NULL, src STRING) TIMESTAMP BY at PARTITION LENGTH 3600;
"""

QUERIES = {
    "sums": "SELECT src, count(*) AS n, sum(x) AS total, min(x) AS least FROM m GROUP BY src",
    "all_rows": "SELECT count(*) AS n, count(DISTINCT src) AS sources, max(ts) AS last FROM m",
    "sites": "SELECT site, count(*) AS n, sum(x) AS total FROM m JOIN hosts ON src = name GROUP BY site",
    "lefts": "SELECT src, site, count(*) AS n FROM m LEFT JOIN hosts ON src = name GROUP BY src, site",
    "quiet": "SELECT name, x FROM hosts LEFT JOIN m ON src = name AND x > 2",
    "both": "SELECT m.src, x, at FROM m JOIN n ON m.src = n.src AND at >= ts",
    "pairs": "SELECT a.src, a.x, b.x AS after FROM m a JOIN m b ON a.src = b.src AND a.ts < b.ts",
    "unlike": "SELECT DISTINCT src FROM m",
    "late": "SELECT src, ts, x FROM m ORDER BY ts DESC, src, x LIMIT 3",
    "numbered": "SELECT src, ts, x, sum(x) OVER (PARTITION BY src ORDER BY ts) AS so_far FROM m",
    "known": "SELECT name FROM hosts WHERE name IN (SELECT src FROM m WHERE x > 1)",
    "together": "SELECT src FROM m UNION ALL SELECT src FROM n UNION ALL SELECT name FROM hosts",
    "minutes": "SELECT PART_TIMESTAMP AS minute, count(*) AS n FROM m GROUP BY PART_TIMESTAMP",
}

Row = dict[str, Any]


def declared(root: Path, servers: int = 1) -> StreamDatabase:
    database = StreamDatabase(root, servers)
    database.declare(DECLARED)
    return database


def create(database: StreamDatabase, queries: dict[str, str], prefix: str = "") -> None:
    database.declare(";".join(f"CREATE VIEW {prefix}{name} AS {query}" for name, query in queries.items()))


def hosts(database: StreamDatabase, **sites: str) -> None:
    table = database.catalog.find("hosts")
    assert isinstance(table, Table)
    database.store.put_many(table, [{"name": name, "site": site} for name, site in sites.items()])


def row(second: int | None, src: str | None = "a", x: int | None = 1) -> Row:
    return {"ts": None if second is None else moment(second), "src": src, "x": x}


def view(database: StreamDatabase, name: str, snapshot: Snapshot | None = None) -> Counter[tuple[Any, ...]]:
    snapshot = snapshot or database.storage.newest()
    found = snapshot.catalog.find(name)
    assert isinstance(found, View)
    table = DatabaseEvidence(Version(snapshot), Logs.of(database.store)).view_rows(found)
    return Counter(tuple(each.values()) for each in table.to_pylist())


def assert_right(database: StreamDatabase) -> None:
    """Each view is what the evaluator of the checker says, which reads the stream's parts by itself."""
    evidence = DatabaseEvidence(Version(database.storage.newest()), Logs.of(database.store))
    for report in check_views(evidence, [each.name for each in evidence.catalog.views], None):
        assert report.verdict == "right", str(report)


def sums(rows: Iterable[Row]) -> Counter[tuple[Any, ...]]:
    """What `SELECT src, count(*), sum(x) FROM m GROUP BY src` is of accepted rows."""
    groups: dict[Any, list[int]] = {}
    for each in rows:
        groups.setdefault(each["src"], []).append(each["x"])
    return Counter((src, len(xs), sum(xs)) for src, xs in groups.items())


SUMS = {"sums": "SELECT src, count(*) AS n, sum(x) AS total FROM m GROUP BY src"}


def test_an_aggregate_has_all_accepted_rows_in_each_version(tmp_path: Path) -> None:
    """Rows of open parts, late ones, equal ones; not those that were rejected; also over a restart."""
    database = declared(tmp_path)
    create(database, SUMS)
    accepted: list[Row] = []
    for rows in ([row(0), row(30), row(0)], [row(700, "b", 5), row(None, "c")], [row(10, "late", 3)], [row(701, None)]):
        database.append("m", rows)
        accepted += [each for each in rows if each["ts"] is not None]
        database.drive()
        assert view(database, "sums") == sums(accepted)
    database.close()
    again = StreamDatabase(tmp_path)
    again.append("m", [row(5)])
    again.drive()
    assert view(again, "sums") == sums([*accepted, row(5)])
    again.close()


def test_a_version_has_a_stream_and_all_that_reads_it(tmp_path: Path) -> None:
    """The parts, views of them, views of the whole stream and views over these change in one commit."""
    database = declared(tmp_path)
    create(database, {**SUMS, "windows": "SELECT src, sum(x) AS total FROM m [WINDOW 1 MINUTE] GROUP BY src",
                      "over": "SELECT sum(total) AS total FROM sums"})  # fmt: skip
    database.drive()
    before = database.storage.newest().version
    database.append("m", [row(0), row(600)])
    database.drive()
    snapshot = database.storage.newest()
    assert snapshot.version == before + 1
    assert view(database, "over", snapshot) == Counter([(2,)])
    assert database.rows("windows", 0) == [("a", 1)]
    database.close()


@pytest.mark.parametrize("servers", [1, 2])
def test_streams_stand_wherever_tables_do(tmp_path: Path, servers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Joins of all kinds, with tables, streams and themselves, sets, windows, first rows, subqueries: declared before
    there are rows, and after."""
    monkeypatch.setattr(part_sources, "CHAINED_MAX", 3)
    database = declared(tmp_path, servers)
    create(database, QUERIES)
    database.append("m", [row(0, "a", 1), row(0, "a", 1), row(61, "b", 5), row(62, None, 2), row(300, "c", None)])
    hosts(database, a="north", c="south")
    database.drive()
    create(database, QUERIES, "later_")
    database.append("n", [{"at": moment(10), "src": "a"}, {"at": moment(7300), "src": "b"}])
    database.drive()
    hosts(database, a="west", b="north", d="south")
    database.append("m", [row(20, "a", 7), row(400, "d", 3)])  # one of them late
    database.append("n", [{"at": moment(9), "src": "b"}])
    database.drive()
    assert_right(database)
    for name in QUERIES:
        assert view(database, name) == view(database, f"later_{name}") != Counter(), name
    database.close()


def test_views_over_streams_stand_beside_streams_and_tables(tmp_path: Path) -> None:
    """What late rows repair, and what a definition makes anew, goes and comes; equal parts count as often as there are
    such."""
    database = declared(tmp_path)
    database.declare("""
        CREATE VIEW busy AS SELECT src, sum(x) AS total FROM m [WINDOW 2 MINUTES] GROUP BY src;
        CREATE VIEW alarms AS SELECT src, x FROM m WHERE x > 2;
        CREATE VIEW rows AS INITIALIZE rows[i] AS SELECT count(*) AS n FROM m[i] UPDATE rows[j] AS
            SELECT count(*) FROM m[j] PARTITION LENGTH 60 BACKFILL""")
    queries = {
        "most": "SELECT src, max(total) AS most, count(*) AS n FROM busy GROUP BY src",
        "alarmed": "SELECT m.src, x, total FROM m JOIN busy ON m.src = busy.src AND total > x",
        "alarming": "SELECT site, count(*) AS n FROM alarms JOIN hosts ON src = name GROUP BY site",
        "counted": "SELECT n, count(*) AS parts FROM rows GROUP BY n",
    }
    create(database, queries)
    hosts(database, a="north", b="south")
    database.append("m", [row(0, "a", 1), row(61, "b", 5), row(200, "a", 3), row(60000, "b", 1)])
    database.drive()
    assert view(database, "counted") == Counter([(1, 3), (0, 996)])
    create(database, queries, "later_")
    database.append("m", [row(10, "a", 9), row(62, "a", 9), row(90000, "c", 1)])
    database.drive()
    database.declare("ALTER VIEW alarms FROM 0 AS SELECT src, x FROM m WHERE x > 4")
    database.drive()
    assert_right(database)
    for name in queries:
        assert view(database, name) == view(database, f"later_{name}") != Counter(), name
    assert view(database, "alarming") == Counter([("north", 2), ("south", 1)])
    with pytest.raises(DeclarationError, match="alarming is made of alarms, so alarms cannot be made of alarming"):
        database.declare("ALTER VIEW alarms AS SELECT src, x FROM m JOIN alarming ON src = site")
    with pytest.raises(DeclarationError, match="busy is used by most, alarmed, later_most, later_alarmed"):
        database.declare("DROP VIEW busy")
    with pytest.raises(DeclarationError, match="there is no column PART_TIMESTAMP"):
        database.declare("CREATE VIEW w AS SELECT max(PART_TIMESTAMP) AS t FROM busy")
    database.close()


def test_what_is_made_of_a_stale_view_is_not_read_as_if_all_were_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = declared(tmp_path)
    database.declare("CREATE VIEW busy AS SELECT src, sum(x) AS total FROM m [WINDOW 1 MINUTE] GROUP BY src")
    create(database, {"most": "SELECT max(total) AS most FROM busy", "over": "SELECT most FROM most", **SUMS})
    database.drive()
    monkeypatch.setattr(Parts, "stale", property(lambda parts: f"{parts.of.name} is stale: its query fails"))
    version = Version(database.storage.newest())
    with pytest.raises(ViewBroken, match="^busy is stale: its query fails; over reads it$"):
        version.rows(version.shape("over"))
    version.rows(version.shape("sums"))
    database.close()


class Appending(LocalExecutor):
    """Before each job rows are appended, and taken in while a fill goes on."""

    def __init__(self, database: StreamDatabase) -> None:
        super().__init__(1)
        self.database, self.jobs = database, 0

    def run(self, job: Job) -> list[Any]:
        self.jobs += 1
        if self.jobs < 5:
            self.database.append("m", [row(60 * self.jobs, "b", self.jobs)])
        return super().run(job)


def test_a_fill_takes_what_comes_meanwhile_once(tmp_path: Path) -> None:
    database = declared(tmp_path)
    database.append("m", [row(0), row(100)])
    database.drive()
    create(database, QUERIES)
    executor = Appending(database)
    maintainer = database.maintainer(executor)
    while unfilled(maintainer.term.snapshot.catalog):
        if not maintainer.step():
            maintainer.wait()
    maintainer.close()
    database.drive()
    assert_right(database)
    appended = min(executor.jobs, 4)
    assert appended > 1 and view(database, "all_rows") == Counter([(2 + appended, 2, moment(60 * appended))])
    database.close()


def expiring(root: Path) -> StreamDatabase:
    database = StreamDatabase(root)
    database.declare("CREATE STREAM m (ts TIMESTAMP NOT NULL, src STRING, x INT) TIMESTAMP BY ts PARTITION LENGTH 60 "
                     "EXPIRE AFTER 120")  # fmt: skip
    return database


def test_rows_of_expired_parts_stay_or_are_forgotten(tmp_path: Path) -> None:
    """As the view says; one that is declared later has what is kept."""
    database = expiring(tmp_path)
    forgetting = f"{SUMS['sums']} FORGET EXPIRED"
    create(database, {**SUMS, "kept": forgetting, "rows_kept": "SELECT src, x FROM m FORGET EXPIRED"})
    rows = [row(0), row(65), row(600, "b", 2), row(601, "b", 2)]
    database.append("m", rows)
    database.drive()
    assert view(database, "sums") == view(database, "kept") == sums(rows)
    database.tidy()
    assert view(database, "sums") == sums(rows)
    assert view(database, "kept") == sums(rows[2:])
    assert view(database, "rows_kept") == Counter({("b", 2): 2})
    create(database, {"later": SUMS["sums"], "later_kept": forgetting})
    database.append("m", [row(602, "c", 4)])
    database.drive()
    assert view(database, "sums") == sums([*rows, row(602, "c", 4)])
    assert view(database, "later") == view(database, "kept") == view(database, "later_kept")
    reports = check_views(DatabaseEvidence(Version(database.storage.newest()), Logs.of(database.store)),
                          ["sums", "kept", "later"], None)  # fmt: skip
    assert {each.view: each.verdict for each in reports} == {"sums": "not judged", "kept": "right", "later": "right"}
    assert reports[0].unjudged == ["parts of m before 8 have expired, and the view may have their rows"]
    texts = {name: explain_view(database.catalog, found) for name in ("sums", "kept", "later")
             if isinstance(found := database.catalog.find(name), View)}  # fmt: skip
    assert "late ones too, which stay when their part expires\n" in texts["sums"]
    assert "which go when their part expires\n" in texts["kept"]
    assert "of m it keeps 2 states; rows of expired parts stay\n" in texts["sums"]
    assert "of m it keeps 2 states; rows of expired parts go\n" in texts["kept"]
    assert "those of parts before 8 had expired when it was declared" in texts["later"]
    database.close()


def test_what_only_a_view_has_yet_cannot_be_filled_through_it(tmp_path: Path) -> None:
    database = expiring(tmp_path)
    create(database, {**SUMS, "above": "SELECT sum(total) AS total FROM sums"})
    database.append("m", [row(0), row(600, "b", 2)])
    database.drive()
    database.tidy()
    for script in ("CREATE VIEW w AS SELECT src FROM sums", "CREATE INDEX i ON sums (total)",
                   "CREATE VIEW w AS SELECT total FROM above"):  # fmt: skip
        with pytest.raises(DeclarationError, match=r"parts of m that have expired.*FORGET EXPIRED \(line 1, column 1"):
            database.declare(script)
    database.append("m", [row(601, "b", 2)])
    database.declare(f"CREATE OR REPLACE VIEW sums AS {SUMS['sums']} FORGET EXPIRED")
    database.drive()
    assert view(database, "above") == Counter([(4,)])
    database.declare("CREATE VIEW w AS SELECT src FROM sums")
    database.drive()
    assert view(database, "w") == Counter([("b",)])
    database.close()


def test_nothing_expires_of_what_a_view_is_filled_from(tmp_path: Path) -> None:
    database = expiring(tmp_path)
    database.append("m", [row(0), row(600, "b", 2)])
    database.drive()
    create(database, SUMS)
    maintainer = database.maintainer()
    maintainer.parts.tidy(maintainer.term, 0.0)
    maintainer.parts.step(maintainer.term)
    maintainer.parts.finish(maintainer.term)
    maintainer.close()
    assert database.progress("m").kept is None
    database.drive()
    assert view(database, "sums") == sums([row(0), row(600, "b", 2)])
    database.close()


def test_a_roll_up_changes_no_view(tmp_path: Path) -> None:
    """Also where rows come to the same parts between two looks of a fill."""
    database = declared(tmp_path)
    create(database, {**SUMS, "pairs": QUERIES["pairs"]})
    rows = [row(at * 7, "ab"[at % 2], at) for at in range(60)]
    for each in rows:
        database.append("m", [each])
    database.drive()
    before = database.storage.newest()
    database.tidy()
    after = database.storage.newest()
    assert after.version > before.version, "something was rolled up"
    late = [row(3, "a", 100), row(9, "b", 100)]
    database.append("m", late)
    database.drive()
    assert view(database, "sums") == sums([*rows, *late])
    changes = part_sources.changes_of([database.stream("m").id], before, database.storage.newest())
    assert changes.rows >= len(late)
    assert_right(database)
    database.close()


def test_a_view_whose_program_fails_stops_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream, and what else reads it, goes on."""
    database = declared(tmp_path)
    create(database, {**SUMS, "plain": "SELECT DISTINCT src FROM m", "over": "SELECT sum(total) AS t FROM sums"})
    database.drive()

    def broken(operator: Aggregate, task: Any) -> None:
        if len(operator.columns) == 3:  # that of sums
            raise ValueError("no")
        run(operator, task)

    run = aggregate.run
    monkeypatch.setattr("viewkeeper.maintenance.zones._RUN", {**_runs(), Aggregate: broken})
    monkeypatch.setattr("viewkeeper.pipeline.part_keeping.RETRY_SECONDS", 0.01)
    database.append("m", [row(0), row(600, "b", 2)])
    maintainer = database.maintainer()
    while view(database, "plain") != Counter([("a",), ("b",)]):
        if not maintainer.step():
            maintainer.wait()
    maintainer.close()
    stopped = {each.name for each in database.catalog.views if each.stopped is not None}
    assert stopped == {"sums", "over"}
    database.close()


def _runs() -> dict[type, Any]:
    from viewkeeper.maintenance import zones

    return dict(zones._RUN)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[StreamDatabase]:
    database = declared(tmp_path)
    create(database, SUMS)
    yield database
    database.close()


def test_streams_are_used_by_the_views_that_read_them(shared: StreamDatabase) -> None:
    with pytest.raises(DeclarationError, match="m is used by sums"):
        shared.declare("DROP STREAM m")
    shared.append("m", [row(0)])
    shared.declare(
        "CREATE VIEW more AS SELECT max(total) AS t FROM sums; CREATE VIEW gone AS SELECT DISTINCT src FROM n"
    )
    shared.declare("DROP STREAM n CASCADE")  # more waits to be filled, and is declared anew
    shared.drive()
    assert view(shared, "more") == Counter([(1,)])
    shared.declare("ALTER VIEW sums AS SELECT src, count(*) AS n, sum(x) + 1 AS total FROM m GROUP BY src")
    shared.drive()
    assert view(shared, "more") == Counter([(2,)])
    shared.declare("DROP STREAM m CASCADE")
    assert [each.name for each in shared.catalog.views] == []


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("CREATE VIEW w AS SELECT count(*) AS n FROM m EXPIRE AFTER 60", "kept as a whole.*leave out EXPIRE AFTER"),
        ("CREATE VIEW w AS SELECT name FROM hosts FORGET EXPIRED", "w reads no stream.*leave out FORGET EXPIRED"),
        ("CREATE VIEW w AS SELECT src, sum(x) AS x FROM m [WINDOW 60 SECONDS] GROUP BY src FORGET EXPIRED",
         "kept part by part, and its parts stay; leave out FORGET EXPIRED"),
        ("ALTER VIEW plain AS SELECT count(*) AS n FROM m", "plain is kept part by part.*drop the view and create"),
        ("ALTER VIEW sums AS SELECT src FROM m", "sums has no parts; drop it, and create it again"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_what_to_do(shared: StreamDatabase, script: str, message: str) -> None:
    shared.declare("CREATE VIEW plain AS SELECT src, x FROM m")
    with pytest.raises((DeclarationError, NotSupported), match=f"{message}.*line 1, column"):
        shared.declare(script)

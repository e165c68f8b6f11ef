"""A database with a view of every kind over streams, for tests of the check; and faults that are planted in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from stream_database import StreamDatabase, duck, moment, quoted
from viewkeeper.catalog.model import Table
from viewkeeper.checker.part_check import check_parts
from viewkeeper.checker.report import Report
from viewkeeper.evidence import PartEvidence
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.keeping.stage import RoundStage, new_files
from viewkeeper.streams.part_files import PartWriter, read_part
from viewkeeper.streams.part_index import read_index
from viewkeeper.trace.naming import file_name
from viewkeeper.views.version import Version

BASE = """
CREATE STREAM m (ts TIMESTAMP NOT NULL, g STRING, x BIGINT, w DOUBLE) TIMESTAMP BY ts PARTITION LENGTH 60;
CREATE STREAM n (ts TIMESTAMP NOT NULL, g STRING, y BIGINT) TIMESTAMP BY ts PARTITION LENGTH 120 LATENESS 60;
CREATE TABLE hosts (g STRING PRIMARY KEY, site STRING);
"""
VIEWS = {
    "streak": """INITIALIZE streak[i] AS SELECT g, max(CAST(log2(2) AS BIGINT)) AS ct FROM m[i] WHERE x > 0 GROUP BY g
        UPDATE streak[j] AS SELECT New.g, max(COALESCE(Prev.ct, 0) + CAST(log2(2) AS BIGINT)) FROM m[j] AS New
        LEFT OUTER JOIN streak[j-1] AS Prev ON New.g = Prev.g WHERE New.x > 0 GROUP BY New.g PARTITION LENGTH 60""",
    "pairs": """INITIALIZE pairs[i] AS SELECT a.g, a.x, b.y FROM m[2*i..2*i+1] AS a JOIN n[i] AS b ON a.g = b.g
        UPDATE pairs[j] AS SELECT a.g, a.x, b.y FROM m[2*j..2*j+1] AS a JOIN n[j] AS b ON a.g = b.g
        PARTITION LENGTH 120""",
    "longest": """INITIALIZE longest[i] AS SELECT max(ct) AS ct, count(*) AS n FROM streak[i]
        UPDATE longest[j] AS SELECT max(ct), count(*) FROM streak[j] PARTITION LENGTH 60""",
    "sites": "SELECT m.g, h.site, m.x FROM m JOIN hosts h ON m.g = h.g WHERE m.x > 0",
    "sums": "SELECT g, sum(x) AS s, max(x) AS hi, count(*) AS n FROM m [WINDOW 3 MINUTES] GROUP BY g",
    "exact": """SELECT g, sum(w) AS s, avg(w) AS a, stddev(w) AS d, median(x) AS mid, count(DISTINCT x) AS k
        FROM m [WINDOW 2 MINUTES] GROUP BY g""",
    "by_site": """SELECT h.site, sum(m.x) AS s FROM m JOIN hosts h ON m.g = h.g [WINDOW 3 MINUTES] GROUP BY h.site
        HAVING count(*) > 0""",
    "all_rows": "SELECT count(*) AS n, sum(x) AS s FROM m [WINDOW 2 MINUTES]",
    "runs": "SELECT g, count(*) AS n, sum(b.x) AS s FROM m PATTERN [a, b+] WHERE a.x > 0 AND b.x > 0 GROUP BY g",
    "rising": """SELECT g, n, high FROM m MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts
        MEASURES count(*) AS n, LAST(up.x) AS high PATTERN (low up+ down)
        DEFINE up AS x > PREV(x), down AS x <= PREV(x))""",
}
"""A view of every kind: by itself, over ranges and other lengths, over a view, joined with a dimension table."""

START = 7_200
ROWS = [(0, "a", 1, 0.1), (5, "b", 2, 1e16), (61, "a", 3, -1e16), (62, "b", 0, 0.3), (63, "a", 2, 0.7),
        (130, "a", 5, 0.2), (185, "b", 1, -0.1), (186, "a", 4, 0.4), (187, "c", 2, None), (430, "a", 6, 0.5),
        (431, "b", None, 1.5), (500, "a", 3, 2.5), (545, "b", 4, 1.0), (600, "a", 1, 0.0)]  # fmt: skip


class CheckedDatabase(StreamDatabase):
    """Rows of minutes 0 to 10, a gap among them; the dimension table changes on the way."""

    def fill(self) -> None:
        """Declares everything and keeps it."""
        self.declare(BASE + ";".join(f"CREATE VIEW {name} AS {query}" for name, query in VIEWS.items()))
        self.hosts(a="north", b="north")
        self.send([row for row in ROWS if row[0] < 200])
        self.hosts(b="south", c="south")
        self.send([row for row in ROWS if row[0] >= 200])

    def hosts(self, **sites: str) -> None:
        """Writes the dimension table."""
        table = self.catalog.find("hosts")
        assert isinstance(table, Table)
        self.store.put_many(table, [{"g": g, "site": site} for g, site in sites.items()])
        self.drive()

    def send(self, rows: list[tuple[Any, ...]]) -> None:
        """Appends rows to both streams, and keeps the views."""
        rows = [(moment(START + at), *rest) for at, *rest in rows]
        self.append("m", [dict(zip(("ts", "g", "x", "w"), row, strict=True)) for row in rows])
        self.append("n", [dict(zip(("ts", "g", "y"), row, strict=False)) for row in rows])
        self.drive()

    def check(self, *names: str, judge: Any = None) -> dict[str, Report]:
        """Reports by name."""
        return {report.view: report for report in check_parts(self.evidence, names or None, judge)}

    @property
    def evidence(self) -> PartEvidence:
        """What a check is shown of the newest version."""
        return PartEvidence(Version(self.storage.newest()))

    def part_block(self, name: str, part: int) -> Block:
        """The rows of a part, as they are stored."""
        snapshot = self.storage.newest()
        of = snapshot.catalog.find(name)
        assert of is not None
        found = read_index(snapshot)[of.id].at(part)
        assert found is not None
        return read_part(self.storage.disk, found.pieces, of.columns)

    def expire(self) -> None:
        """Old parts are looked through, and go."""
        maintainer = self.maintainer()
        try:
            maintainer.parts.tidy(maintainer.term, 0.0)
            while maintainer.step():
                pass
        finally:
            maintainer.close()

    def plant(self, name: str, part: int, change: Callable[[Block], Block], marked: int | None = None) -> None:
        """Commits a part whose rows are others than they should be; `marked` is the part that its file names."""
        maintainer = self.maintainer()
        try:
            term = maintainer.term
            stage, attempt = RoundStage(term.snapshot), term.begin_attempt()
            of = self.catalog.find(name)
            assert of is not None
            block = change(read_part(stage.disk, stage.pieces(of.id, part), of.columns))
            version = term.snapshot.version + 1
            file = file_name(version, term.epoch, 0, 0, attempt, "batch", "parquet")
            writer = PartWriter(stage.disk, file, of.columns, "UTC", grouped=False)
            writer.add(part if marked is None else marked, block)
            ref, pieces = writer.finish()
            stage.put(of.id, part, tuple(pieces.values()))
            stage.files += new_files(of.id, [] if ref is None else [ref], [(part, piece) for piece in pieces.values()])
            term.commit(stage.change(term.storage, version, term.epoch, attempt, 0))
            term.end_attempt(attempt)
        finally:
            maintainer.close()


class DuckJudge:
    """Answers of DuckDB, in place of Spark's."""

    def answers(self, queries: Mapping[str, str], tables: Mapping[str, pa.Table]) -> dict[str, Any]:
        with duck() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            for name, table in tables.items():
                connection.register(name, table)
            return {name: self._answer(connection, sql) for name, sql in queries.items()}

    def _answer(self, connection: duckdb.DuckDBPyConnection, sql: str) -> Any:
        try:
            return connection.sql(quoted(sql).replace("AS TIMESTAMP)", "AS TIMESTAMPTZ)")).to_arrow_table()
        except (duckdb.ConversionException, duckdb.OutOfRangeException) as error:
            return str(error)


def filled(root: Path) -> CheckedDatabase:
    """The database in `root`, kept."""
    database = CheckedDatabase(root)
    database.fill()
    return database


def without_first(block: Block) -> Block:
    """A row is missing."""
    return block.take(np.arange(1, len(block)))


def doubled(block: Block) -> Block:
    """A row stands twice."""
    return block.take(np.append(np.arange(len(block)), 0))


def changed(block: Block) -> Block:
    """A row has another number."""
    at = max(i for i, column in enumerate(block.columns) if column.type in (pa.int64(), pa.float64(), pa.int32()))
    values = block.columns[at].to_pylist()
    values[0] = (values[0] or 0) + 1
    columns = [pa.array(values, c.type) if i == at else c for i, c in enumerate(block.columns)]
    return Block(columns, block.hashes)

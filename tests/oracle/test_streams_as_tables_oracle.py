"""Views drawn at random over streams, a view over one, tables and each other, through a history of appends (late ones,
rejected ones), changes of the table, restarts, roll-ups and expiry: judged after each step by the checker's evaluator,
which reads the stream's parts by itself."""

from __future__ import annotations

import random
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from oracle.queries import Source, view_queries
from oracle.strategies import domain
from stream_database import StreamDatabase, moment
from viewkeeper.catalog.model import Table, View
from viewkeeper.catalog.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP
from viewkeeper.checker.check import check_views
from viewkeeper.errors import Error
from viewkeeper.evidence import DatabaseEvidence
from viewkeeper.plans.maintenance import plan_of
from viewkeeper.stores.logs import Logs
from viewkeeper.views.version import Version

DECLARED = """
CREATE TABLE t (k INT, s STRING, y DOUBLE, PRIMARY KEY (k));
CREATE STREAM m (ts TIMESTAMP NOT NULL, k INT, s STRING, x INT) TIMESTAMP BY ts PARTITION LENGTH 60
    HORIZON 600 EXPIRE AFTER 900;
CREATE STREAM n (ts TIMESTAMP NOT NULL, k INT, y DOUBLE) TIMESTAMP BY ts PARTITION LENGTH 3600;
CREATE VIEW w AS SELECT k, sum(x) AS total, count(*) AS n FROM m [WINDOW 2 MINUTES] GROUP BY k;
"""
SCOPE = (
    Source("m", (("ts", TIMESTAMP), ("k", INT), ("s", STRING), ("x", INT))),
    Source("n", (("ts", TIMESTAMP), ("k", INT), ("y", DOUBLE))),
    Source("t", (("k", INT), ("s", STRING), ("y", DOUBLE))),
    Source("w", (("k", INT), ("total", BIGINT), ("n", BIGINT))),
)
VIEWS = 5
STEPS = 7

reached: Counter[str] = Counter()


class History:
    """One database, and what is done to it."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.chance, self.root, self.at = chance, root, 1000
        self.database = StreamDatabase(root)
        self.database.declare(DECLARED)

    def declare(self, name: str, query: str) -> None:
        """Declares a view where our own operators know its query; kept as a whole, whatever it takes."""
        reads = re.search(r"\b[mnw]\b", query) is not None
        forgets = " FORGET EXPIRED" if reads and self.chance.random() < 0.7 else ""
        for clause in (forgets, "", " FORGET EXPIRED"):
            try:
                self.database.declare(f"CREATE VIEW {name} AS {query}{clause}")
            except Error as refused:
                reached[f"refused: {str(refused)[:40]}"] += 1
                continue
            if isinstance(self.database.catalog.find(name), View):
                return
            self.database.declare(f"DROP VIEW {name}")  # by parts: other tests are about these

    def step(self) -> None:
        """Something happens, and all of it is taken in."""
        what = self.chance.choice(["append", "append", "append", "table", "restart", "tidy"])
        reached[what] += 1
        if what == "table":
            self._change()
        elif what == "restart":
            self.database.close()
            self.database = StreamDatabase(self.root)
        elif what == "tidy":
            self.database.tidy()
        else:
            self._append()
        self.database.drive()

    def judge(self) -> None:
        """All views are right, but for such as have rows of parts that have expired."""
        evidence = DatabaseEvidence(Version(self.database.storage.newest()), Logs.of(self.database.store))
        views = evidence.catalog.views
        for view, report in zip(views, check_views(evidence, [view.name for view in views], None), strict=True):
            gone = report.verdict == "not judged" and ("have expired" in str(report) or "below it" in str(report))
            assert report.verdict == "right" or gone, f"{view.sql}\n{report}"
            reached[report.verdict] += 1

    def _append(self) -> None:
        chance = self.chance
        self.at += chance.choice([0, 1, 70, 400])
        rows = [{"ts": chance.choice([moment(self.at - chance.choice([0, 0, 0, 130, 300])), moment(0), None]),
                 "k": chance.choice([*domain(INT), None]), "s": chance.choice([*domain(STRING), None]),
                 "x": chance.choice(domain(INT))} for _ in range(chance.randrange(1, 6))]  # fmt: skip
        self.database.append("m", rows)
        hours = [{"ts": moment(chance.randrange(20000)), "k": chance.choice(domain(INT)),
                  "y": chance.choice([*domain(DOUBLE), None])} for _ in range(chance.randrange(3))]  # fmt: skip
        self.database.append("n", hours)

    def _change(self) -> None:
        table, chance = self.database.catalog.find("t"), self.chance
        assert isinstance(table, Table)
        put = [{"k": chance.choice(domain(INT)), "s": chance.choice(domain(STRING)), "y": chance.choice(domain(DOUBLE))}
               for _ in range(3)]  # fmt: skip
        self.database.store.put_many(table, put)
        self.database.store.delete(table, chance.choice(domain(INT)))


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[str], int]:
    scope, queries = list(SCOPE), []
    for i in range(VIEWS):
        query, columns = draw(view_queries(scope))
        queries.append(query)
        scope.insert(0, Source(f"v{i}", columns))
        draw(st.booleans())
    return queries, draw(st.integers(0, 2**32))


@settings(max_examples=5, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(histories())
def test_views_of_streams_are_their_queries_after_each_step(case: tuple[list[str], int]) -> None:
    """Nothing is made smaller where it fails: each try is a database, and the case and its seed say all."""
    queries, seed = case
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder), random.Random(seed))
        waiting: list[Any] = list(enumerate(queries))
        for _ in range(STEPS):
            while waiting and history.chance.random() < 0.6:
                i, query = waiting.pop(0)
                history.declare(f"v{i}", query)
            history.step()
            history.judge()
        catalog = history.database.catalog
        reached.update(type(operator).__name__ for operator in plan_of(catalog).operators)
        reached.update(["forgets"] * sum(view.forgets for view in catalog.views))
        history.database.close()
    print(f"reached so far: {dict(sorted(reached.items()))}")

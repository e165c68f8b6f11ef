"""Pattern views kept by the driver: sealed, filled, repaired after late rows, by several view servers."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from stream_database import StreamDatabase, moment
from viewkeeper.checker.patterns import matches

STREAM = """CREATE STREAM m (ts TIMESTAMP NOT NULL, src STRING, dest STRING, loss INT)
            TIMESTAMP BY ts PARTITION LENGTH 60"""
VIEWS = """
CREATE VIEW View1 AS SELECT src, dest, count(*) AS ct, sum(loss) AS sum_loss FROM m PATTERN [a, b, c, d+]
WHERE a.loss > 10 AND b.loss > 10 AND c.loss > 10 AND d.loss > 10 GROUP BY src, dest;
CREATE VIEW mean AS SELECT src, dest, avg(loss) AS mean FROM m PATTERN [a, b, c, d+]
WHERE a.loss > 10 AND b.loss > 10 AND c.loss > 10 AND d.loss > 10 GROUP BY src, dest;
CREATE VIEW rise AS SELECT src, dest, count(b.loss) AS n, first(a.loss) AS f FROM m PATTERN [a+, b+]
WHERE b.loss > a.loss GROUP BY src, dest;
CREATE VIEW jump AS SELECT src, max(loss) AS m FROM m PATTERN [a, b] WHERE a.loss > PREV(a.loss) GROUP BY src
"""
UPPER = "CREATE VIEW upper AS SELECT src, count(*) AS n FROM View1 PATTERN [a, b+] WHERE b.ct > a.ct GROUP BY src, dest"


def test_the_papers_example_is_kept_end_to_end(tmp_path: Path) -> None:
    """10:04, 10:05 and 10:06 of section 2, by subscripts and rows."""
    database = StreamDatabase(tmp_path)
    database.declare(f"{STREAM};{VIEWS}")
    ten = 1_420_106_400
    for minute, loss in enumerate([6, 12, 15, 24, 20, 16, 7]):
        database.append("m", [(moment(ten + 60 * minute), "10.0.0.1", "10.0.0.2", loss)])
    database.seal("m", ten // 60 + 6)
    database.drive()
    found = [database.rows("View1", ten // 60 + minute) for minute in range(3, 7)]
    pair = ("10.0.0.1", "10.0.0.2")
    assert found == [[], [(*pair, 4, 71)], [(*pair, 5, 87)], []]
    database.close()


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("seed", range(2))
def test_late_rows_give_what_the_definition_says_of_all_rows(tmp_path: Path, servers: int, seed: int) -> None:
    """Rows come late, in any order, to views declared before and after; a shared Helper and a view over a view."""
    chance = random.Random(seed)
    database = StreamDatabase(tmp_path, servers)
    database.declare(STREAM)
    rows = [(moment(60 * part + chance.choice([0, 30])), src, "x", chance.choice([5, 11, 12, 20, None]))
            for part in range(8) for src in ("p", "q", "r", None)
            for _ in range(chance.choice([0, 1, 1, 1, 1, 2]))]  # fmt: skip
    late = [row for row in rows if chance.random() < 0.3]
    in_time = list((Counter(rows) - Counter(late)).elements())
    database.append("m", in_time[: len(in_time) // 2])
    database.drive()
    database.declare(f"{VIEWS};{UPPER}")
    database.append("m", in_time[len(in_time) // 2 :])
    database.seal("m", 7)
    database.drive()
    for row in late:
        database.append("m", [row])
        database.drive()
    parts: dict[int, list[tuple]] = {}
    for row in rows:
        parts.setdefault(int(row[0].timestamp()) // 60, []).append(row)
    for name in ("View1", "mean", "rise", "jump"):
        expected = matches(database.view(name).plan.bound, parts)
        for part in range(8):
            assert Counter(database.rows(name, part)) == Counter(expected.get(part, [])), (name, part)
    lower = {part: database.rows("View1", part) for part in range(8)}
    expected = matches(database.view("upper").plan.bound, {part: each for part, each in lower.items() if each})
    for part in range(8):
        assert Counter(database.rows("upper", part)) == Counter(expected.get(part, [])), ("upper", part)
    database.close()

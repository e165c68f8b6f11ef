"""MATCH_RECOGNIZE in a database: declared by a statement, built in files by several view servers, repaired."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bags import bag
from drawn import examples
from stream_database import StreamDatabase, moment
from viewkeeper.checker.recognize import expected_parts
from viewkeeper.errors import NotSupported
from viewkeeper.streams import preparing
from viewkeeper.streams.explain import explain
from viewkeeper.trace.local_disk import LocalDisk

STREAM = "CREATE STREAM m (ts TIMESTAMP NOT NULL, src STRING, loss INT) TIMESTAMP BY ts PARTITION LENGTH 60"
RISING = """CREATE VIEW rising AS SELECT src, n, high FROM m MATCH_RECOGNIZE (
  PARTITION BY src ORDER BY ts, loss MEASURES count(*) AS n, LAST(up.loss) AS high, FIRST(low.ts) AS since
  PATTERN (low up+ down) DEFINE up AS loss > PREV(loss), down AS loss < PREV(loss)) WHERE n < 9"""
LAST = 8

Row = tuple[int, str | None, int | None]
row = st.tuples(st.integers(0, 59), st.sampled_from(["a", "b", "c", None]), st.integers(0, 4) | st.none())
batches = st.dictionaries(st.integers(0, LAST - 1), st.lists(row, min_size=1, max_size=8), max_size=6)


def stored(part: int, rows: list[Row]) -> list[tuple[Any, ...]]:
    return [(moment(60 * part + second), src, loss) for second, src, loss in rows]


@settings(max_examples=examples(12), deadline=None)
@given(batches, batches, st.integers(1, 3))
def test_parts_in_the_database_are_the_decided_matches_also_after_late_rows(
    batch: dict[int, list[Row]], late: dict[int, list[Row]], servers: int
) -> None:
    """What is sealed, and sealed again by late rows in full and in empty parts, is what the definition says."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparing, "SMALL_ROWS", 0)
        patch.setattr(preparing, "SLICE_ROWS", 3)
        patch.setattr(preparing, "DIRECT_SERVERS", 2)
        patch.setattr(LocalDisk, "upload", lambda disk, file, name: None)
        database = StreamDatabase(Path(folder), servers)
        database.declare(f"{STREAM}; {RISING}")
        source: dict[int, list[tuple[Any, ...]]] = {0: stored(0, [(0, "a", 1)])}
        for part, rows in batch.items():
            source[part] = source.get(part, []) + stored(part, rows)
        _append(database, [row for rows in source.values() for row in rows])
        database.seal("m", LAST)
        database.drive()
        _check(database, source)
        for part, rows in late.items():
            source[part] = source.get(part, []) + stored(part, rows)
            _append(database, stored(part, rows))
        database.drive()
        _check(database, source)
        database.close()


def _append(database: StreamDatabase, rows: list[tuple[Any, ...]]) -> None:
    database.append("m", [dict(zip(("ts", "src", "loss"), row, strict=True)) for row in rows])


def _check(database: StreamDatabase, source: dict[int, list[tuple[Any, ...]]]) -> None:
    view = database.view("rising")
    answers = expected_parts(view.plan, source, 60)
    for part in range(LAST + 1):
        found = bag(row.values() for row in database.part("rising", part).to_pylist())
        assert found == (bag(answers[part].rows) if part in answers else Counter()), part


def test_a_statement_declares_it_and_says_where_it_is_wrong(tmp_path: Path) -> None:
    """CREATE VIEW and EXPLAIN take the clause; a refusal points into the script."""
    database = StreamDatabase(tmp_path)
    database.declare(f"{STREAM}; {RISING}")
    lines = explain(database.catalog, database.view("rising"))
    assert "pattern (low up+ down), greedy, after match skip past last row" in str(lines)
    with pytest.raises(NotSupported, match=r"reluctant quantifier \(\+\?\).*\(line 4, column 19\)"):
        database.declare(
            f"{STREAM.replace('STREAM m', 'STREAM o')};\n{RISING.replace('rising', 'other').replace('up+', 'up+?')}"
        )
    database.close()

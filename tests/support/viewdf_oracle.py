"""ViewDFs of every kind of reference, steps in which rows come to them, and their parts computed in plain order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from stream_database import StreamDatabase, moment, query, sorted_rows
from viewkeeper.catalog.model import PartView
from viewkeeper.catalog.types import logical_type
from viewkeeper.plans.references import Reference
from viewkeeper.streams.subscripts import lowest_at_least

STREAMS = """
CREATE STREAM m (ts TIMESTAMP NOT NULL, g BIGINT, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60;
CREATE STREAM n (ts TIMESTAMP NOT NULL, g BIGINT, y BIGINT) TIMESTAMP BY ts PARTITION LENGTH 120 LATENESS 60;
"""

VIEWS = {
    "large": """INITIALIZE large[i] AS SELECT g, x FROM m[i] WHERE x > 1
        UPDATE large[j] AS SELECT g, x FROM m[j] WHERE x > 1 PARTITION LENGTH 60""",
    "streak": """INITIALIZE streak[i] AS SELECT g, max(CAST(1 AS BIGINT)) AS ct FROM m[i] WHERE x > 0 GROUP BY g
        UPDATE streak[j] AS SELECT New.g, max(COALESCE(Prev.ct, 0) + 1) FROM m[j] AS New
            LEFT OUTER JOIN streak[j-1] AS Prev ON New.g = Prev.g WHERE New.x > 0 GROUP BY New.g PARTITION LENGTH 60""",
    "total": """INITIALIZE total[i] AS SELECT g, CAST(sum(x) AS BIGINT) AS s FROM m[i] GROUP BY g
        UPDATE total[j] AS SELECT g, CAST(sum(s) AS BIGINT) FROM (
            SELECT g, x AS s FROM m[j] UNION ALL SELECT g, s FROM total[j-1]) AS u GROUP BY g PARTITION LENGTH 60""",
    "last3": """INITIALIZE last3[i] AS SELECT g, CAST(sum(x) AS BIGINT) AS s FROM m[i-2..i] GROUP BY g
        UPDATE last3[j] AS SELECT g, CAST(sum(x) AS BIGINT) AS s FROM m[j-2..j] GROUP BY g PARTITION LENGTH 60""",
    "pairs": """INITIALIZE pairs[i] AS SELECT a.g, a.x, b.y FROM m[2*i..2*i+1] AS a JOIN n[i] AS b ON a.g = b.g
        UPDATE pairs[j] AS SELECT a.g, a.x, b.y FROM m[2*j..2*j+1] AS a JOIN n[j] AS b ON a.g = b.g
        PARTITION LENGTH 120""",
    "longest": """INITIALIZE longest[i] AS SELECT max(ct) AS ct, count(*) AS n FROM streak[i]
        UPDATE longest[j] AS SELECT max(ct), count(*) FROM streak[j] PARTITION LENGTH 60""",
    "shared": """INITIALIZE shared[i] AS SELECT l.g, t.s FROM large[i] AS l JOIN total[i] AS t ON l.g = t.g
        UPDATE shared[j] AS SELECT l.g, t.s FROM large[j] AS l JOIN total[j] AS t ON l.g = t.g PARTITION LENGTH 60
        BACKFILL""",
}
"""A ViewDF of every kind of reference: by itself, its own last part, ranges, other lengths, views over views."""

rows = st.lists(
    st.fixed_dictionaries({"at": st.integers(-130, 719), "g": st.integers(0, 2), "v": st.integers(-1, 3)}),
    min_size=1, max_size=12,
)  # fmt: skip
steps = st.lists(
    st.one_of(
        st.tuples(st.just("m"), rows), st.tuples(st.just("m"), rows), st.tuples(st.just("n"), rows),
        st.tuples(st.just("seal"), st.integers(-3, 12)), st.tuples(st.just("drive"), st.none()),
        st.tuples(st.just("view"), st.sampled_from(sorted(VIEWS))),
    ), min_size=3, max_size=14,
)  # fmt: skip
early = st.sets(st.sampled_from(sorted(VIEWS)), max_size=4)


def take_step(database: StreamDatabase, given_rows: dict[str, list[dict[str, Any]]], kind: str, what: Any) -> None:
    if kind in given_rows:
        value = "x" if kind == "m" else "y"
        fresh = [{"ts": moment(row["at"]), "g": row["g"], value: row["v"]} for row in what]
        database.append(kind, fresh)
        given_rows[kind] += fresh
    elif kind == "seal":
        database.seal("m", what)
        database.seal("n", what // 2)
    elif kind == "drive":
        database.drive()
    elif database.catalog.find(what) is None:
        for below in {"longest": ["streak"], "shared": ["large", "total"]}.get(what, []):
            take_step(database, given_rows, "view", below)
        database.declare(f"CREATE VIEW {what} AS {VIEWS[what]}")


def require_right(database: StreamDatabase, given_rows: dict[str, list[dict[str, Any]]]) -> None:
    """Computes every part of every view from the rows that were given, in plain order."""
    parts: dict[str, dict[int, pa.Table]] = {}
    for name, fresh in given_rows.items():
        stream, progress = database.stream(name), database.progress(name)
        schema = pa.schema([pa.field(c.name, logical_type(c.type)) for c in stream.columns])
        parts[name] = {}
        if progress.next is None:
            continue
        least = min(int(row["ts"].timestamp()) // stream.length for row in fresh)
        assert progress.first == least
        for part in range(least, progress.next):
            inside = [row for row in fresh if int(row["ts"].timestamp()) // stream.length == part]
            parts[name][part] = pa.Table.from_pylist(inside, schema=schema)
            assert database.rows(name, part) == sorted_rows(parts[name][part]), f"{name}[{part}]"
    for view in database.catalog.part_views:
        parts[view.name] = _expected(database, view, parts)
        for part, table in parts[view.name].items():
            assert database.rows(view.name, part) == sorted_rows(table), f"{view.name}[{part}]"


def _expected(database: StreamDatabase, view: PartView, parts: dict[str, dict[int, pa.Table]]) -> dict[int, pa.Table]:
    progress = database.progress(view.name)
    plan = view.plan
    mine: dict[int, pa.Table] = {}
    parts = {**parts, view.name: mine}
    if progress.first is None:
        assert any(not parts[r.target] for r in plan.initialize.query.references), "it could have begun"
        return mine
    _require_first(view, progress.first, parts)
    part = progress.first
    while True:
        query_ = (plan.initialize if part == progress.first else plan.update).query
        if any(_beyond(database, r, part, parts) for r in query_.references if r.target != view.name):
            break
        tables = {r.name: _rows(database, r, part, parts) for r in query_.references}
        mine[part] = query(query_.sql, tables, view.columns)
        part += 1
    assert progress.next == part, f"{view.name} is built up to {progress.next}, and could be up to {part}"
    return mine


def _require_first(view: PartView, first: int, parts: dict[str, dict[int, pa.Table]]) -> None:
    """The initial part reads nothing before a source's first part."""
    for r in view.plan.initialize.query.references:
        assert r.low is not None
        assert first >= lowest_at_least(r.low, min(parts[r.target])), f"{view.name} begins at {first}"


def _beyond(database: StreamDatabase, r: Reference, part: int, parts: dict[str, dict[int, pa.Table]]) -> bool:
    assert r.high is not None
    return not parts[r.target] or r.high.at(part) > max(parts[r.target])


def _rows(database: StreamDatabase, r: Reference, part: int, parts: dict[str, dict[int, pa.Table]]) -> pa.Table:
    """The rows of all parts that a reference names; parts before the first are empty."""
    assert r.low is not None and r.high is not None
    item = database.catalog.find(r.target)
    assert item is not None
    empty = pa.schema([pa.field(c.name, logical_type(c.type)) for c in item.columns]).empty_table()
    named = [parts[r.target][p] for p in range(r.low.at(part), r.high.at(part) + 1) if p in parts[r.target]]
    return pa.concat_tables([empty, *named])

"""A SELECT over streams and their views reads the parts that it names, at one version, and answers as over a table."""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from part_database import LOSSES, M, PartDatabase
from viewkeeper.compiler.parse import parse_script
from viewkeeper.errors import DeclarationError, NotFound, NotReady, ViewBroken
from viewkeeper.views.answering import answer
from viewkeeper.views.parts_at_version import Parts
from viewkeeper.views.result import Result
from viewkeeper.views.version import Version

LENGTH = M.length


def moment(second: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(second, datetime.UTC)


@pytest.fixture
def written(tmp_path: Path) -> PartDatabase:
    database = PartDatabase(tmp_path)
    rows = {part: [(moment(part * 60), "ab"[part % 2], part), (moment(part * 60 + 59), "c", None)]
            for part in (4, 5, 6, 9)}  # fmt: skip
    database.write(M, rows, [(7, 8)], first=4, next=10)
    database.write(LOSSES, {5: [("b", 50)], 6: [("a", 60)]}, first=5, next=7)
    database.hosts([("a", "north"), ("b", "south")])
    return database


def ask(database: PartDatabase, text: str) -> Result:
    (statement,) = parse_script(text)
    return answer(Version(database.snapshot), statement)


def values(result: Result) -> list[tuple[Any, ...]]:
    columns = result.to_arrow().columns
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True), key=repr)


@pytest.mark.parametrize(("text", "expected"), [
    ("SELECT loss FROM M WHERE loss > 0", [(4,), (5,), (6,), (9,)]),
    ("SELECT loss FROM m[5] WHERE loss > 0", [(5,)]),
    ("SELECT count(*), sum(loss) FROM M[5..7]", [(4, 11)]),
    ("SELECT src, sum(loss) AS s FROM M GROUP BY src HAVING sum(loss) > 5", [("a", 10), ("b", 14)]),
    ("SELECT Old.loss, New.loss FROM M[5] AS New JOIN M[4] AS Old ON New.src = Old.src AND New.src = 'c'",
     [(None, None)]),
    ("SELECT m.loss, h.site FROM M[4..6] m JOIN hosts h ON m.src = h.name", [(4, "north"), (5, "south"), (6, "north")]),
    ("SELECT l.n, m.loss FROM losses l JOIN M m ON l.src = m.src AND l.PART_TIMESTAMP = m.PART_TIMESTAMP",
     [(50, 5), (60, 6)]),
    ("SELECT n FROM losses[6]", [(60,)]),
    ("SELECT loss FROM M[7..8]", []),
    ("SELECT loss AS x FROM M WHERE loss > 0 ORDER BY x DESC LIMIT 1", [(9,)]),
])  # fmt: skip
def test_parts_are_tables_to_a_query(written: PartDatabase, text: str, expected: list[tuple[Any, ...]]) -> None:
    assert values(ask(written, text)) == sorted(expected, key=repr)


def test_part_timestamp_is_hidden_but_where_it_is_named(written: PartDatabase) -> None:
    assert ask(written, "SELECT * FROM M[4]").columns == ["ts", "src", "loss"]
    assert ask(written, "SELECT m.* FROM M[4] AS m").columns == ["ts", "src", "loss"]
    assert ask(written, "SELECT * FROM M AS x (a, b, c)").columns == ["a", "b", "c"]
    named = ask(written, "SELECT PART_TIMESTAMP, count(*) AS n FROM M GROUP BY PART_TIMESTAMP")
    assert values(named) == [(moment(60 * part), 2) for part in (4, 5, 6, 9)]
    with pytest.raises(DeclarationError, match="no column PART_TIMESTAMP"):
        ask(written, "SELECT PART_TIMESTAMP FROM (SELECT * FROM M) AS x")


def parts_read(database: PartDatabase, text: str) -> dict[str, list[int]]:
    """The parts with rows that a query reads, by the name of the stream or view."""
    read: dict[str, list[int]] = {}
    rows = Parts.rows

    def noted(self: Parts, parts: Iterable[int], wanted: Any = None) -> Any:
        chosen = list(parts)
        read.setdefault(self.of.name, []).extend(chosen)
        return rows(self, chosen, wanted)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Parts, "rows", noted)
        ask(database, text)
    return read


@pytest.mark.parametrize(("condition", "expected"), [
    ("PART_TIMESTAMP = TIMESTAMP '1970-01-01 00:05:00'", [5]),
    ("PART_TIMESTAMP < TIMESTAMP '1970-01-01 00:06:00' AND loss > 100", [4, 5]),
    ("M.PART_TIMESTAMP BETWEEN TIMESTAMP '1970-01-01 00:05:30' AND TIMESTAMP '1970-01-01 00:09:00'", [6, 9]),
    ("PART_TIMESTAMP IN (TIMESTAMP '1970-01-01 00:04:00', TIMESTAMP '1970-01-01 00:09:00')", [4, 9]),
    ("NOT PART_TIMESTAMP >= TIMESTAMP '1970-01-01 00:05:00'", [4]),
    ("PART_TIMESTAMP > ts", [4, 5, 6, 9]),
    ("(PART_TIMESTAMP > TIMESTAMP '1970-01-01 00:08:00' OR loss = 4)", [4, 5, 6, 9]),
    ("PART_TIMESTAMP > TIMESTAMP '2020-01-01 00:00:00'", []),
])  # fmt: skip
def test_a_condition_on_part_timestamp_reads_only_the_parts_that_it_leaves(
    written: PartDatabase, condition: str, expected: list[int]
) -> None:
    assert parts_read(written, f"SELECT loss FROM M WHERE {condition}") == {"M": expected}


@pytest.mark.parametrize(("text", "expected"), [
    ("SELECT s FROM (SELECT PART_TIMESTAMP AS t, src AS s FROM M) x WHERE t = TIMESTAMP '1970-01-01 00:06:00'", [6]),
    ("SELECT PART_TIMESTAMP, count(*) FROM M GROUP BY PART_TIMESTAMP "
     "HAVING PART_TIMESTAMP > TIMESTAMP '1970-01-01 00:06:00'", [9]),
    ("SELECT count(*) AS n FROM M[5..9] WHERE PART_TIMESTAMP < TIMESTAMP '1970-01-01 00:06:00'", [5]),
    ("SELECT m.loss FROM M m JOIN hosts h ON m.src = h.name "
     "AND m.PART_TIMESTAMP = TIMESTAMP '1970-01-01 00:04:00'", [4]),
])  # fmt: skip
def test_a_condition_reaches_the_parts_through_subqueries_groups_and_joins(
    written: PartDatabase, text: str, expected: list[int]
) -> None:
    assert parts_read(written, text)["M"] == expected


def test_a_stream_that_stands_twice_is_read_where_either_needs_it(written: PartDatabase) -> None:
    text = ("SELECT a.loss, b.loss FROM M a JOIN M b ON a.src = b.src WHERE a.PART_TIMESTAMP = "
            "TIMESTAMP '1970-01-01 00:04:00' AND b.PART_TIMESTAMP = TIMESTAMP '1970-01-01 00:06:00'")  # fmt: skip
    assert parts_read(written, text) == {"M": [4, 6]}
    assert values(ask(written, text)) == [(4, 6), (None, None)]


def test_only_the_columns_that_are_needed_are_read(written: PartDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    rows = Parts.rows

    def noted(self: Parts, parts: Iterable[int], wanted: Any = None) -> Any:
        read.append(wanted)
        return rows(self, parts, wanted)

    monkeypatch.setattr(Parts, "rows", noted)
    ask(written, "SELECT more FROM (SELECT src, loss + 1 AS more FROM M) AS x")
    ask(written, "SELECT count(*) FROM M WHERE src = 'a'")
    ask(written, "SELECT count(*) FROM M")
    assert read == [[2], [1], []]


@pytest.mark.parametrize(("text", "error", "message"), [
    ("SELECT * FROM M[10]", NotReady, r"M\[10\] is not sealed yet"),
    ("SELECT * FROM M[3..5]", NotFound, r"M\[3\] lies before the first part"),
    ("SELECT * FROM losses[7]", NotReady, r"losses\[7\] is not built yet"),
    ("SELECT * FROM\n hosts[7]", DeclarationError, r"hosts has no parts.*line 2, column 2"),
    ("SELECT * FROM N[7]", DeclarationError, r"N does not exist; there is M, losses \(line 1, column 15\)"),
    ("SELECT * FROM M[7..5]", DeclarationError, "its end lies before its beginning"),
    ("SELECT * FROM M[j]", DeclarationError, "line 1, column"),
])  # fmt: skip
def test_what_cannot_be_read_is_refused_by_name(
    written: PartDatabase, text: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ask(written, text)


def test_a_query_over_a_stale_view_is_refused_with_the_reason(written: PartDatabase) -> None:
    written.write(LOSSES, stale="it divides by zero")
    with pytest.raises(ViewBroken, match="losses is stale: it divides by zero"):
        ask(written, "SELECT * FROM losses")


def test_explain_shows_which_parts_and_columns_a_query_reads(written: PartDatabase) -> None:
    text = "EXPLAIN SELECT h.site, count(*) AS n FROM M m JOIN hosts h ON m.src = h.name {} GROUP BY h.site"
    assert [row["plan"] for row in ask(written, text.format(""))] == [
        "parts 4..6, 9 of M: 4 of the 4 with rows, columns src", "all of hosts, columns name, site"]  # fmt: skip
    pruned = ask(written, text.format("WHERE m.PART_TIMESTAMP > TIMESTAMP '1970-01-01 00:05:00'"))
    assert [row["plan"] for row in pruned][0] == "parts 6, 9 of M: 2 of the 4 with rows, columns src, PART_TIMESTAMP"
    counted = ask(written, "EXPLAIN SELECT count(*) FROM M[4..5] WHERE PART_TIMESTAMP > TIMESTAMP '2000-01-01'")
    assert [row["plan"] for row in counted] == ["no part of M: 0 of the 2 with rows, columns PART_TIMESTAMP"]


def test_streams_and_their_views_are_listed_and_described(written: PartDatabase) -> None:
    (stream,) = ask(written, "SHOW STREAMS")
    assert (stream["stream"], stream["length"], stream["first"], stream["sealed"], stream["rows"]) == ("M", 60, 4, 9, 8)
    (view,) = ask(written, "SHOW VIEWS")
    assert (view["view"], view["filled"]) == ("losses", True)
    described = ask(written, "DESCRIBE m")
    assert [row["data_type"] for row in described] == ["timestamp", "string", "int"]
    assert described.note == "stream by ts, in parts of 60 s, LATENESS 0, MAX AHEAD 86400"
    assert ask(written, "DESCRIBE losses").note == "view over streams (INITIALIZE and UPDATE), in parts of 60 s"


bounds = st.integers(-3 * LENGTH, 12 * LENGTH)
operators = st.sampled_from(["<", "<=", "=", ">", ">=", "<>"])


@given(
    st.dictionaries(st.integers(-2, 10), st.lists(st.integers(0, 59), min_size=1, max_size=4), max_size=6),
    st.lists(st.tuples(operators, bounds), min_size=1, max_size=3), st.booleans(),
)  # fmt: skip
@settings(deadline=None, max_examples=examples(40))
def test_a_pruned_query_answers_as_one_that_reads_everything(
    seconds: dict[int, list[int]], conditions: list[tuple[str, int]], any_: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = PartDatabase(Path(folder))
        rows = {part: [(moment(part * LENGTH + s), "x", s) for s in each] for part, each in seconds.items()}
        database.write(M, rows, first=min(rows, default=None), next=max(rows) + 1 if rows else None)
        terms = [f"PART_TIMESTAMP {operator} TIMESTAMP '{moment(second):%Y-%m-%d %H:%M:%S}'"
                 for operator, second in conditions]  # fmt: skip
        found = values(ask(database, f"SELECT ts FROM M WHERE {(' OR ' if any_ else ' AND ').join(terms)}"))
    compare = {"<": int.__lt__, "<=": int.__le__, "=": int.__eq__, ">": int.__gt__, ">=": int.__ge__,
               "<>": int.__ne__}  # fmt: skip
    keep = any if any_ else all
    expected = [(ts,) for part, each in rows.items() if keep(compare[o](part * LENGTH, s) for o, s in conditions)
                for ts, _, _ in each]  # fmt: skip
    assert found == sorted(expected, key=repr)

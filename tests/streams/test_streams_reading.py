"""Streams and the views over them are read part by part, by time and as a whole, at one version."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from part_database import HOSTS, LOSSES, M, PartDatabase
from viewkeeper.errors import Damaged, InputError, NotFound, NotReady, ViewBroken
from viewkeeper.evidence import PartEvidence
from viewkeeper.views.stream_reader import PartsReader
from viewkeeper.views.version import Version
from viewkeeper.views.version_sources import Held, Newest

Row = tuple[datetime.datetime, str, int]


def row(second: int, src: str = "a", loss: int = 1) -> Row:
    return datetime.datetime.fromtimestamp(second, datetime.UTC), src, loss


@pytest.fixture
def written(tmp_path: Path) -> PartDatabase:
    """M has parts 10 to 14, of which 12 and 13 are empty, and one row in part 15, which is open."""
    database = PartDatabase(tmp_path)
    rows = {10: [row(600), row(601, "b", 5)], 11: [row(660, "c", 7)], 14: [row(840, "a", 2)], 15: [row(900)]}
    database.write(M, rows, [(12, 13)], first=10, next=15, watermark=900_000_000)
    return database


@pytest.fixture
def m(written: PartDatabase) -> PartsReader:
    return PartsReader(Newest(written.storage), "m")


def losses(reader: Any) -> list[int]:
    return sorted(each["loss"] for each in reader.rows())


def test_a_part_has_its_rows_and_knows_its_time(m: PartsReader) -> None:
    part = m.part(10)
    assert (len(part), losses(part)) == (2, [1, 5])
    assert part.to_arrow().column_names == ["ts", "src", "loss"]
    assert part.begin == datetime.datetime(1970, 1, 1, 0, 10, tzinfo=datetime.UTC)
    assert part.end - part.begin == datetime.timedelta(minutes=1)
    assert list(part.to_pandas()["loss"]) == [row["loss"] for row in part]


def test_an_empty_part_has_no_rows_and_its_columns(m: PartsReader) -> None:
    assert len(m.part(13)) == 0
    assert m.part(13).to_arrow().schema == m.part(10).to_arrow().schema


def test_a_range_has_the_rows_of_all_its_parts(m: PartsReader) -> None:
    assert (len(m.parts(11, 14)), losses(m.parts(11, 14))) == (2, [2, 7])


def test_the_whole_stream_is_what_is_sealed(m: PartsReader) -> None:
    assert losses(m) == [1, 2, 5, 7]
    assert m.to_arrow().num_rows == 4
    assert (m.first, m.newest, m.next, m.length) == (10, 14, 15, 60)


def test_a_part_that_is_not_sealed_says_what_would_seal_it(m: PartsReader) -> None:
    with pytest.raises(NotReady, match=r"M\[15\] is not sealed yet: it is sealed up to part 14; a row of 1970-01-01 "
                                       r"00:16:00\+00:00 or later"):  # fmt: skip
        m.part(15)
    with pytest.raises(NotReady, match=r"M\[15\] is not sealed"):
        m.parts(10, 20)
    with pytest.raises(NotReady, match=r"a row of Unix time 60,000,000,000,060 or later"):
        m.part(10**12)


def test_a_part_before_the_first_is_said_to_be_that(m: PartsReader) -> None:
    with pytest.raises(NotFound, match=r"M\[9\] lies before the first part, M\[10\]"):
        m.part(9)


def test_an_expired_part_is_said_to_be_that(written: PartDatabase, m: PartsReader) -> None:
    written.write(M, kept=11)
    with pytest.raises(NotFound, match=r"M\[10\] has expired: parts from 11 on are kept"):
        m.part(10)
    assert losses(m) == [2, 7]
    assert m.first == 11


def test_a_stream_without_parts_has_no_rows(tmp_path: Path) -> None:
    reader = PartsReader(Newest(PartDatabase(tmp_path).storage), "M")
    assert (list(reader.rows()), reader.first, reader.newest, reader.next) == ([], None, None, None)
    with pytest.raises(NotReady, match="it has no part yet"):
        reader.part(0)
    assert reader.changed_since(0) == []


def test_a_moment_finds_its_part_in_the_zone_of_the_database(tmp_path: Path) -> None:
    database = PartDatabase(tmp_path, "Asia/Kolkata")
    database.write(M, {10: [row(600)], -1: [row(-1, "z", 9)]}, [(0, 9)], first=-1, next=11)
    reader = PartsReader(Newest(database.storage), "M")
    aware = datetime.datetime(1970, 1, 1, 0, 10, 59, 999999, datetime.UTC)
    for moment in (aware, aware.astimezone(ZoneInfo("America/New_York")), datetime.datetime(1970, 1, 1, 5, 40),
                   "1970-01-01 05:40:30", "1970-01-01T00:10:00Z"):  # fmt: skip
        assert reader.at(moment).first == 10
    assert losses(reader.at("1970-01-01 05:29:59.5")) == [9]
    assert reader.part(10).begin.utcoffset() == datetime.timedelta(hours=5, minutes=30)
    with pytest.raises(InputError, match="M is cut by time: 'yesterday'"):
        reader.at("yesterday")


def test_subscripts_are_ints_in_order(m: PartsReader) -> None:
    with pytest.raises(InputError, match="subscripts, which are ints"):
        m.part(True)
    with pytest.raises(InputError, match=r"M\[12\.\.11\] names no part"):
        m.parts(12, 11)


def test_changed_since_names_the_parts_that_a_later_version_made_or_changed(
    written: PartDatabase, m: PartsReader
) -> None:
    made = written.snapshot.version
    assert [(each.first, each.last, each.version) for each in m.changed_since(0)] == [(10, 14, made)]
    written.write(M, {11: [row(660), row(661)]}, stamp=50_000_000)
    written.write(M, next=16)
    since = m.changed_since(made)
    assert [(each.first, each.last, each.version) for each in since] == [(11, 11, made + 1)]
    assert since[0].time == datetime.datetime(1970, 1, 1, 0, 0, 50, tzinfo=datetime.UTC)
    assert m.changed_since("1970-01-01 00:00:49") == since == m.changed_since(since[0].time.replace(second=49))
    assert m.changed_since(since[0].time) == []
    assert (m.last_updated(11), m.last_updated(13).version) == (since[0], made)
    assert (m.last_updated(13).first, m.last_updated(13).last) == (13, 13)


def test_a_held_version_has_the_part_as_it_was_before_a_repair(written: PartDatabase, m: PartsReader) -> None:
    held = Held(Newest(written.storage))
    old = PartsReader(held, "M")
    written.write(M, {11: [row(660, "c", 7), row(661, "d", 70)]})
    assert losses(old.part(11)) == [7]
    assert losses(m.part(11)) == [7, 70]
    held.close()


def test_rows_that_are_read_stay_those_of_their_version(written: PartDatabase, m: PartsReader) -> None:
    part = m.part(11)
    written.write(M, {11: [row(660, "c", 8)]})
    assert (losses(part), part.version) == ([7], 1)


@pytest.fixture
def view(written: PartDatabase) -> Iterator[PartsReader]:
    written.write(LOSSES, {10: [("a", 2)], 11: [("c", 1)]}, first=10, next=12)
    yield PartsReader(Newest(written.storage), "LOSSES")


def test_a_part_of_a_view_that_is_not_built_says_what_it_waits_for(written: PartDatabase, view: PartsReader) -> None:
    assert list(view.part(11)) == [{"src": "c", "n": 1}]
    with pytest.raises(NotReady, match=r"losses\[12\] is not built yet: part 12 is built next, and its sources are"):
        view.part(12)
    with pytest.raises(NotReady, match=r"losses\[16\] is not built yet: it waits for M\[16\], which is sealed up to"):
        view.part(16)


def test_subscripts_may_be_numpys(written: PartDatabase, view: PartsReader) -> None:
    assert list(view.part(np.int64(11))) == list(view.part(11))
    assert view.last_updated(np.int32(11)) == view.last_updated(11)
    for wrong in (11.0, "11", True, np.bool_(True), None):
        with pytest.raises(InputError, match="subscripts, which are ints; not"):
            view.part(wrong)  # type: ignore[arg-type]


def test_a_view_whose_sources_have_no_part_says_so(tmp_path: Path) -> None:
    reader = PartsReader(Newest(PartDatabase(tmp_path).storage), "losses")
    with pytest.raises(NotReady, match=r"losses\[3\] is not built yet: it waits for M, which has no part yet"):
        reader.part(3)


def test_a_stale_view_is_read_only_when_that_is_asked_for(written: PartDatabase, view: PartsReader) -> None:
    written.write(LOSSES, stale="DIVIDE_BY_ZERO at 1:8")
    for read in (lambda: view.part(11), lambda: view.to_arrow(), lambda: list(view.rows())):
        with pytest.raises(ViewBroken, match="losses is stale: DIVIDE_BY_ZERO at 1:8"):
            read()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len(view.part(11, allow_stale=True)) == 1
        assert view.to_arrow(allow_stale=True).num_rows == 2
    assert len(caught) == 2
    assert view.next == 12


def test_a_name_that_has_no_parts_is_refused(written: PartDatabase) -> None:
    with pytest.raises(NotFound, match="'hosts' is neither a stream nor a view over streams"):
        PartsReader(Newest(written.storage), "hosts")
    with pytest.raises(NotFound, match="'nobody' does not exist"):
        PartsReader(Newest(written.storage), "nobody")


def test_a_check_is_shown_what_readers_get_from_files_that_are_whole(written: PartDatabase, view: PartsReader) -> None:
    evidence = PartEvidence(Version(written.snapshot))
    assert (evidence.built(M), evidence.built(LOSSES)) == (range(10, 15), range(10, 12))
    assert evidence.with_rows(M, 10, 20) == [10, 11, 14]
    assert evidence.rows(M, 10, 11) == PartsReader(Newest(written.storage), "M").parts(10, 11).to_arrow()
    assert (evidence.first(LOSSES), evidence.updated(M, 12), evidence.recorded(M, 12)) == (10, 1, {})
    assert evidence.dimension(HOSTS, 3).num_rows == 0
    file = (written.storage.root / "state") / next(name for name in written.snapshot.files if name.endswith("parquet"))
    data = bytearray(file.read_bytes())
    data[8] ^= 1
    file.write_bytes(data)
    with pytest.raises(Damaged, match=file.name):
        PartEvidence(Version(written.snapshot)).rows(M, 10, 11)

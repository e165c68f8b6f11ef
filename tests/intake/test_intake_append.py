"""Appends: what is stored, where and what is rejected, against rows read from the files by Arrow alone."""

from __future__ import annotations

import datetime
from collections import Counter, namedtuple
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from stream_intake import NOW, UTC, Intake, at
from viewkeeper.catalog import types
from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import DOUBLE, INT, STRING, TIMESTAMP, TIMESTAMP_NTZ, Type
from viewkeeper.errors import InputError
from viewkeeper.streams.intake import writing as writing_module
from viewkeeper.streams.intake.stream_environment import Appended, Numbered


@pytest.fixture
def intake(tmp_path: Path) -> Intake:
    return Intake(tmp_path / "db")


POINT = namedtuple("POINT", "ts loss")


@pytest.mark.parametrize(
    "rows",
    [
        [{"ts": at(61), "loss": 1}, {"LOSS": None, "Ts": at(-1), "src": "x"}],
        [(at(61), None, 1, None), (at(-1), "x", None, None)],
        iter([{"ts": at(61), "loss": 1}, (at(-1), "x", None, None)]),
        pa.table({"loss": [1, None], "ts": [at(61), at(-1)], "src": [None, "x"]}),
        pa.record_batch({"loss": [1, None], "ts": [at(61), at(-1)], "src": [None, "x"]}),
        pa.table({"ts": [at(61), at(-1)], "loss": [1, None], "src": pa.array([None, "x"]).dictionary_encode()}),
        pa.table({"ts": [at(61), at(-1)], "loss": [1, None], "src": pa.array([None, "x"], pa.string_view())}),
        pd.DataFrame({"ts": [at(61), at(-1)], "loss": [1, None], "src": [None, "x"]}),
        pd.DataFrame({"ts": [at(61), at(-1)], "loss": pd.array([1, None], "Int64"), "src": [None, "x"]}),
        pd.DataFrame({"ts": pd.to_datetime([61, -1], unit="s"), "loss": [1, np.nan], "src": [np.nan, "x"]}),
    ],
)
def test_rows_of_any_form_are_stored_alike(intake: Intake, rows: object) -> None:
    """Dicts, tuples, Arrow and pandas give the same rows, missing columns are NULL, and times before 1970 are fine."""
    assert intake.append(rows) == Appended(2, 0, sequence=1)
    assert sorted(intake.stored(), key=lambda row: row["ts"]) == [
        {"ts": at(-1), "src": "x", "loss": None, "rtt": None, "__part": -1},
        {"ts": at(61), "src": None, "loss": 1, "rtt": None, "__part": 1},
    ]


def test_named_tuples_and_readers_are_rows_too(intake: Intake) -> None:
    """A named tuple goes by its names; a reader of batches is one append."""
    batches = [pa.record_batch({"ts": [at(n)], "loss": [n]}) for n in (120, 1, 60)]
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    assert intake.append([POINT(at(5), 7)]) == Appended(1, 0, sequence=1)
    assert intake.append(reader) == Appended(3, 0, sequence=2)
    assert intake.values("loss") == [7, 1, 60, 120]


def test_a_bad_row_is_rejected_alone(intake: Intake) -> None:
    """What a column cannot hold is rejected with its reason and row; the neighbours are stored."""
    good = {"ts": at(0), "loss": 1}
    bad = [{"ts": at(0), "loss": "many"}, {"ts": None, "loss": 2}, {"loss": 3}, {"ts": at(0), "loss": 2**31},
           {"ts": "yesterday"}, {"ts": 1420070400}, {"ts": at(0), "src": b"x"}, {"ts": at(0), "rtt": Decimal(1)},
           {"ts": float("nan")}, {"ts": pd.NaT}, {"ts": datetime.date(2015, 1, 1)},
           {"ts": at(0), "src": "\ud800"}]  # fmt: skip
    assert intake.append([good, *bad, good]) == Appended(2, len(bad), sequence=1)
    assert intake.values("loss") == [1, 1]
    reasons, rows = zip(*intake.rejected(), strict=True)
    for reason, expected in zip(reasons, ["'many' (str) is not an int", "ts is NULL, and a row needs its time",
                                          "ts is NULL, and a row needs its time", "2147483648 is outside",
                                          "'yesterday' (str)", "1420070400 (int)", "b'x' (bytes) is not a str",
                                          "Decimal('1') (Decimal) is not a float", "nan (float)", "NaT",
                                          "datetime.date(2015, 1, 1) (date)", "UTF-8"], strict=True):  # fmt: skip
        assert expected in reason
    assert rows[0] == {"ts": "1970-01-01T00:00:00+00:00", "src": None, "loss": "many", "rtt": None}


def test_bad_rows_of_a_large_table_are_rejected_alone(intake: Intake) -> None:
    """One bad value in 5,000 Arrow values costs its row only, also where the column's type is another."""
    texts = pa.array([str(n) for n in range(5000)])
    times = pa.array([n * 1_000_000_000 + (n == 4321) for n in range(5000)], pa.timestamp("ns"))
    table = pa.table({"ts": times, "loss": pa.array([2**40 if n in (7, 4000) else n for n in range(5000)])})
    assert intake.append(table) == Appended(4997, 3, sequence=1)
    assert [row["loss"] for _, row in intake.rejected()] == [2**40, 2**40, 4321]
    assert intake.append(table.set_column(1, "loss", texts)) == Appended(0, 5000, sequence=2)
    assert sorted(intake.values("loss")) == [n for n in range(5000) if n not in (7, 4000, 4321)]


def test_rejected_rows_can_be_appended_again(tmp_path: Path) -> None:
    """The row in a rejection, appended to a stream that takes it, is the row that was given."""
    names = ["ts", "d", "n", "b"]
    columns = tuple(map(Column, names, (TIMESTAMP, types.DATE, types.decimal(20, 3), types.BOOLEAN)))
    strict = Intake(tmp_path / "strict", (*columns, Column("x", INT, False)))
    strict.append([{"ts": at(1.5), "d": datetime.date(1, 1, 1), "n": Decimal("1.500"), "b": True}])
    ((_, row),) = strict.rejected()
    mild = Intake(tmp_path / "mild", (*columns, Column("x", INT)))
    mild.append([row])
    assert mild.stored() == [
        {"ts": at(1.5), "d": datetime.date(1, 1, 1), "n": Decimal("1.500"), "b": True, "x": None, "__part": 0}
    ]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([{"ts": at(0), "los": 1}], "did you mean loss"),
        ([{"ts": at(0)}] * 70_000 + [{"when": at(0)}], r"rows\[70000\]: m: no column 'when'"),
        (pa.table({"ts": [at(0)], "more": [1]}), "no column 'more'"),
        (pa.table({"ts": [at(0)], "TS": [at(0)]}), "given twice"),
        (pa.table({"loss": [1]}), "column ts is missing"),
        (pd.DataFrame({"ts": [at(0)], "x": [1]}), "no column 'x'"),
        ([(at(0), "a")], r"rows\[0\]: 2 values; the stream has 4 columns"),
        ([at(0)], "not datetime"),
        ({"ts": at(0)}, "not dict"),
        ("rows", "not str"),
        (7, "not int"),
    ],
)
def test_what_is_no_row_of_the_stream_is_refused_as_a_whole(intake: Intake, rows: object, problem: str) -> None:
    """Unknown, double and missing columns, and what are no rows, store nothing and leave no file."""
    with pytest.raises(InputError, match=problem):
        intake.append(rows)
    assert not intake.entries() and not intake.files()


def test_an_empty_append_leaves_no_entry(intake: Intake) -> None:
    """No rows: nothing stored, nothing in the log, no file; its id is known all the same."""
    empties = ([], pa.table({"ts": pa.array([], pa.timestamp("us"))}), pd.DataFrame({"ts": []}))
    for n, empty in enumerate(empties):
        assert intake.append(empty, str(n)) == Appended(0, 0)
    assert intake.append([{"ts": at(0)}], "0") == Appended(0, 0, duplicate=True)
    assert not intake.entries() and not intake.files()


def test_the_same_id_stores_once_also_after_trimming(intake: Intake) -> None:
    """An id that was used stores nothing and tells what the first append did, whatever rows it comes with."""
    rows = [{"ts": at(0)}, {"ts": None}]
    assert intake.append(rows, "one") == Appended(1, 1, False, 1)
    assert intake.append([], "one") == Appended(1, 1, True, 1)
    intake.log.trim(20, 1)
    assert intake.append(rows, "one") == Appended(1, 1, True, 1)
    assert intake.append(rows, "One") == Appended(1, 1, False, 2)
    assert intake.append(rows, "x" * 1000) == Appended(1, 1, False, 3)
    assert intake.append(rows, "x" * 1000) == Appended(1, 1, True, 3)
    with pytest.raises(InputError, match="id"):
        intake.append(rows, "")


def test_numbered_ids_only_go_up(intake: Intake) -> None:
    """Of a source that numbers its appends the last number is known, and none before it is stored again."""
    rows = [{"ts": at(0)}]
    assert [intake.append(rows, Numbered("s", n)).duplicate for n in (0, 0, 3, 2, 3, 4)] == [
        False, True, False, True, True, False,
    ]  # fmt: skip
    assert intake.append(rows, "s") == Appended(1, 0, False, 4)


def test_rows_too_far_ahead_or_behind_are_rejected(tmp_path: Path) -> None:
    """MAX AHEAD is measured from the wall clock, HORIZON from the watermark before the append; both ends are good."""
    intake = Intake(tmp_path, horizon=100, ahead=50)
    times = [NOW - 10**9, NOW + 50, NOW + 50.000001]
    assert intake.append([{"ts": at(t)} for t in times]) == Appended(2, 1, sequence=1)
    times = [NOW - 50, NOW - 50.000001, NOW + 10]
    assert intake.append([{"ts": at(t)} for t in times]) == Appended(2, 1, sequence=2)
    ahead, behind = (reason for reason, _ in intake.rejected())
    assert "later than the wall clock by more than MAX AHEAD, 50 seconds" in ahead
    assert "further behind the watermark, 2023-11-14 22:14:10 UTC, than HORIZON, 100 seconds" in behind


def test_rows_behind_what_is_kept_are_rejected(tmp_path: Path) -> None:
    """Without HORIZON rows are taken as far back as parts are kept."""
    intake = Intake(tmp_path, expire=100)
    intake.append([{"ts": at(1000)}])
    assert intake.append([{"ts": at(900)}, {"ts": at(899)}]) == Appended(1, 1, sequence=2)
    assert "than parts are kept, 100 seconds" in intake.rejected()[0][0]


ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]
naive = st.one_of(
    st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30)),
    st.datetimes(datetime.datetime(2015, 3, 1), datetime.datetime(2015, 11, 30)),
    st.sampled_from([datetime.datetime(2015, 3, 29, 2, 30), datetime.datetime(2015, 10, 25, 2, 30),
                     datetime.datetime(2060, 3, 28, 2, 30), datetime.datetime(2060, 7, 1)]),
)  # fmt: skip


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(naive, min_size=1, max_size=20), st.sampled_from(ZONES), st.sampled_from(["TIMESTAMP", "NTZ"]))
def test_naive_times_are_read_in_the_zone_of_the_database(
    tmp_path_factory: pytest.TempPathFactory, times: list[datetime.datetime], zone: str, kind: str
) -> None:
    """As Python objects, in Arrow, in pandas: a time without a zone lies in the part that Python's zone says."""
    type_ = TIMESTAMP if kind == "TIMESTAMP" else TIMESTAMP_NTZ
    intake = Intake(tmp_path_factory.mktemp("db"), (Column("ts", type_, False),), zone, length=1, ahead=10**12)
    utc = [(t.replace(tzinfo=ZoneInfo(zone)) - datetime.datetime(1970, 1, 1, tzinfo=UTC)) for t in times]
    seconds = [t // datetime.timedelta(seconds=1) for t in utc]
    forms = [[{"ts": t} for t in times], pa.table({"ts": pa.array(times, pa.timestamp("us"))}),
             pd.DataFrame({"ts": pd.Series(times, dtype="datetime64[us]")})]  # fmt: skip
    for rows in forms:
        assert intake.append(rows).rejected == 0
    assert Counter(intake.values("__part")) == Counter(seconds * 3)
    expected = times if kind == "NTZ" else [datetime.datetime(1970, 1, 1, tzinfo=UTC) + t for t in utc]
    assert Counter(intake.values("ts")) == Counter(expected * 3)
    intake.log.close()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo", "+01:30"])
def test_arrow_times_of_any_unit_and_zone(tmp_path: Path, unit: str, zone: str | None) -> None:
    """Whatever the unit, a time with a zone is its instant, and one without is read in the database's zone."""
    intake = Intake(tmp_path, zone="America/New_York")
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    intake.append(pa.table({"ts": pa.array([-1 * scale, 90 * scale], pa.timestamp(unit, zone))}))
    shift = 5 * 3600 if zone is None else 0
    assert sorted(intake.values("ts")) == [at(shift - 1), at(shift + 90)]
    assert sorted(intake.values("__part")) == [(shift - 1) // 60, (shift + 90) // 60]


def test_pandas_times_with_and_without_a_zone(tmp_path: Path) -> None:
    """A pandas column with a zone is taken as its instants, one without as local times, NaT is rejected."""
    intake = Intake(tmp_path, zone="Europe/Berlin")
    local = pd.to_datetime(["2015-07-01 12:00", None])
    assert intake.append(pd.DataFrame({"ts": local})) == Appended(1, 1, sequence=1)
    assert intake.append(pd.DataFrame({"ts": local.tz_localize("Asia/Tokyo")})) == Appended(1, 1, sequence=2)
    assert intake.values("ts") == [datetime.datetime(2015, 7, 1, hour, tzinfo=UTC) for hour in (10, 3)]


@pytest.mark.parametrize(
    ("values", "good"),
    [
        (pa.array([datetime.date(2015, 1, 1)]), 0),
        (pa.array(["2015-01-01 10:00", "1 Jan", "9999-12-31T23:59:59Z", "0001-01-01 00:00:00"]), 3),
        (pa.array([2**62, 0, -(2**62)]), 0),
        (pa.array([2**62, 0, -(2**62)], pa.timestamp("us")), 1),
        (pa.array([2**62, 0, -(2**63)], pa.timestamp("s", "UTC")), 1),
        (pa.array([2**62, 0], pa.timestamp("ns", "UTC")), 1),
        (pa.array([253402300799, 253402300800, -62135596800, -62135596801], pa.timestamp("s", "UTC")), 2),
        (pa.array([1.5, float("nan")]), 0),
        (pa.array([None, None]), 0),
        (pa.array([[1], [2]]), 0),
        (pa.array([1, 2], pa.duration("s")), 0),
        (pa.array([1, 2], pa.time32("s")), 0),
    ],
    ids=str,
)
def test_odd_times_are_taken_exactly_or_rejected(tmp_path: Path, values: pa.Array, good: int) -> None:
    """Dates, texts, numbers and times of years that do not exist: no time is guessed, and no error stops the rest."""
    intake = Intake(tmp_path, ahead=10**12)
    done = intake.append(pa.table({"ts": values}))
    assert (done.stored, done.rejected) == (good, len(values) - good)
    assert len(intake.rejected()) == done.rejected


anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.binary(max_size=5), st.decimals(),
    st.dates(), st.datetimes(), st.datetimes(timezones=st.just(UTC)), st.lists(st.integers(), max_size=2),
    st.complex_numbers(),
    st.sampled_from([np.int8(3), np.float32(2.5), np.datetime64("2015-01-01"), np.str_("x"), pd.NaT, pd.NA, object()]),
)  # fmt: skip
TYPES: list[Type] = [
    types.BIGINT, types.TINYINT, DOUBLE, types.FLOAT, STRING, types.BINARY, types.BOOLEAN, types.DATE,
    types.decimal(5, 2), types.decimal(30, 4),
]  # fmt: skip


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.tuples(anything, anything, anything), max_size=8), st.sampled_from(TYPES), st.booleans())
def test_no_value_stops_its_neighbours(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple], type_: Type, as_dicts: bool
) -> None:
    """Whatever objects rows hold, each row is stored or rejected, and what is stored alone is stored among others."""
    columns = (Column("ts", TIMESTAMP, False), Column("a", type_), Column("b", type_, False))
    intake = Intake(tmp_path_factory.mktemp("db"), columns, ahead=10**12)
    names = ["ts", "a", "b"]
    given_rows = [dict(zip(names, row, strict=True)) if as_dicts else row for row in rows]
    alone = sum(intake.append([row]).stored for row in given_rows)
    together = intake.append(given_rows)
    assert together.stored == alone and together.stored + together.rejected == len(rows)
    stored = intake.stored()
    assert len(stored) == 2 * alone and all(row["ts"] and row["b"] is not None for row in stored)
    intake.log.close()


def test_a_million_rows_over_a_thousand_parts(intake: Intake) -> None:
    """A large unsorted batch is laid out by part, rows of a part in the order in which they came."""
    random = np.random.default_rng(1)
    times = random.integers(-30_000 * 10**6, 30_000 * 10**6, 1_000_000)
    table = pa.table({"ts": pa.array(times).view(pa.timestamp("us", "UTC")), "loss": np.arange(1_000_000, dtype="i4")})
    assert intake.append(table) == Appended(1_000_000, 0, sequence=1)
    (entry,) = intake.entries()
    (file,) = entry.files
    order = np.argsort(times // 60_000_000, kind="stable")
    found = pq.read_table(intake.root / "state" / file.ref.name)
    assert found["loss"].to_numpy().tolist() == order.tolist()
    parts, rows = np.unique(times // 60_000_000, return_counts=True)
    assert (file.parts.tolist(), file.rows.tolist()) == (parts.tolist(), rows.tolist()) and len(parts) == 1000
    assert entry.greatest == times.max() == intake.log.watermark(20)


def test_a_long_append_lies_in_several_files_and_is_one_entry(intake: Intake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded by writing as rows come; still all of it is one step, with one watermark."""
    monkeypatch.setattr(writing_module, "FILE_ROWS", 100)
    batches = (pa.record_batch({"ts": [at(n * 60)] * 30, "loss": [n] * 30}) for n in reversed(range(20)))
    schema = pa.schema({"ts": pa.timestamp("us", "UTC"), "loss": pa.int64()})
    assert intake.append(pa.RecordBatchReader.from_batches(schema, batches)) == Appended(600, 0, sequence=1)
    (entry,) = intake.entries()
    assert len(entry.files) == 5 and intake.files() == intake.named()
    assert Counter(intake.values("__part")) == dict.fromkeys(range(20), 30)


def test_many_rejected_rows_get_a_file_that_goes_with_their_entry(intake: Intake) -> None:
    """Rejected rows too many for an entry are read back from a file, and trimming deletes it."""
    assert intake.append([{"ts": None, "src": "x" * 1000}] * 3000) == Appended(0, 3000, sequence=1)
    assert len(intake.rejected()) == 3000
    assert len(list((intake.root / "streams").glob("rejected-*"))) == 1
    intake.log.trim(20, 1)
    assert not list((intake.root / "streams").glob("rejected-*"))

"""Local times to UTC and back: as Python's zones have it in every year, and as Spark does."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewkeeper
from drawn import examples
from viewkeeper.catalog.time_zones import limits, start_of_day, to_local, to_utc
from viewkeeper.catalog.types import DATE, TIMESTAMP
from viewkeeper.checker.value_rules import convert
from viewkeeper.compiler.literals import convert as constant

EPOCH, MICROSECOND = dt.datetime(1970, 1, 1), dt.timedelta(microseconds=1)
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Casablanca",
         "Pacific/Apia", "America/Sao_Paulo", "America/Toronto", "Europe/Dublin", "Africa/Monrovia", "Antarctica/Troll",
         "America/Scoresbysund", "Etc/GMT-14", "Asia/Kathmandu", "UTC"]  # fmt: skip
YEARS = (1, 1582, 1883, 1893, 1900, 1919, 1970, 2011, 2037, 2038, 2050, 2087, 2088, 2099, 2100, 2101, 2400, 2500, 9998,
         9999)  # fmt: skip


def microseconds(local: dt.datetime) -> int:
    return (local.replace(tzinfo=None) - EPOCH) // MICROSECOND


def moments(seed: int) -> list[dt.datetime]:
    """Every half hour around the ends of the weeks in which clocks change, and others, of some years."""
    chosen = random.Random(seed)
    found = [dt.datetime.min, dt.datetime.max, dt.datetime(1919, 3, 31), dt.datetime(2011, 12, 30)]
    for year in YEARS:
        start = dt.datetime(year, 1, 1)
        found += [start + dt.timedelta(minutes=30 * chosen.randrange(48 * 365)) for _ in range(40)]
        for month in (3, 4, 9, 10, 11):
            first = dt.datetime(year, month, 1)
            sunday = first + dt.timedelta(days=(6 - first.weekday()) % 7 + 7 * chosen.randrange(4))
            found += [sunday + dt.timedelta(minutes=30 * half) for half in range(7)]
    return found


@pytest.mark.parametrize("zone", ZONES)
def test_local_times_are_read_and_shown_as_the_zones_clocks_go_in_all_years(zone: str) -> None:
    """As Python's zones have it (fold 0), which know the rules behind the last listed change."""
    local = moments(len(zone))
    in_zone = ZoneInfo(zone)
    offsets = [in_zone.utcoffset(moment) for moment in local]
    expected = [microseconds(moment) - offset // MICROSECOND for moment, offset in zip(local, offsets, strict=True)]
    got = to_utc(np.array(list(map(microseconds, local))), zone)
    assert got.tolist() == expected
    inside = [n for n in expected if limits(zone)[0] <= n <= limits(zone)[1]]
    shown = [microseconds((EPOCH.replace(tzinfo=dt.UTC) + n * MICROSECOND).astimezone(in_zone)) for n in inside]
    assert to_local(np.array(inside), zone).tolist() == shown


def test_every_zone_is_read_as_its_clocks_go() -> None:
    """All zones, at random moments of 8,000 years and at the changes that they list."""
    chosen = random.Random(7)
    for zone in sorted(available_timezones()):
        in_zone = ZoneInfo(zone)
        local = [EPOCH + dt.timedelta(seconds=chosen.randrange(-5_364_662_400, 253_370_764_800)) for _ in range(20)]
        local += [EPOCH + dt.timedelta(seconds=chosen.randrange(-5_364_662_400, 4_133_980_800)) for _ in range(60)]
        got = to_utc(np.array(list(map(microseconds, local))), zone)
        expected = [microseconds(moment) - in_zone.utcoffset(moment) // MICROSECOND for moment in local]
        assert got.tolist() == expected, zone


@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from(ZONES), st.dates(dt.date(2, 1, 1), dt.date(9999, 12, 30)))
def test_a_day_begins_at_its_first_moment_for_columns_constants_and_the_check_alike(zone: str, day: dt.date) -> None:
    midnight = microseconds(dt.datetime(day.year, day.month, day.day))
    (begin,) = start_of_day(np.array([midnight]), zone).tolist()
    moment = EPOCH.replace(tzinfo=dt.UTC) + begin * MICROSECOND
    assert moment == convert(day, DATE, TIMESTAMP, zone, None) == constant(day, DATE, TIMESTAMP, zone)
    assert moment.astimezone(ZoneInfo(zone)).date() == day or zone == "Pacific/Apia"


@pytest.mark.parametrize(
    ("zone", "day", "begin"),
    [
        ("America/Toronto", dt.date(1919, 3, 31), dt.datetime(1919, 3, 31, 4, 30)),  # midnight is in the gap's middle
        ("America/Sao_Paulo", dt.date(2018, 11, 4), dt.datetime(2018, 11, 4, 3)),
        ("Pacific/Apia", dt.date(2011, 12, 30), dt.datetime(2011, 12, 30, 10)),  # a day that was not
    ],
)
def test_a_day_whose_midnight_was_skipped_begins_where_the_gap_ends(
    zone: str, day: dt.date, begin: dt.datetime
) -> None:
    begin = begin.replace(tzinfo=dt.UTC)
    assert convert(day, DATE, TIMESTAMP, zone, None) == constant(day, DATE, TIMESTAMP, zone) == begin
    midnight = microseconds(dt.datetime(day.year, day.month, day.day))
    assert start_of_day(np.array([midnight]), zone).tolist() == [microseconds(begin)]


@pytest.mark.spark
def test_views_and_pandas_show_summer_times_after_2037(spark, tmp_path: Path) -> None:
    """DATE and TIMESTAMP_NTZ to TIMESTAMP in a zone with daylight saving time, in a view and in a SELECT."""
    with viewkeeper.connect(tmp_path / "db", zone="Europe/Berlin") as db:
        db.sql("CREATE TABLE t (id INT, d DATE, n TIMESTAMP_NTZ, ts TIMESTAMP, PRIMARY KEY (id))")
        years = (2037, 2038, 2050, 9998)
        db.table("t").put_many([{"id": y, "d": f"{y}-07-01", "n": f"{y}-07-01 12:00", "ts": None} for y in years])
        db.catch_up()
        answer = db.sql("SELECT id, coalesce(ts, d) AS a, coalesce(ts, n) AS b FROM t")
    zone = ZoneInfo("Europe/Berlin")
    expected = {y: (dt.datetime(y, 7, 1, tzinfo=zone), dt.datetime(y, 7, 1, 12, tzinfo=zone)) for y in years}
    assert {row["id"]: (row["a"], row["b"]) for row in answer} == expected
    frame = answer.to_pandas().set_index("id")
    assert {y: (frame.a.dt.hour[y], frame.b.dt.hour[y]) for y in years} == dict.fromkeys(years, (0, 12))


@pytest.mark.spark
def test_local_times_and_days_become_the_moments_that_spark_gives(spark) -> None:
    """Casts of TIMESTAMP_NTZ and DATE in many zones; Java has the same rules, wherever both have the same data."""
    local = moments(3)
    days = [dt.date(y, 7, 1) for y in YEARS] + [dt.date(2018, 11, 4), dt.date(1919, 3, 31), dt.date(2011, 12, 30)]
    for name, values, type_ in (("n", local, "TIMESTAMP_NTZ"), ("d", days, "DATE")):
        table = pa.table({"i": pa.array(range(len(values))), name: pa.array(values)})
        frame = spark.createDataFrame(table, f"i BIGINT, {name} {type_}")
        frame.coalesce(1).createOrReplaceTempView(name)
    try:
        for zone in ZONES:
            spark.conf.set("spark.sql.session.timeZone", zone)
            sql = "SELECT unix_micros(CAST({0} AS TIMESTAMP)) AS v FROM {0} ORDER BY i"
            found = [[row.v for row in spark.sql(sql.format(name)).collect()] for name in ("n", "d")]
            assert to_utc(np.array(list(map(microseconds, local))), zone).tolist() == found[0], zone
            midnights = [microseconds(dt.datetime(d.year, d.month, d.day)) for d in days]
            assert start_of_day(np.array(midnights), zone).tolist() == found[1], zone
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

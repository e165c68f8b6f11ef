"""Views are read by key, by range and as a whole, at the newest version or at one that is held."""

from __future__ import annotations

import datetime
import math
import threading
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from viewkeeper.catalog.model import ERRORS, Column, Index, View
from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    decimal,
)  # fmt: skip
from viewkeeper.changes.positions import Token
from viewkeeper.errors import InputError, NotFound, NotReady, Timeout, ViewBroken
from viewkeeper.views.reader import ViewReader
from viewkeeper.views.version_sources import Held, Newest
from written import Written, physical, stored_as

SPEND = (Column("total", decimal(25, 2)), Column("Customer", BIGINT), Column("n", BIGINT, False))
SPEND_STATE = stored_as("keyed", 20, SPEND, [1])
BAG = (Column("a", INT), Column("b", STRING), Column("x", DOUBLE))
BAG_STATE = stored_as("weighted", 21, BAG, [0, 1, 2])


def spend_view(filled: int | None = 0, reads: tuple[int, ...] = ()) -> View:
    return View(30, "Spend", "SELECT ...", SPEND, (1,), True, reads, SPEND_STATE, filled)


def bag_view() -> View:
    return View(31, "bag", "SELECT ...", BAG, (0, 1, 2), False, (), BAG_STATE, 0)


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path / "db")


@pytest.fixture
def spend(written: Written) -> ViewReader:
    written.declare(spend_view(), bag_view())
    write_spend(written, (Decimal("19.90"), 7, 1), (None, None, 2), (Decimal("-5.00"), 3, 4))
    return ViewReader(Newest(written.storage), "spend")


def write_spend(written: Written, *rows: tuple[Any, ...], positions: dict[int, int] | None = None) -> None:
    written.write(written.rows_of(SPEND_STATE, SPEND, rows), positions=positions)


def test_get_gives_the_row_of_a_key_as_a_dict_in_declared_order(spend: ViewReader) -> None:
    row = spend.get(7)
    assert row == {"total": Decimal("19.90"), "Customer": 7, "n": 1}
    assert list(row) == ["total", "Customer", "n"]
    assert spend.get((7,)) == row


def test_null_is_a_key_like_any_other_and_an_absent_key_has_no_row(spend: ViewReader) -> None:
    assert spend.get(None) == {"total": None, "Customer": None, "n": 2}
    assert spend.get(8) is None


def test_a_key_that_does_not_fit_is_refused_by_name(spend: ViewReader) -> None:
    with pytest.raises(InputError, match=r"Spend is read by \(Customer BIGINT\)"):
        spend.get((1, 2))
    with pytest.raises(InputError, match=r"Spend.Customer \(BIGINT\).*'7'"):
        spend.get("7")


def test_get_sees_each_commit_at_once(written: Written, spend: ViewReader) -> None:
    for n in range(5):
        write_spend(written, (Decimal(n), 7, n))
        assert spend.get(7)["n"] == n


def test_a_bag_gives_a_list_with_equal_rows_repeated(written: Written, spend: ViewReader) -> None:
    written.write(written.rows_of(BAG_STATE, BAG, [(1, "é", math.nan), (1, "é", -0.0)], [3, 1]))
    bag = ViewReader(Newest(written.storage), "BAG")
    assert [row["b"] for row in bag.get((1, "é", math.nan))] == ["é"] * 3
    assert len(bag.get((1, "é", 0.0))) == 1
    assert bag.get((2, "é", 0.0)) == []
    assert len(list(bag.rows())) == 4 == bag.to_arrow().num_rows == len(bag.to_pandas())


def test_members_of_one_family_do_not_see_each_others_rows(written: Written) -> None:
    states = {member: stored_as("weighted", 22, BAG, [0, 1, 2], member) for member in (1, 2)}
    written.declare(*(View(40 + m, f"m{m}", "", BAG, (0, 1, 2), False, (), s, 0) for m, s in states.items()))
    parts = [
        written.rows_of(stored, BAG, [(5, "both", 1.0), (member, "own", 1.0)]) for member, stored in states.items()
    ]
    for part in parts:
        written.write(part)
    for member in states:
        reader = ViewReader(Newest(written.storage), f"m{member}")
        assert sorted(row["a"] for row in reader.rows()) == sorted([5, member])
        assert len(reader.get((5, "both", 1.0))) == 1
        assert reader.get((3 - member, "own", 1.0)) == []


def test_an_index_gives_all_rows_of_its_columns(written: Written, spend: ViewReader) -> None:
    by_n = stored_as("weighted", 23, SPEND, [2])
    written.declare(Index(50, "by_n", 30, (2,), by_n, 0), Index(51, "by_total", 30, (0,), by_n, None))
    written.write(written.rows_of(by_n, SPEND, [(Decimal(1), 1, 9), (Decimal(2), 2, 9), (Decimal(3), 3, 8)]))
    assert sorted(row["Customer"] for row in spend.get(9, index="BY_N")) == [1, 2]
    assert spend.get(7, index="by_n") == []
    with pytest.raises(NotReady, match="by_total"):
        spend.get(Decimal(1), index="by_total")
    with pytest.raises(NotFound, match=r"Spend has no index 'by_x'; it has: by_n, by_total"):
        spend.get(1, index="by_x")


def test_scan_gives_key_order_between_its_bounds(written: Written, spend: ViewReader) -> None:
    assert [row["Customer"] for row in spend.scan()] == [None, 3, 7]
    assert [row["Customer"] for row in spend.scan(3, 7)] == [3]
    assert [row["Customer"] for row in spend.scan(None, 7)] == [None, 3]
    rows = [(a, b, x) for a in (1, 2, None) for b in ("a", "b") for x in (math.nan, 1.0)]
    written.write(written.rows_of(BAG_STATE, BAG, rows))
    bag = ViewReader(Newest(written.storage), "bag")
    keys = [(row["a"], row["b"], row["x"]) for row in bag.scan((1, "b"), (2, "b"))]
    assert [key[:2] for key in keys] == [(1, "b"), (1, "b"), (2, "a"), (2, "a")]
    assert [key[2] for key in keys[::2]] == [1.0, 1.0]
    with pytest.raises(InputError, match="does not fit"):
        list(spend.scan((1, 2)))


def test_every_type_comes_as_the_value_that_a_user_expects(written: Written) -> None:
    values = {
        BOOLEAN: True, INT: -3, DOUBLE: 1.5, STRING: "ü", BINARY: b"\0", DATE: datetime.date(1969, 12, 31),
        decimal(5, 2): Decimal("1.20"), decimal(30, 3): Decimal("-1.200"),
        TIMESTAMP: datetime.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=datetime.UTC),
        TIMESTAMP_NTZ: datetime.datetime(1900, 1, 1, 0, 0, 0, 1),
    }  # fmt: skip
    columns = tuple(Column(f"c{i}", type_) for i, type_ in enumerate(values))
    stored = stored_as("keyed", 24, columns, range(len(columns)))
    written.declare(View(41, "all", "", columns, tuple(range(len(columns))), True, (), stored, 0))
    written.write(written.rows_of(stored, columns, [tuple(values.values())]))
    reader = ViewReader(Newest(written.storage), "all")
    expected = dict(zip((column.name for column in columns), values.values(), strict=True))
    row = reader.get(tuple(values.values()))
    assert row == expected
    assert [type(value) for value in row.values()] == [type(value) for value in values.values()]
    assert list(reader.rows()) == [expected]


def test_a_view_that_is_being_filled_or_does_not_exist_says_so(written: Written) -> None:
    written.declare(spend_view(filled=None))
    with pytest.raises(NotReady, match="Spend"):
        ViewReader(Newest(written.storage), "spend").get(7)
    with pytest.raises(NotFound, match="'spent'"):
        ViewReader(Newest(written.storage), "spent").get(7)


def test_an_error_row_breaks_the_view_and_those_above_it_until_it_goes(written: Written, spend: ViewReader) -> None:
    written.declare(View(32, "above", "", SPEND, (1,), True, (30,), SPEND_STATE, 0))
    above, bag = (ViewReader(Newest(written.storage), name) for name in ("above", "bag"))
    error = [(30, "ARITHMETIC_OVERFLOW", "line 1, column 8", "orders id=1")]
    written.write((ERRORS, physical(ERRORS.columns, error, [1])))
    for reader in (spend, above):
        with pytest.raises(ViewBroken, match="ARITHMETIC_OVERFLOW at line 1, column 8 for orders id=1"):
            reader.get(7)
        with pytest.raises(ViewBroken):
            list(reader.rows())
        with pytest.warns(UserWarning, match="ARITHMETIC_OVERFLOW"):
            assert reader.get(7, allow_stale=True)["n"] == 1
        with pytest.warns(UserWarning, match="ARITHMETIC_OVERFLOW"):
            assert reader.to_arrow(allow_stale=True).num_rows == 3
    assert bag.get((1, "", 0.0)) == []
    written.write((ERRORS, physical(ERRORS.columns, error, [-1])))
    assert spend.get(7) == above.get(7) is not None


def test_a_read_after_a_write_waits_for_it(written: Written, spend: ViewReader) -> None:
    token = Token({0: 5, 1: 2})
    with pytest.raises(Timeout, match=r"node 0 at 0 of 5, node 1 at 0 of 2"):
        spend.get(7, after=token, timeout=0.02)

    def commit_later() -> None:
        time.sleep(0.05)
        write_spend(written, (Decimal(1), 7, 100), positions={0: 5, 1: 9})

    committer = threading.Thread(target=commit_later)
    committer.start()
    assert spend.get(7, after=str(token), timeout=10.0)["n"] == 100
    committer.join()


def test_a_read_after_a_write_waits_for_the_fill_too(written: Written) -> None:
    written.declare(spend_view(filled=None))
    reader = ViewReader(Newest(written.storage), "spend")
    with pytest.raises(NotReady):
        reader.get(7, after=Token(), timeout=0.02)

    def fill_later() -> None:
        time.sleep(0.05)
        written.drop()
        written.declare(spend_view())

    filler = threading.Thread(target=fill_later)
    filler.start()
    assert reader.get(7, after=Token(), timeout=30.0) is None
    filler.join()


def test_a_held_version_stays_as_it_is(written: Written, spend: ViewReader) -> None:
    held = Held(Newest(written.storage))
    reader = ViewReader(held, "spend")
    assert written.storage.held() == {written.snapshot.number}
    write_spend(written, (Decimal(0), 7, 50), positions={0: 1})
    assert (reader.get(7)["n"], spend.get(7)["n"]) == (1, 50)
    assert [row["n"] for row in reader.scan(7)] == [1]
    with pytest.raises(Timeout, match="a snapshot stays as it is"):
        reader.get(7, after=Token({0: 1}))
    held.close()
    assert written.storage.held() == set()


def test_a_scan_holds_its_version_until_it_ends(written: Written, spend: ViewReader) -> None:
    rows = spend.rows()
    next(rows)
    assert written.storage.held() == {written.snapshot.number}
    rows.close()
    assert written.storage.held() == set()

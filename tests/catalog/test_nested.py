"""Arrays, structs and maps as bytes: each value has one form, and comes back as it was."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from viewkeeper.catalog.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    array_of,
    decimal,
    logical_type,
    map_of,
    struct_of,
    to_logical,
    to_physical,
    type_of,
)  # fmt: skip
from viewkeeper.stores.columns import BadValue, ColumnIntake

MOMENT = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
INNER = map_of(DATE, array_of(BINARY))
CASES: list[tuple[Type, list[Any]]] = [
    (array_of(INT), [[1, 2], None, [], [None], [None, 3]]),
    (array_of(STRING), [["a", "bcd"], None, [], [None, ""]]),
    (array_of(array_of(BOOLEAN)), [[[True], None, []], [[None, False]], None]),
    (array_of(decimal(10, 2)), [[None], [Decimal("-1.25")], None]),
    (array_of(decimal(30, 2)), [[None, Decimal("-1.25")], None]),
    (struct_of([("a", INT), ("b", STRING)]), [{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
    (struct_of([("a b", INT)]), [{"a b": 1}, None]),
    (map_of(STRING, INT), [[("a", None), ("b", 1)], None, []]),
    (map_of(array_of(INT), array_of(STRING)), [[([1], ["x", None])], None]),
    (
        array_of(struct_of([("t", TIMESTAMP), ("m", INNER)])),
        [[{"t": MOMENT, "m": [(MOMENT.date(), [b"x"])]}, None], []],
    ),
]


@pytest.mark.parametrize("type_, values", CASES)
def test_values_come_back_as_they_were(type_: Type, values: list[Any]) -> None:
    """From slices and of no rows too; the bytes are the same whatever array they stood in."""
    given = pa.array(values, logical_type(type_))
    assert type_of(given.type) == type_
    bytes_ = to_physical(given, type_)
    for start in range(len(values) + 1):
        part = to_logical(bytes_.slice(start), type_)
        part.validate(full=True)
        assert part.to_pylist() == given.to_pylist()[start:]
        assert to_physical(given.slice(start), type_).equals(bytes_.slice(start))
        assert to_physical(part, type_).equals(bytes_.slice(start))


def test_a_value_has_one_form() -> None:
    """Both zeros and every NaN are one value, and a map's entries have no order."""
    floats = pa.array([[0.0, math.nan], [-0.0, -math.nan]], pa.list_(pa.float64()))
    assert len(to_physical(floats, array_of(DOUBLE)).unique()) == 1
    maps = pa.array([[(256, "a"), (1, None)], [(1, None), (256, "a")]], pa.map_(pa.int32(), pa.string()))
    assert len(to_physical(maps, map_of(INT, STRING)).unique()) == 1


def test_what_python_gives_is_taken_and_what_does_not_fit_is_refused_by_place() -> None:
    """Lists, tuples, dicts in any order of their keys; the reason names the way to the value."""
    intake = ColumnIntake(struct_of([("k", array_of(INT)), ("m", map_of(STRING, DATE))]), "UTC")
    taken = intake.from_values(
        [{"M": {"b": None, "a": "2024-02-29"}, "k": (1, None)}, ([1, None], {"a": MOMENT.date()})]
    )
    assert to_logical(taken, intake.type).to_pylist() == [
        {"k": [1, None], "m": [("a", datetime.date(2024, 2, 29)), ("b", None)]},
        {"k": [1, None], "m": [("a", MOMENT.date())]},
    ]
    for value, reason in [
        ({"k": [1, "x"]}, r"field k: element 1: 'x' \(str\)"), ({"k": 1}, "field k: 1 .* is not a list"),
        ({"other": 1}, "of the fields k, m"), ([1], "of 2 fields"), ("k", "is not a dict"),
        ({"m": {"a": 1}}, "field m: value of 'a': 1"), ({"m": {None: None}}, "a key is None"),
        ({"m": [("a", None), ("a", None)]}, "the key 'a' is there twice"),
    ]:  # fmt: skip
        with pytest.raises(BadValue, match=reason) as refused:
            intake.from_values([None, value])
        assert refused.value.row == 1

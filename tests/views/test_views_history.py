"""At every version, also at one that is held, a view reads as a plain dictionary fed with the same rows."""

from __future__ import annotations

import math
import struct
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from viewkeeper.catalog.model import Column, View
from viewkeeper.catalog.types import BIGINT, DOUBLE, STRING
from viewkeeper.views.reader import ViewReader
from viewkeeper.views.version_sources import Held, Newest
from written import Written, stored_as

COLUMNS = (Column("a", BIGINT), Column("x", DOUBLE), Column("s", STRING))
KEYED = stored_as("keyed", 20, COLUMNS, [1, 0])
BAG = stored_as("weighted", 21, COLUMNS, [0, 1, 2])
VIEWS = (
    View(30, "keyed", "", COLUMNS, (1, 0), True, (), KEYED, 0),
    View(31, "bag", "", COLUMNS, (0, 1, 2), False, (), BAG, 0),
)

Row = tuple[Any, ...]
rows = st.tuples(st.none() | st.integers(-1, 1), st.sampled_from([None, 0.0, 1.5, math.nan]), st.sampled_from("aé"))


def same(value: Any) -> Any:
    """What makes NaN equal to itself."""
    return struct.pack("d", value) if isinstance(value, float) else value


def identity(row: Row) -> Row:
    return tuple(map(same, row))


def shown(found: list[dict[str, Any]]) -> Counter[Row]:
    return Counter(identity(tuple(row.values())) for row in found)


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.tuples(st.lists(rows, max_size=6), st.lists(rows, max_size=4), st.booleans()), max_size=5))
def test_reads_agree_with_a_dictionary_at_every_version(history: list[tuple[list[Row], list[Row], bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written = Written(Path(folder) / "db")
        written.declare(*VIEWS)
        newest = Newest(written.storage)
        keyed: dict[Row, Row] = {}
        bag: Counter[Row] = Counter()
        held: list[tuple[Held, dict[Row, Row], Counter[Row]]] = []
        for puts, adds, hold in history:
            latest = {identity((row[1], row[0])): row for row in puts}
            keyed.update(latest)
            bag.update(adds)
            written.write(written.rows_of(KEYED, COLUMNS, list(latest.values())), written.rows_of(BAG, COLUMNS, adds))
            agree(newest, keyed, bag)
            if hold:
                held.append((Held(newest), dict(keyed), bag.copy()))
        for source, then_keyed, then_bag in held:
            agree(source, then_keyed, then_bag)
            source.close()


def agree(source: Any, keyed: dict[Row, Row], bag: Counter[Row]) -> None:
    by_key, as_bag = ViewReader(source, "keyed"), ViewReader(source, "bag")
    for a in (None, -1, 0, 1):
        for x in (None, 0.0, -0.0, 1.5, math.nan):
            expected = keyed.get(identity((x + 0.0 if x is not None else None, a)))
            found = by_key.get((x, a))
            assert (found and identity(tuple(found.values()))) == (expected and identity(expected))
    whole = Counter({identity(row): weight for row, weight in bag.items()})
    for row, weight in bag.items():
        assert shown(as_bag.get(row)) == Counter({identity(row): weight})
    assert shown(list(as_bag.rows())) == whole == shown(as_bag.to_arrow().to_pylist()) == shown(list(as_bag.scan()))
    assert shown(list(by_key.rows())) == Counter(map(identity, keyed.values()))

"""What entries of a stream's log do to the stream, against a model that looks at each part and row anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viewkeeper.catalog.model import Column, Stream
from viewkeeper.catalog.types import TIMESTAMP
from viewkeeper.streams.intake.entries import REJECTS, Append, EnteredFile, Entry, Seal, rejects
from viewkeeper.streams.intake.taking import TakenEntries, advance, idle_seal
from viewkeeper.streams.progress import StreamProgress
from viewkeeper.trace.receipt import FileRef

SECOND = 1_000_000
PARTS = range(-40, 40)


def stream(length: int = 10, lateness: int = 0, idle: int | None = None) -> Stream:
    return Stream(20, "m", (Column("ts", TIMESTAMP, False),), 0, length, lateness, idle=idle)


def appended(sequence: int, times: list[int], length: int, rejected: int = 0) -> Append:
    """An append of rows with `times` (seconds), in two files where they are many."""
    files = []
    for n, some in enumerate((times[:3], times[3:])):
        if some:
            parts, rows = np.unique(np.array(some) // length, return_counts=True)
            ref = FileRef(f"{sequence}-{n}", 1, 1)
            files.append(EnteredFile(ref, parts, rows, min(some) * SECOND, max(some) * SECOND))
    bad = rejects([("bad", b"{}")] * rejected) if rejected else REJECTS.empty_table()
    return Append(sequence, 7, tuple(files), bad)


@dataclass
class Model:
    """Which parts are sealed by the words of the definition, and how many rows each has."""

    length: int
    lateness: int
    times: list[int] = field(default_factory=list)
    by_hand: list[int] = field(default_factory=list)

    def do(self, action: list[int] | int) -> None:
        if isinstance(action, int):
            self.by_hand.append(action)
        else:
            self.times += action

    def is_sealed(self, part: int) -> bool:
        """Whether a row lies far enough behind the part's end, or a call named it or a later one."""
        return any(time >= (part + 1) * self.length + self.lateness for time in self.times) or any(
            part <= upto for upto in self.by_hand
        )

    def exists(self, part: int) -> bool:
        return self.is_sealed(part) and any(time // self.length <= part for time in self.times)

    def rows(self, part: int) -> int:
        return sum(part * self.length <= time < (part + 1) * self.length for time in self.times)


actions = st.one_of(
    st.lists(st.integers(-300, 300), max_size=6), st.lists(st.integers(-15, 15), max_size=6), st.integers(-30, 30)
)


def piece_rows(pieces: dict, part: int) -> int:
    return sum(piece.rows for piece in pieces.get(part, ()))


def check(taken: TakenEntries, before: Model, after: Model, had: dict[int, int]) -> None:
    """`had` counts the rows in pieces so far, by part."""
    exist_before = [part for part in PARTS if before.exists(part)]
    exist = [part for part in PARTS if after.exists(part)]
    first, next_ = taken.progress.first, taken.progress.next
    assert exist == ([part for part in PARTS if first <= part < next_] if next_ is not None else [])
    came = set(exist) - set(exist_before)
    earlier = {part for part in came if exist_before and part < exist_before[0]}
    assert [part for part in taken.sealed if part in PARTS] == sorted(came - earlier)
    for part in PARTS:
        new, late = piece_rows(taken.pieces, part), piece_rows(taken.late, part)
        assert had.get(part, 0) + new + late == after.rows(part)
        assert not late or (part in exist_before or part in earlier)
        assert not new or part not in set(exist_before) | earlier
        had[part] = after.rows(part)
    assert taken.progress.watermark == (max(after.times) * SECOND if after.times else None)
    assert taken.progress.first == min((time // after.length for time in after.times), default=None)


@settings(deadline=None)
@given(st.lists(actions, max_size=12), st.sampled_from([7, 10, 60]), st.integers(0, 30), st.data())
def test_any_entries_taken_in_any_steps_do_what_the_definition_says(
    done: list[list[int] | int], length: int, lateness: int, data: st.DataObject
) -> None:
    """However entries are split into steps, the parts that exist, their rows and the watermark are the definition's."""
    stream_ = stream(length, lateness)
    log: list[Entry] = [
        Seal(n, 7, action, "by hand") if isinstance(action, int) else appended(n, action, length)
        for n, action in enumerate(done, 1)
    ]
    cuts = sorted({0, len(log), *data.draw(st.lists(st.integers(0, len(log)), max_size=4))})
    progress, had = StreamProgress(), dict[int, int]()
    for low, high in pairwise(cuts):
        before, after = Model(length, lateness), Model(length, lateness)
        for n, action in enumerate(done[:high]):
            after.do(action)
            if n < low:
                before.do(action)
        taken = advance(stream_, progress, log[low:high])
        check(taken, before, after, had)
        progress = StreamProgress.from_dict(taken.progress.to_dict())
        assert progress == taken.progress
        assert progress.position == high


@settings(deadline=None)
@given(st.lists(st.integers(-500, 500), min_size=1, max_size=30), st.data())
def test_splits_and_orders_of_the_same_rows_give_the_same_parts(times: list[int], data: st.DataObject) -> None:
    """The same rows in any order, split into any appends, give the same parts with as many rows each."""
    shuffled = data.draw(st.permutations(times))
    cuts = sorted({0, len(times), *data.draw(st.lists(st.integers(0, len(times)), max_size=5))})
    log = [appended(n, shuffled[low:high], 10) for n, (low, high) in enumerate(pairwise(cuts), 1)]
    whole = advance(stream(), StreamProgress(), [appended(1, times, 10)])
    split = advance(stream(), StreamProgress(), log)
    assert {p: piece_rows(split.pieces, p) for p in split.pieces} == {
        p: piece_rows(whole.pieces, p) for p in whole.pieces
    }
    assert split.sealed == whole.sealed
    assert not whole.late_rows and not whole.late and not split.late


def test_rows_of_one_append_are_never_late_against_each_other() -> None:
    """An append that seals parts and has rows in them has no late row; the same rows one by one have."""
    assert advance(stream(), StreamProgress(), [appended(1, [100, 5], 10)]).late_rows == 0
    assert advance(stream(), StreamProgress(), [appended(1, [100], 10), appended(2, [5], 10)]).late_rows == 1


def test_parts_sealed_before_any_row_exist_from_the_first_row_on() -> None:
    """A seal of an empty stream makes no part; the first row does, and rows of what was sealed are in sealed parts."""
    sealed = advance(stream(), StreamProgress(), [Seal(1, 7, 4, "by hand")])
    assert sealed.progress.next is None and not sealed.sealed
    taken = advance(stream(), sealed.progress, [appended(2, [25], 10)])
    assert taken.sealed == range(2, 5) and list(taken.pieces) == [2]


def test_rejected_rows_become_rows_of_the_rejected_state() -> None:
    """Each rejected row is listed under its stream and the sequence of its entry."""
    taken = advance(stream(), StreamProgress(), [appended(1, [], 10), appended(2, [3], 10, rejected=2)])
    assert [column.to_pylist() for column in taken.rejected.columns] == [
        [20, 20], [-1, -1], [2, 2], [7, 7], ["bad", "bad"], [b"{}", b"{}"]
    ]  # fmt: skip


def test_rows_of_expired_parts_are_counted_and_in_no_piece() -> None:
    """A row of a part that is kept no more comes back in no piece and does not move the first part back."""
    progress = StreamProgress(watermark=500 * SECOND, first=20, next=50, kept=20)
    taken = advance(stream(), progress, [appended(1, [55, 255], 10)])
    assert taken.expired_rows == 1 and list(taken.late) == [25] and taken.progress.first == 20


def test_entries_out_of_order_are_refused() -> None:
    """An entry that does not follow the position is an error, not a gap."""
    with pytest.raises(ValueError, match="cannot follow"):
        advance(stream(), StreamProgress(), [appended(2, [1], 10)])


@pytest.mark.parametrize(
    ("idle", "last", "now", "expected"),
    [(60, 1000.0, 1059.0, None), (60, 1000.0, 1060.0, 104), (None, 0.0, 9e9, None), (60, None, 9e9, None)],
)
def test_idle_seals_up_to_now_less_lateness(
    idle: int | None, last: float | None, now: float, expected: int | None
) -> None:
    """After IDLE seconds without a row parts that ended LATENESS before now are sealed, before that none."""
    assert idle_seal(stream(10, 10, idle), StreamProgress(watermark=5 * SECOND, first=0), last, now) == expected


def test_idle_seals_nothing_twice_and_nothing_in_an_empty_stream() -> None:
    """Where all parts up to now are sealed, or there is no row, IDLE does nothing."""
    assert idle_seal(stream(10, 10, 60), StreamProgress(first=0, unsealed=105), 1000.0, 1060.0) is None
    assert idle_seal(stream(10, 10, 60), StreamProgress(), 1000.0, 1060.0) is None

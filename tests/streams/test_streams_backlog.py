"""A long backlog of a stream: however many appends wait, they are read a bounded slice at a time, and each once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stream_database import StreamDatabase, moment
from stream_intake import Intake, at
from viewkeeper.pipeline.part_keeping import stream_goals
from viewkeeper.pipeline.status import status
from viewkeeper.stores.logs import Logs
from viewkeeper.streams.intake import entered as entered_module
from viewkeeper.streams.intake import entries as bytes_of
from viewkeeper.streams.intake import stream_log
from viewkeeper.streams.intake.entries import Append, Entry
from viewkeeper.streams.intake.stream_log import StreamLog
from viewkeeper.streams.intake.taking import advance, sealed_upto
from viewkeeper.streams.part_index import read_index

DECLARED = """
CREATE STREAM m (ts TIMESTAMP NOT NULL, src STRING) TIMESTAMP BY ts PARTITION LENGTH 60;
CREATE VIEW v AS SELECT count(*) AS n FROM m [WINDOW 5 MINUTES]
"""


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> list[list[Entry]]:
    """What was decoded at once, each time that anything was."""
    found: list[list[Entry]] = []
    read = StreamLog.entries

    def entries(log: StreamLog, *arguments: object) -> list[Entry]:
        found.append(read(log, *arguments))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(StreamLog, "entries", entries)
    return found


def rows(first: int, count: int, step: int = 20) -> list[dict[str, object]]:
    return [{"ts": moment(1_600_000_000 + step * i), "src": "a"} for i in range(first, first + count)]


def stored(database: StreamDatabase, name: str) -> int:
    index = read_index(database.storage.newest())[database.stream(name).id]
    return index.count_between(-(1 << 62), 1 << 62)


@pytest.mark.parametrize(("name", "bound", "appends", "each"), [
    ("READ_BYTES", 8_000, 60, 1), ("READ_BYTES", 8_000, 12, 30), ("READ_ROWS", 10, 60, 1), ("READ_ROWS", 10, 12, 7),
], ids=["bytes, small", "bytes, of many parts", "rows, small", "rows, larger"])  # fmt: skip
def test_a_backlog_is_taken_in_slices_of_bounded_bytes_and_rows(
    database: StreamDatabase, slices: list[list[Entry]], monkeypatch: pytest.MonkeyPatch,
    name: str, bound: int, appends: int, each: int,
) -> None:  # fmt: skip
    """But for its last entry a slice stays below the bounds; it all comes in, one slice a round."""
    monkeypatch.setattr(stream_log, name, bound)
    for i in range(appends):
        database.append("m", rows(each * i, each))
    database.drive()
    taken = [slice_ for slice_ in slices if slice_]
    assert len(taken) >= 5 and sum(map(len, taken)) == appends
    for slice_ in taken:
        assert sum(entry.size if name == "READ_BYTES" else entry.rows for entry in slice_[:-1]) < bound
    assert stored(database, "m") == appends * each
    assert database.progress("v").next == database.progress("m").next


def test_an_append_that_is_larger_than_a_slice_is_taken_alone(
    database: StreamDatabase, slices: list[list[Entry]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_log, "READ_BYTES", 1)
    for i in range(3):
        database.append("m", rows(500 * i, 500))
    database.drive()
    assert [len(slice_) for slice_ in slices if slice_] == [1, 1, 1]
    assert stored(database, "m") == 1_500


def test_what_is_waited_for_is_known_without_reading_the_backlog(
    database: StreamDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each state that a stream can be in, the goal is what taking all entries would come to."""
    decode = bytes_of.decode

    def refuse(*arguments: object) -> None:
        raise AssertionError("an entry is read")

    def require_goals() -> None:
        snapshot, stream, progress = database.storage.newest(), database.stream("m"), database.progress("m")
        after = advance(stream, progress, database.log.entries(stream.id, progress.position, 10**6)).progress  # type: ignore[arg-type]
        monkeypatch.setattr(bytes_of, "decode", refuse)
        goal = stream_goals(snapshot)[0][stream.id]
        monkeypatch.setattr(bytes_of, "decode", decode)
        assert (goal.position, goal.sealed) == (after.position, sealed_upto(stream, after))

    part = 1_600_000_000 // 60
    require_goals()
    database.seal("m", part - 5)  # before any row
    require_goals()
    for first in (6, 90, 3, 40):
        database.append("m", rows(first, 2))
        require_goals()
    database.drive()
    require_goals()
    database.append("m", rows(-9, 2))  # before the first part
    database.append("m", rows(5, 1))  # late
    require_goals()
    database.seal("m", part + 90)
    database.append("m", [{"ts": None, "src": "rejected"}])
    require_goals()
    database.drive()
    require_goals()
    database.seal("m", part + 80)  # sealed already
    require_goals()


def test_the_status_of_a_backlog_counts_its_rows_a_slice_at_a_time(
    database: StreamDatabase, slices: list[list[Entry]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_log, "READ_ROWS", 5)
    for i in range(20):
        database.append("m", rows(2 * i, 2))
    told = status(database.storage, Logs.of(database.store))["streams"][0]
    assert (told["open_rows"], told["waiting_entries"]) == (40, 20)
    assert max(map(len, slices)) == 3


def test_a_sweep_reads_only_what_has_come_since_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it knows goes with the entries: a file whose entry was trimmed, and that no manifest names, is deleted."""
    intake, read = Intake(tmp_path / "db"), list[str]()
    header_of = entered_module.header_of
    monkeypatch.setattr(entered_module, "header_of", lambda data, name: (read.append(name), header_of(data, name))[1])

    def sweep(*named: str) -> tuple[int, int]:
        read.clear()
        return intake.log.sweep(named, time.time() + 10, 0), len(read)

    def append(seconds: float) -> None:
        intake.append([{"ts": at(seconds)}, {"ts": None}])

    for i in range(50):
        append(i)
    assert sweep() == (0, 50)
    assert sweep() == (0, 0)
    append(50)
    assert sweep() == (0, 1)
    leftover = (intake.storage.root / "state") / "append-20-1.parquet"
    leftover.touch()
    assert sweep("append-20-1.parquet") == (0, 0)
    assert sweep() == (1, 0) and not leftover.exists()
    before = intake.files()
    gone = {file.ref.name for entry in intake.entries()[:10] if isinstance(entry, Append) for file in entry.files}
    intake.log.trim(20, 10)
    assert len(gone) == 10 and sweep(*gone) == (0, 0)
    assert sweep() == (10, 0) and intake.files() == before - gone
    append(51)
    intake.log.trim(20, 52)
    assert sweep() == (42, 0)
    append(52)
    assert sweep() == (0, 1)
    intake.log.forget(20)
    assert sweep() == (1, 0)


def test_files_of_rejected_rows_are_spared_as_long_as_their_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_log, "_INLINE_BYTES_MAX", 10)
    intake = Intake(tmp_path / "db")
    intake.append([{"ts": None, "src": "rejected"}])
    for _ in range(2):
        assert intake.log.sweep((), time.time() + 10, 0) == 0
    assert len(list(intake.log.folder.glob("rejected-*"))) == 1
    assert len(intake.rejected()) == 1


def test_a_long_log_is_trimmed_some_entries_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a transaction of its own, between which appends get in; what is left is what is wanted."""
    monkeypatch.setattr(stream_log, "TRIMMED_AT_ONCE", 4)
    intake = Intake(tmp_path / "db")
    for i in range(20):
        intake.append([{"ts": at(i)}])
    begun, begin = list[bool](), StreamLog._transaction

    def transaction(log: StreamLog, write: bool = False) -> object:
        begun.append(write)
        return begin(log, write)

    monkeypatch.setattr(StreamLog, "_transaction", transaction)
    intake.log.trim(20, 13)
    assert begun == [True] * 4
    monkeypatch.undo()
    assert [entry.sequence for entry in intake.log.entries(20, 13, 100)] == list(range(14, 21))
    intake.log.trim(20, 13)
    intake.log.trim(20, 20)
    assert intake.log.entries(20, 20, 100) == [] and intake.log.end(20) == 20

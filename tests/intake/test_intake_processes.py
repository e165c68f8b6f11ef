"""Appends among processes: killed ones, the same id twice, a moving horizon, forks; and what they leave behind."""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from killing import said_when_killed
from stream_intake import NOW, Intake, at, start
from viewkeeper.errors import Damaged, Error, InputError, NotFound
from viewkeeper.streams.intake import writing as writing_module
from viewkeeper.streams.intake.entries import Append, Draft, Seal
from viewkeeper.streams.intake.stream_environment import Appended
from viewkeeper.streams.intake.stream_log import StreamLog
from viewkeeper.trace.local_disk import LocalDisk


def kill_in_the_middle(root: Path, seeds: list[int], seconds: float) -> dict[int, dict[int, int]]:
    """Let appenders run for `seconds`, kill them; what each was told, by call: the number of rows stored."""
    commands = {seed: start("append_for_ever", root, seed) for seed in seeds}
    said = said_when_killed(root.parent, commands, seconds)
    return {seed: {int(call): int(stored) for call, stored in lines} for seed, lines in said.items()}


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(3))
def test_a_killed_append_is_stored_whole_or_not_at_all(tmp_path: Path, seed: int) -> None:
    """After kill -9 every acknowledged append is there, each one whole and once, and what was left over is swept up."""
    intake = Intake(tmp_path / "db")
    told = kill_in_the_middle(intake.root, [seed, seed + 10], random.Random(seed).uniform(0.05, 0.5))
    rows = Counter((row["src"], row["loss"]) for row in intake.stored())
    calls = [(entry.sequence, entry) for entry in intake.entries()]
    assert [sequence for sequence, _ in calls] == list(range(1, len(calls) + 1))
    for (_, call), count in rows.items():
        assert count == call % 40
    for writer, acknowledged in told.items():
        assert acknowledged and all(rows[str(writer), call] == stored for call, stored in acknowledged.items())
        assert all(call <= max(acknowledged) + 1 for src, call in rows if src == str(writer))
    assert len(rows) == len(calls)
    intake.log.sweep((), time.time() + 10, 0)
    assert intake.files() == intake.named()
    assert intake.append([{"ts": at(0)}]).stored == 1


def test_the_same_ids_from_two_processes_store_once(tmp_path: Path) -> None:
    """Of appends with one id, in processes that run together, exactly one stores its rows."""
    intake = Intake(tmp_path / "db")
    processes = [subprocess.Popen(start("append_with_ids", intake.root, 25, 3), stdout=subprocess.PIPE, text=True)
                 for _ in range(2)]  # fmt: skip
    assert sum(int(process.communicate()[0]) for process in processes) == 25
    assert len(intake.entries()) == 25 and len(intake.stored()) == 75
    assert intake.files() == intake.named()


def test_two_writers_agree_on_what_is_too_late(tmp_path: Path) -> None:
    """Whatever another writer does meanwhile, no row is stored that lies outside the horizon when its entry is made,
    and none is rejected that did not."""
    intake = Intake(tmp_path / "db", horizon=100)
    processes = [subprocess.Popen(start("append_within_a_horizon", intake.root, n, 60)) for n in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    watermark, stored = None, 0
    for entry in intake.entries():
        assert isinstance(entry, Append)
        for file in entry.files:
            assert watermark is None or file.least >= watermark - 100_000_000
            stored += int(file.rows.sum())
        watermark = max(entry.greatest or 0, watermark or 0)
    assert stored + len(intake.rejected()) == 2 * 60 * 6 and intake.rejected()
    assert intake.log.watermark(20) == watermark
    assert intake.files() == intake.named()


def test_an_append_is_done_again_where_the_watermark_moved_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that another append makes too late between conversion and entry are rejected, the others stored."""
    intake = Intake(tmp_path / "db", horizon=100)
    draft_made = writing_module.Writing.draft

    def then_another(*arguments: object) -> Draft:
        draft = draft_made(*arguments)  # type: ignore[arg-type]
        monkeypatch.undo()
        intake.append([{"ts": at(1000), "src": "other"}])
        return draft

    monkeypatch.setattr(writing_module.Writing, "draft", then_another)
    rows = [{"ts": at(t), "loss": t} for t in (950, 0, 899, 900, 5)]
    assert intake.append([*rows, {"ts": None}], "x") == Appended(2, 4, sequence=2)
    assert sorted(intake.values("loss")[1:]) == [900, 950]
    reasons = [reason for reason, _ in intake.rejected()]
    assert "NULL" in reasons[0] and all("behind the watermark, 1970-01-01 00:16:40" in reason for reason in reasons[1:])
    assert intake.files() == intake.named()


def test_an_append_whose_file_was_swept_away_fails_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An append that slept so long that its file was taken for a leftover stores nothing and says so."""
    intake = Intake(tmp_path / "db")
    draft_made = writing_module.Writing.draft

    def then_sweep(*arguments: object) -> Draft:
        draft = draft_made(*arguments)  # type: ignore[arg-type]
        assert intake.log.sweep((), time.time() + 10, 0) == 1
        return draft

    monkeypatch.setattr(writing_module.Writing, "draft", then_sweep)
    with pytest.raises(Error, match="append it again"):
        intake.append([{"ts": at(0)}], "x")
    monkeypatch.undo()
    assert intake.append([{"ts": at(0)}], "x") == Appended(1, 0, sequence=1)


def test_sweeping_spares_what_is_named_entered_or_young(tmp_path: Path) -> None:
    """Only old files that neither the log nor a manifest names go."""
    intake = Intake(tmp_path / "db")
    intake.append([{"ts": at(0)}])
    for name in ("append-20-1.parquet", "append-20-2.parquet", "000000000001-e1-z0-s0-a1-batch-00000000.zone"):
        (intake.storage.root / "state" / name).touch()
    assert intake.log.sweep({"append-20-1.parquet"}, time.time()) == 0
    assert intake.log.sweep({"append-20-1.parquet"}, time.time() + 10, 5) == 1
    assert not (intake.storage.root / "state" / "append-20-2.parquet").exists() and len(intake.files()) == 3


def test_a_forked_child_uses_the_log_of_its_parent(tmp_path: Path) -> None:
    """Children forked beside appending threads append, and the parent goes on."""
    intake, stop = Intake(tmp_path / "db"), threading.Event()

    def keep_appending() -> None:
        while not stop.is_set():
            intake.append([{"ts": at(0)}])

    thread = threading.Thread(target=keep_appending)
    thread.start()
    children = []
    for n in range(5):
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if intake.append([{"ts": at(n), "src": "child"}]).stored == 1 else 2)
            finally:
                os._exit(1)
        children.append(child)
    exits = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    stop.set()
    thread.join()
    assert exits == [0] * 5 and intake.values("src").count("child") == 5


def test_entries_are_numbered_and_read_behind_a_position(tmp_path: Path) -> None:
    """Appends and seals of each stream are numbered by themselves; what was trimmed cannot be read any more."""
    intake = Intake(tmp_path / "db")
    assert intake.log.end(20) == 0 and intake.log.last_append(20) is None
    intake.append([{"ts": at(5)}])
    assert intake.log.seal(intake.stream, -3) == 2
    assert intake.log.seal(intake.stream, 7, "idle") == 3
    intake.append([{"ts": at(5)}], now=NOW + 1)
    assert [entry.sequence for entry in intake.log.entries(20, 1, 2)] == [2, 3]
    seal = intake.log.entries(20, 2, 1)[0]
    assert isinstance(seal, Seal) and (seal.upto, seal.reason) == (7, "idle")
    assert intake.log.end(20) == 4 and intake.log.last_append(20) == NOW + 1
    assert not intake.log.entries(21, 0, 10) and intake.log.end(21) == 0
    intake.log.trim(20, 3)
    assert intake.log.end(20) == 4 and len(intake.log.entries(20, 3, 10)) == 1
    with pytest.raises(Error, match="entry 3 of stream 20 was trimmed"):
        intake.log.entries(20, 2, 10)


def test_a_dropped_stream_is_forgotten_and_takes_nothing_more(tmp_path: Path) -> None:
    """After `forget` nothing of the stream is left in the log, and appends and seals name what is wrong."""
    intake = Intake(tmp_path / "db")
    intake.append([{"ts": at(5)}], "x")
    intake.log.forget(20)
    assert not intake.entries()
    for call in (lambda: intake.append([{"ts": at(5)}], "x"), lambda: intake.log.seal(intake.stream, 1)):
        with pytest.raises(NotFound, match="'m' does not exist any more"):
            call()


def test_a_damaged_entry_is_named(tmp_path: Path) -> None:
    """A changed byte in an entry is noticed when it is read."""
    intake = Intake(tmp_path / "db")
    intake.append([{"ts": at(5)}])
    environment = intake.log._environment
    with environment.transaction(write=True) as txn, txn.cursor(environment.entries) as cursor:
        cursor.first()
        data = bytearray(cursor.value())
        data[-1] ^= 1
        txn.put(cursor.key(), bytes(data), db=environment.entries)
    with pytest.raises(Damaged, match="entry 1 of stream 20 is damaged"):
        intake.entries()


def test_a_seal_is_a_part_s_number(tmp_path: Path) -> None:
    """What is no whole number of 64 bits is refused as a subscript."""
    intake = Intake(tmp_path / "db")
    for upto in (1.5, "1", None, True, 2**63):
        with pytest.raises(InputError, match="subscript"):
            intake.log.seal(intake.stream, upto)  # type: ignore[arg-type]


def test_a_closed_log_says_so(tmp_path: Path) -> None:
    """Closing twice is fine; using it afterwards is an error, and others of the folder stay open."""
    intake, other = Intake(tmp_path / "db"), StreamLog(tmp_path / "db", LocalDisk(str(tmp_path / "db")))
    other.close()
    other.close()
    with pytest.raises(Error, match="closed"):
        other.end(20)
    assert intake.log.end(20) == 0


def test_threads_that_open_and_close_the_log_together_share_one_environment(tmp_path: Path) -> None:
    """LMDB refuses to open a folder twice in a process: opening and closing it is for one thread at a time."""
    failures: list[Exception] = []

    def use() -> None:
        try:
            for _ in range(50):
                with StreamLog(tmp_path / "db", LocalDisk(str(tmp_path / "db"))) as log:
                    log.end(20)
        except Error as error:
            failures.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures

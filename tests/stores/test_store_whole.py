"""Calls that write on several nodes: whole after any death, in every cut, and whatever comes of Ctrl-C."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from child import SUPPORT
from store_model import BAG, ORDERS, PAIRS, as_dicts, in_order, read_all, read_range, replay, stored_rows
from store_processes import CALLS, call_once, put_again_and_again, put_one_row, run_with_faults
from viewkeeper.changes.operations import TableForm
from viewkeeper.errors import InputError
from viewkeeper.interrupts import uninterrupted
from viewkeeper.stores.contract import Numbered
from viewkeeper.stores.embedded import EmbeddedStore
from viewkeeper.stores.intake import TableIntake
from viewkeeper.trace import points

NODES = 3
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["viewkeeper.stores.embedded", "pandas"])  # Arrow imports pandas when it needs it first


def filled(root: Path) -> EmbeddedStore:
    store = EmbeddedStore(root, nodes=NODES, durability="process")
    store.put_many(ORDERS, [{"id": i, "n": 100 + i, "note": "old"} for i in range(20)])
    store.put_many(BAG, [{"x": i % 5, "s": "s"} for i in range(40)])
    return store


def contents(store: EmbeddedStore) -> list[object]:
    return [in_order(stored_rows(store, table)) for table in (ORDERS, PAIRS, BAG)]


def started(program: Callable[..., None], *arguments: object, faults: Path | None = None) -> BaseProcess:
    """A program in a process of its own, which has all modules from the start."""
    process = FORKS.Process(target=run_with_faults, args=(faults, program, *map(str, arguments)))
    process.start()
    return process


def run(program: Callable[..., None], *arguments: object, faults: Path | None = None) -> int:
    """Run a program in a process of its own; its exit code."""
    process = started(program, *arguments, faults=faults)
    process.join(60)
    assert process.exitcode is not None
    return process.exitcode


def run_armed(folder: Path, point: str, count: int, program: Callable[..., None], *arguments: object) -> int:
    """Run a program that is killed at a point; its exit code."""
    folder.mkdir(exist_ok=True)
    points.arm(folder, point, count)
    code = run(program, *arguments, faults=folder)
    (folder / point).unlink()
    return code


@contextmanager
def expected(tmp_path: Path, call: str) -> Iterator[tuple[list[object], list[object]]]:
    """The contents before and after a call, as one process makes them that does not die."""
    store = filled(tmp_path / "expected")
    before = contents(store)
    CALLS[call](store)
    yield before, contents(store)
    store.close()


@pytest.mark.faults
@pytest.mark.parametrize("call", CALLS)
def test_a_call_over_several_nodes_is_whole_after_kill_9_at_every_point(tmp_path: Path, call: str) -> None:
    """Nothing of it before the first commit; after that all of it, for whoever comes next: a scan, a cut, a write."""
    with expected(tmp_path, call) as (before, after):
        for point, count in (("call prepared", 1), ("between nodes", 1), ("between nodes", 2), ("call written", 1)):
            for comes_next in ("scan", "cut", "write", "another process"):
                root = tmp_path / f"{point}{count}{comes_next}"
                store = filled(root)
                assert run_armed(tmp_path / "armed", point, count, call_once, root, call) == -signal.SIGKILL
                if comes_next == "cut":
                    assert store.log.cut(10_000, {}).positions == store.ends()
                elif comes_next == "write":
                    CALLS[call if "delete" not in call and "key" not in call else "whole rows"](store)
                elif comes_next == "another process":
                    assert run(put_one_row, root) == 0
                    store.delete_many(ORDERS, range(1000, 1020))
                if comes_next != "write":
                    assert contents(store) == (before if point == "call prepared" else after), (point, comes_next)
                assert not any(words.unfinished for words in store._nodes.words)
                for table in (ORDERS, PAIRS):
                    assert in_order(stored_rows(store, table)) == in_order(
                        replay(table, read_all(store, table)).values()
                    )
                store.close()


def test_a_step_of_a_source_is_done_once(tmp_path: Path) -> None:
    """Whatever others have written since; numbers count a source and a table; on one node too."""
    for nodes in (1, NODES):
        store = EmbeddedStore(tmp_path / str(nodes), nodes=nodes, durability="process")
        intake = TableIntake(TableForm(ORDERS), "UTC")
        row = [intake.rows([{"id": 1, "n": 1}])]
        assert store.do_step(ORDERS, row, Numbered("a", 3)) is not None
        store.put(ORDERS, {"id": 1, "n": 2})
        for number in (3, 2, 0):
            assert store.do_step(ORDERS, row, Numbered("a", number)) is None
        assert (store.get(ORDERS, 1) or {})["n"] == 2
        assert store.do_step(ORDERS, [], Numbered("a", 4)) is not None
        assert store.do_step(ORDERS, row, Numbered("a", 4)) is None
        assert store.do_step(ORDERS, [intake.deletes([1]), *row], Numbered("b", 0)) is not None
        assert (store.get(ORDERS, 1) or {})["n"] == 1
        assert store.do_step(BAG, [TableIntake(TableForm(BAG), "UTC").rows([{"x": 1}])], Numbered("a", 0)) is not None
        with pytest.raises(InputError, match="a name of more than 400 bytes"):
            store.do_step(ORDERS, row, Numbered("x" * 401, 1))
        with pytest.raises(InputError, match="column n, which is NOT NULL, is missing"):
            store.do_step(ORDERS, [intake.deletes([1]), intake.rows([{"id": 1, "note": "x"}])], Numbered("b", 1))
        assert store.do_step(ORDERS, row, Numbered("b", 1)) is not None, "what was refused was not done"
        assert store.stored_tables() == {ORDERS.id, BAG.id}
        while store.forget([ORDERS.id], 1.0):
            pass
        assert store.stored_tables() == {BAG.id}
        assert store.do_step(ORDERS, row, Numbered("a", 0)) is not None
        store.close()


@pytest.mark.faults
def test_a_call_is_finished_once_though_who_finishes_it_dies_too(tmp_path: Path) -> None:
    with expected(tmp_path, "some columns") as (_, after):
        store = filled(tmp_path / "s")
        assert run_armed(tmp_path / "armed", "between nodes", 1, call_once, store.root, "some columns") < 0
        for _ in range(2):  # With nothing to do the first time, and then with one part done.
            assert run_armed(tmp_path / "armed", "part done", 1, put_one_row, store.root) == -signal.SIGKILL
        assert run_armed(tmp_path / "armed", "part done", 2, put_one_row, store.root) == -signal.SIGKILL
        assert contents(store) == after
        store.close()


@pytest.mark.faults
def test_a_call_that_a_power_loss_cut_is_finished_at_the_next_opening(tmp_path: Path) -> None:
    """The shared words are lost then; the nodes themselves tell."""
    with expected(tmp_path, "some columns") as (_, after):
        store = filled(tmp_path / "s")
        store.close()
        assert run_armed(tmp_path / "armed", "between nodes", 1, call_once, store.root, "some columns") < 0
        (store.root / "stamp").write_bytes(b"")
        store = EmbeddedStore(store.root)
        assert store.log.cut(10_000, {}).positions == store.ends() and contents(store) == after
        store.close()


@pytest.mark.faults
def test_two_unfinished_calls_of_different_nodes_are_both_finished(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "s", nodes=4, durability="process")
    of_node: dict[int, list[int]] = {node: [] for node in range(4)}
    for id_ in range(100):
        of_node[next(iter(store.put(ORDERS, {"id": id_, "n": 0}).positions))].append(id_)
    for pair in ((0, 1), (2, 3)):
        ids = [of_node[node][0] for node in pair]
        code = f"import sys; sys.path.insert(0, {str(SUPPORT)!r})\n" + (
            "from store_model import ORDERS\nfrom viewkeeper.stores.embedded import EmbeddedStore\n"
            f"EmbeddedStore({str(store.root)!r}).put_many(ORDERS, [{{'id': i, 'n': 1}} for i in {ids}])"
        )
        (tmp_path / "armed").mkdir(exist_ok=True)
        points.arm(tmp_path / "armed", "between nodes", 1)
        environment = {**os.environ, "VIEWKEEPER_FAULTS": str(tmp_path / "armed")}
        assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == -signal.SIGKILL
    assert [words.unfinished for words in store._nodes.words] == [0, 0, 2, 2]
    store.put_many(ORDERS, [{"id": of_node[node][1], "n": 2} for node in (1, 2)])
    assert [store.get(ORDERS, of_node[node][0])["n"] for node in range(4)] == [1] * 4  # type: ignore[index]
    assert [words.unfinished for words in store._nodes.words] == [None] * 4
    store.close()


@pytest.mark.faults
def test_no_cut_holds_half_a_call_while_writers_are_killed_again_and_again(tmp_path: Path) -> None:
    """Four writers, of which one is killed every few milliseconds at a random place, while a reader cuts."""
    random_, store = random.Random(7), EmbeddedStore(tmp_path / "s", nodes=NODES, durability="process")
    faults = tmp_path / "armed"
    faults.mkdir()
    running: dict[int, BaseProcess] = {}
    positions: dict[int, int] = {}
    seen: dict[int, dict[int, int]] = {}
    killed, deadline = 0, time.monotonic() + 25
    try:
        while killed < 30 and time.monotonic() < deadline:
            for writer in range(4):
                if writer not in running or not running[writer].is_alive():
                    killed += writer in running and running[writer].exitcode == -signal.SIGKILL
                    running[writer] = started(put_again_and_again, store.root, writer, 10**6, faults=faults)
            if not list(faults.glob("*")) or random_.random() < 0.2:
                points.arm(faults, random_.choice(points.STORE_POINTS), random_.randrange(1, 60))
            positions = cut_whole(store, positions, seen, random_.choice([1, 50, 10_000]))
    finally:
        for process in running.values():
            process.kill()
            process.join()
    while (cut := store.log.cut(10_000, positions)).operations:
        positions = cut_whole(store, positions, seen, 10_000)
        assert positions == cut.positions
    assert killed > 3 and len(seen) == 4
    assert in_order(stored_rows(store, ORDERS)) == in_order(replay(ORDERS, read_all(store, ORDERS)).values())
    store.close()


def cut_whole(
    store: EmbeddedStore, positions: dict[int, int], seen: dict[int, dict[int, int]], limit: int
) -> dict[int, int]:
    """Read up to the next cut; there the six rows of each writer must agree.  `seen`: writer -> id -> n."""
    cut = store.log.cut(limit, positions)
    for node, end in cut.positions.items():
        for row in as_dicts(
            ORDERS, read_range(store, node, positions.get(node, 0), end, {ORDERS.id: ORDERS}).operations
        ):
            if row["values"]["id"] != 999:
                seen.setdefault(row["values"]["customer"], {})[row["values"]["id"]] = row["values"]["n"]
    assert all(len(rows) == 6 and len(set(rows.values())) == 1 for rows in seen.values()), "half a call is in a cut"
    return cut.positions


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGALRM])
def test_interrupts_leave_put_many_whole_or_undone_and_the_store_usable(tmp_path: Path, number: signal.Signals) -> None:
    """75 interrupts (Ctrl-C, or a timeout by alarm) at random moments of `put_many` and `put`: no half, no lock, no
    thread or fork that waits is left."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, interrupt)
    store, random_ = EmbeddedStore(tmp_path / "s", nodes=NODES, durability="process"), random.Random(3)
    store.put_many(ORDERS, [{"id": id_, "n": 0} for id_ in range(8)])
    came = call = 0
    main = threading.get_ident()
    while came < 75:
        call += 1
        timer = threading.Timer(random_.uniform(0, 0.006), lambda: signal.pthread_kill(main, number))
        try:
            timer.start()
            while True:
                store.put_many(ORDERS, [{"id": id_, "n": call} for id_ in range(8)])
                store.put(ORDERS, {"id": 100, "n": call})
        except KeyboardInterrupt:
            came += 1
        timer.join()
        assert len({store.get(ORDERS, id_)["n"] for id_ in range(8)}) == 1  # type: ignore[index]
    signal.signal(number, before)
    thread = threading.Thread(target=store.put, args=(ORDERS, {"id": 101, "n": 1}))
    thread.start()
    thread.join(timeout=10)
    assert not thread.is_alive()
    begin = time.monotonic()
    assert run(put_one_row, store.root) == 0
    child = os.fork()
    if child == 0:
        store.put(ORDERS, {"id": 102, "n": 1})
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and time.monotonic() - begin < 9
    assert in_order(stored_rows(store, ORDERS)) == in_order(replay(ORDERS, read_all(store, ORDERS)).values())
    store.close()


def test_a_signal_whose_handler_raises_keeps_no_other_from_its_own() -> None:
    came: list[int] = []

    def timed_out(number: int, _: object) -> None:
        came.append(number)
        raise TimeoutError

    before = {number: signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGHUP)}
    signal.signal(signal.SIGALRM, timed_out)
    signal.signal(signal.SIGHUP, lambda number, _: came.append(number))
    try:
        with pytest.raises(TimeoutError), uninterrupted():
            for number in (signal.SIGALRM, signal.SIGHUP):
                signal.raise_signal(number)
            assert came == []
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert came == [signal.SIGALRM, signal.SIGHUP]


def test_what_an_intent_took_is_freed_with_the_trimming_of_the_log(tmp_path: Path) -> None:
    store = filled(tmp_path / "s")
    store.log.forget(store.ends(), older_than_seconds=-1)
    for number, node in enumerate(store._nodes.nodes):
        with store._nodes.reading(number) as txn:
            assert txn.stat(node.intent)["entries"] == 0
    assert len(stored_rows(store, ORDERS)) == 20
    store.close()

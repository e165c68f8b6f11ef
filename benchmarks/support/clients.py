"""Other processes that use the database while the pipeline runs in this one: writers, readers, and one that waits."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

import numpy as np
import psutil  # type: ignore[import-untyped]

import viewkeeper
from benchmarks.support.orders import Workload

_CONTEXT = multiprocessing.get_context("forkserver")  # not fork: Spark's threads are running here
_CONTEXT.set_forkserver_preload([__name__])
_DRAWN_AT_ONCE = 100_000
_PROBE_IDS = 10**12
"""Orders written by `wait_for_own_writes` have ids from here on."""


class Client:
    """A function of this module that runs in a new process; `result` waits for what it returns."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._answer, theirs = _CONTEXT.Pipe(duplex=False)
        self._process = _CONTEXT.Process(target=_run, args=(theirs, function, arguments), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process.pid is not None, "it has been started"
        return self._process.pid

    @property
    def server(self) -> int:
        """The process from which all clients are forked, with what they need loaded already."""
        found: int = psutil.Process(self.pid).ppid()
        return found

    def result(self) -> Any:
        """What the function returned; raises EOFError where it died."""
        answer = self._answer.recv()
        self._process.join()
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()


def _run(answer: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    answer.send(function(*arguments))


def write_steadily(
    root: Path, workload: tuple[int, int], call: int, per_second: float, seconds: float, writers: int = 1, part: int = 0
) -> float:
    """Writes the operations of `Workload(*workload)` in calls of `call`, `per_second` operations a second
    by `writers` processes together; how many a second this one managed.  A call that is late is made at once.

    Of the calls this writer makes those whose number, divided by `writers`, leaves `part`.
    """
    operations, done = Workload(*workload).operations, part * call
    with viewkeeper.connect(root) as db:
        orders = db.table("orders")
        started = time.perf_counter()
        while (now := time.perf_counter() - started) < seconds and done < len(operations):
            if done > now * per_second:
                time.sleep(done / per_second - now)
            some = operations[done : done + call]
            if some.delete[0]:
                orders.delete_many(some.id.tolist())
            else:
                orders.put_many(some.table())
            done += call * writers
        return done / writers / (time.perf_counter() - started)


def wait_for_own_writes(root: Path, customers: int, count: int, pause: float) -> np.ndarray:
    """Puts `count` orders one after another, at random moments about `pause` seconds apart; the seconds from each call
    of `put` to the first read of a view that holds it."""
    chance, took = np.random.default_rng(), []
    with viewkeeper.connect(root) as db:
        orders, spend = db.table("orders"), db.view("spend")
        for number in range(count):
            time.sleep(chance.uniform(0, 2 * pause))
            customer = int(chance.integers(0, customers))
            started = time.perf_counter()
            token = orders.put({"id": _PROBE_IDS + time.time_ns() + number, "customer": customer, "price": "1.00"})
            spend.get(customer, after=token, timeout=60)
            took.append(time.perf_counter() - started)
    return np.array(took)


def read_by_key(root: Path, view: str, keys: int, seconds: float, pause: float) -> np.ndarray:
    """Reads rows of `view` by random keys for some seconds, with `pause` seconds between two; the seconds of each."""
    chance, took = np.random.default_rng(), list[float]()
    with viewkeeper.connect(root) as db:
        reader, end = db.view(view), time.perf_counter() + seconds
        while True:
            for key in chance.integers(0, keys, _DRAWN_AT_ONCE).tolist():
                started = time.perf_counter()
                reader.get(key)
                now = time.perf_counter()
                took.append(now - started)
                if now > end:
                    return np.array(took)
                if pause:
                    time.sleep(pause)


def watch_lag(root: Path, marks: Path) -> np.ndarray:
    """A hundred times a second: the time, and by how many seconds the views are behind the node that is furthest ahead.

    Makes the file `started` in the folder `marks` when it begins; ends when there is a file `enough` in it.
    """
    seen: list[tuple[float, float]] = []
    with viewkeeper.connect(root) as db:
        (marks / "started").touch()
        while not (marks / "enough").exists():
            seen.append((time.time(), max(node["lag_seconds"] or 0.0 for node in db.lag()["nodes"])))
            time.sleep(0.01)
    return np.array(seen)


def maintain(root: Path) -> None:
    """Maintains until the process is killed."""
    with viewkeeper.connect(root) as db, db.maintain() as maintenance:
        maintenance.wait()

"""Programs that tests of the embedded store run in processes of their own: `python store_processes.py NAME ARGS`."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from store_model import BAG, ORDERS, PAIRS
from viewkeeper.catalog.operation_kinds import DELETE, PUT
from viewkeeper.catalog.types import BIGINT
from viewkeeper.changes.operations import Operations, TableForm
from viewkeeper.stores.contract import ComputeChange, Moment, Numbered
from viewkeeper.stores.embedded import EmbeddedStore
from viewkeeper.stores.intake import TableIntake
from viewkeeper.trace import points
from viewkeeper.trace.hashing import hash_values


def write_for_ever(root: str, seed: str, durability: str) -> None:
    """Write what a seed says, and tell of each call when it is acknowledged; until killed.

    The writer owns the ids with `id % 10 == seed`; `n` counts its calls, so that a row says which call wrote it.
    """
    random_, store = random.Random(int(seed)), EmbeddedStore(root, durability=durability)
    for call in range(1, 1_000_000):
        ids = [random_.randrange(50) * 10 + int(seed) for _ in range(random_.choice([1, 1, 2, 30]))]
        kind = random_.choice(["put", "put_many", "put_many", "delete"])
        if kind == "put":
            token = store.put(ORDERS, {"id": ids[0], "n": call, "note": str(call)})
        elif kind == "put_many":
            token = store.put_many(ORDERS, [{"id": id_, "n": call} for id_ in ids])
        else:
            token = store.delete_many(ORDERS, ids)
        print(call, kind, *ids, "/", token, flush=True)


def count_together(root: str, times: str) -> None:
    """Count in five rows of several nodes at once, so often; each call is made after the last was acknowledged."""
    store, me = EmbeddedStore(root, durability="process"), random.randrange(100, 10**9)
    for call in range(int(times)):
        store.put_many(ORDERS, [{"id": id_, "customer": me, "n": call} for id_ in (1, 2, 3, 4, me)])
        print(call, flush=True)


def call_once(root: str, name: str) -> None:
    """One call over all nodes, named like one of `CALLS`."""
    CALLS[name](EmbeddedStore(root, durability="process"))


def moved_by(step: int) -> ComputeChange:
    """All rows of ORDERS with other keys, some of which there were."""

    def compute(moment: Moment) -> list[Operations]:
        rows = [columns for _, columns in moment.rows(ORDERS)]
        old = [pa.concat_arrays(column) for column in zip(*rows, strict=True)]
        return [Operations(DELETE, [old[0]]), Operations(PUT, [pc.add(old[0], step), *old[1:]])]

    return compute


def doubled(moment: Moment) -> list[Operations]:
    """All rows of BAG with other numbers, under other row ids."""
    rows = [columns for _, columns in moment.rows(BAG)]
    x, s, ids = (pa.concat_arrays(column) for column in zip(*rows, strict=True))
    return [Operations(DELETE, [ids]), Operations(PUT, [pc.multiply(x, pa.scalar(2, pa.int32())), s])]


def step_of(store: EmbeddedStore) -> list[Operations]:
    """Deletes and puts, of which none is on the node that decides."""
    ids = [i for i in range(60) if hash_values([i], [BIGINT]) % store.nodes]
    intake = TableIntake(TableForm(ORDERS), "UTC")
    return [intake.deletes(ids), intake.rows([{"id": i, "n": -i} for i in ids if i % 2])]


CALLS: dict[str, Callable[[EmbeddedStore], object]] = {
    "whole rows": lambda store: store.put_many(PAIRS, [{"a": i % 7, "b": f"b{i}", "v": i} for i in range(40)]),
    "some columns": lambda store: store.put_many(ORDERS, [{"id": i % 25, "n": i, **({"note": "x"} if i % 3 else {})}
                                                          for i in range(60)]),
    "few rows": lambda store: store.put_many(ORDERS, [{"id": i, "n": -1} for i in range(7)]),
    "deletes": lambda store: store.delete_many(ORDERS, range(5, 15)),
    "without a key": lambda store: store.put_many(BAG, [{"x": i % 17, "s": None} for i in range(40)]),
    "deletes without a key": lambda store: store.delete_many(BAG, [{"x": i % 5, "s": "s"} for i in range(20)]),
    "a change of keys": lambda store: store.change(ORDERS, moved_by(20)),
    "a change without a key": lambda store: store.change(BAG, doubled),
    "a step": lambda store: store.do_step(ORDERS, step_of(store), Numbered("source", 7)),
}  # fmt: skip
"""Calls that write on several nodes."""


def put_one_row(root: str) -> None:
    """Put one row on each of the nodes, one after the other."""
    store = EmbeddedStore(root, durability="process")
    for id_ in range(1000, 1020):
        store.put(ORDERS, {"id": id_, "n": 1})


def put_again_and_again(root: str, seed: str, calls: str) -> None:
    """Put so many times the same number into rows of several nodes that are this process's own, and now and then into
    rows that all share."""
    random_, store = random.Random(int(seed)), EmbeddedStore(root, durability="process")
    for call in range(int(calls)):
        ids = [int(seed) * 100 + i for i in range(6)]
        if random_.random() < 0.3:
            store.put(ORDERS, {"id": 999, "n": call})
        store.put_many(ORDERS, [{"id": id_, "customer": int(seed), "n": call} for id_ in ids])


def write_and_hold(root: str) -> None:
    """Hold the write locks of all nodes until killed."""
    store = EmbeddedStore(root, durability="process")

    def hold(_: object) -> None:
        print("held", flush=True)
        sys.stdin.read()

    store._nodes.write(range(store.nodes), hold)


def read_and_wait(root: str) -> None:
    """Hold a read transaction until killed."""
    store = EmbeddedStore(root)
    with store.scan(ORDERS) as scan:
        print(sum(len(batch) for batch in scan.batches), flush=True)
        sys.stdin.read()


def run_with_faults(faults: Path | None, program: Callable[..., None], *arguments: str) -> None:
    """Run a program of this file, in a process that dies at the points that are armed in the folder `faults`."""
    points._FOLDER = None if faults is None else str(faults)
    program(*arguments)


def start(name: str, *arguments: object) -> list[str]:
    """The command line of a program of this file."""
    return [sys.executable, str(Path(__file__)), name, *map(str, arguments)]


PROGRAMS = (write_for_ever, count_together, read_and_wait, write_and_hold)

if __name__ == "__main__":
    {f.__name__: f for f in PROGRAMS}[sys.argv[1]](*sys.argv[2:])

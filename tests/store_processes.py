"""Programs that tests of the embedded store run in processes of their own: `python store_processes.py NAME ARGS`."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from store_model import ORDERS
from viewkeeper.stores.embedded import EmbeddedStore


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


def read_and_wait(root: str) -> None:
    """Hold a read transaction until killed."""
    store = EmbeddedStore(root)
    with store.scan(ORDERS) as scan:
        print(sum(len(batch) for batch in scan.batches), flush=True)
        sys.stdin.read()


def start(name: str, *arguments: object) -> list[str]:
    """The command line of a program of this file."""
    return [sys.executable, str(Path(__file__)), name, *map(str, arguments)]


if __name__ == "__main__":
    {f.__name__: f for f in (write_for_ever, count_together, read_and_wait)}[sys.argv[1]](*sys.argv[2:])

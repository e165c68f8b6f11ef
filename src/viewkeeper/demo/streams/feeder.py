"""The measuring process: appends minute after minute, faster than time, and late rows when they come.

`python -m viewkeeper.demo.streams.feeder FOLDER PAIRS SECONDS_A_MINUTE`
"""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import Any

import viewkeeper
from viewkeeper.demo.process import ready, tell, told_to_stop
from viewkeeper.demo.streams.network import SILENT_MINUTES, Network

TOLD = 100
"""So many of the parts that were sealed last are told each time: whoever listens may be busy for a while."""


def main(folder: str, pairs: int, seconds_a_minute: float) -> None:
    """Appends until told to stop; tells how many rows, and when each part was sealed by the row that was stored."""
    network = Network(pairs)
    network.history()
    told: dict[str, Any] = {"minutes": 0, "rows": 0, "late_rows": 0, "late": None}
    sealed: deque[tuple[int, float]] = deque(maxlen=TOLD)
    with viewkeeper.connect(folder) as db:
        stream = db.stream("m")
        ready(**told, sealed=[])
        begin = time.monotonic()
        while not told_to_stop(begin + told["minutes"] * seconds_a_minute - time.monotonic()):
            minute = network.next()
            told["rows"] += stream.append(minute.rows).stored
            sealed.append((minute.part - 1, time.time()))
            if len(minute.late):
                stored = stream.append(minute.late).stored
                first = int(minute.late["ts"][0].cast("int64").as_py() // 60_000_000)
                told["late"] = {"rows": stored, "host": minute.late["src"][0].as_py(), "first": first,
                                "last": first + SILENT_MINUTES - 1}  # fmt: skip
                told["rows"] += stored
                told["late_rows"] += stored
            told["minutes"] += 1
            tell(**told, sealed=list(sealed))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))

"""The same faults of keeping parts on real Spark: a worker in the middle of a part, and the driver, are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from child import SUPPORT
from stream_database import StreamDatabase
from streams_on_spark import SCRIPT, send

pytestmark = [pytest.mark.spark, pytest.mark.faults]


def test_what_spark_was_at_is_done_once(tmp_path: Path) -> None:
    """Where a worker is killed in a part its task is tried again; after a killed driver the next one, here without
    Spark, finds everything right; the parts are those of a database that was left alone."""
    call = f"import streams_on_spark as t; t.lose_a_worker_and_then_the_driver(t.Path({str(tmp_path)!r}))"
    ended = subprocess.run(
        [sys.executable, "-c", call], cwd=SUPPORT, capture_output=True, text=True, timeout=180,
        env={**os.environ, "VIEWKEEPER_FAULTS": str(tmp_path)}, check=False,
    )  # fmt: skip
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    other = StreamDatabase(tmp_path / "other")
    other.declare(SCRIPT)
    send(other, 0, 3)
    send(other, 3, 6)
    other.drive()
    for victim in ("worker", "driver"):
        one = StreamDatabase(tmp_path / victim)
        one.drive()
        assert found(one) == found(other), victim
        assert len(found(one)) == 13
        one.close()
    other.close()


def found(database: StreamDatabase) -> dict[tuple[str, int], list[tuple[Any, ...]]]:
    """The rows of all parts."""
    parts = {name: range(database.progress(name).first or 0, database.progress(name).next or 0)
             for name in ("m", "last3", "streak")}  # fmt: skip
    return {(name, part): database.rows(name, part) for name, each in parts.items() for part in each}

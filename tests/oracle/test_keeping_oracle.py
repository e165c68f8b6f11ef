"""Which parts are built and repaired, against computing every part again from the stream's rows alone."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings

from drawn import examples
from stream_database import StreamDatabase
from viewdf_oracle import STREAMS, early, require_right, steps, take_step


@given(early=early, steps=steps)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
def test_any_interleaving_of_rows_and_views_gives_what_the_queries_say(
    early: set[str], steps: list[tuple[str, Any]]
) -> None:
    """After whatever order of appends, late rows, seals, views declared in between and rounds, each part is its query's
    answer."""
    with tempfile.TemporaryDirectory() as folder:
        database = StreamDatabase(Path(folder))
        try:
            database.declare(STREAMS)
            given_rows: dict[str, list[dict[str, Any]]] = {"m": [], "n": []}
            last = [("m", [{"at": 800, "g": 0, "v": 1}]), ("n", [{"at": 900, "g": 0, "v": 1}]), ("drive", None)]
            for kind, what in [*(("view", name) for name in sorted(early)), *steps, *last]:
                take_step(database, given_rows, kind, what)
            require_right(database, given_rows)
        finally:
            database.close()

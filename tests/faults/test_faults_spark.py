"""The same faults on real Spark: workers and drivers that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from child import SUPPORT
from pipeline_database import VIEWS, Shop
from viewkeeper.trace import points

pytestmark = [pytest.mark.spark, pytest.mark.faults]


KILLED_AT = [point for point in points.POINTS if point not in ("log read", "before commit")]
"""Each costs a Spark of its own.  At the other two nothing has been written yet, or all has and nobody writes: there
`test_faults_driver` kills, and here "zone file written" has tasks at both."""


def run_child(faults: Path, call: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"import shop_on_spark as t; t.{call}"], cwd=SUPPORT, capture_output=True, text=True,
        env={**os.environ, "VIEWKEEPER_FAULTS": str(faults)}, timeout=300, check=False,
    )  # fmt: skip


def test_a_killed_worker_is_replaced(tmp_path: Path) -> None:
    """Wherever a worker is killed Spark tries its task again, and nothing is lost or doubled."""
    ended = run_child(tmp_path, f"lose_workers(t.Path({str(tmp_path)!r}))")
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("point", KILLED_AT)
def test_a_killed_driver_is_followed_by_the_next(tmp_path: Path, point: str) -> None:
    """Where the driver is killed, while its workers may still be writing, the next one finds everything right."""
    ended = run_child(tmp_path, f"lose_the_driver(t.Path({str(tmp_path)!r}), {point!r})")
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    shop = Shop(tmp_path)
    if not shop.snapshot.catalog.views:
        shop.declare(VIEWS)
    shop.maintain_once()
    assert shop.wrong_views() == []


def test_the_loss_of_java_is_named_and_an_interrupted_start_leaves_none_behind(tmp_path: Path) -> None:
    """Ctrl-C while Java starts leaves it whole, and usable; when it is lost every use of Spark says so."""
    ended = subprocess.run(
        [sys.executable, "-c", f"import shop_on_spark as t; t.outlive_java(t.Path({str(tmp_path)!r}))"], cwd=SUPPORT,
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr

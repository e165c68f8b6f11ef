"""Batches: from logs through zones to a commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_database import Shop
from viewkeeper.pipeline import batches
from viewkeeper.pipeline.local_executor import LocalExecutor


def test_every_view_holds_its_querys_answer_after_each_batch(tmp_path: Path) -> None:
    """After every batch every view equals its query over the rows written so far."""
    shop = Shop(tmp_path)
    maintainer = shop.maintainer()
    for seed in range(12):
        shop.write(seed, operations=40)
        shop.catch_up(maintainer)
        assert shop.wrong_views() == []
    maintainer.close()


@pytest.mark.parametrize("servers", [1, 2, 8])
def test_views_do_not_depend_on_view_servers(tmp_path: Path, servers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """1, 2 and 8 view servers, whose rows cross between them, make the same views."""
    monkeypatch.setattr(batches, "CHAINED_MAX", 0)
    shop = Shop(tmp_path)
    maintainer = shop.maintainer(LocalExecutor(servers))
    for seed in range(6):
        shop.write(seed, operations=40)
        shop.catch_up(maintainer)
        assert shop.wrong_views() == []
    maintainer.close()


def test_views_do_not_depend_on_cuts(tmp_path: Path) -> None:
    """The same operations in many small batches and in one make the same views."""
    shop = Shop(tmp_path)
    shop.maintain_once()
    shop.write(1, operations=150)
    before = shop.snapshot.version
    shop.maintain_once(operations_max=10)
    assert shop.snapshot.version > before + 10
    assert shop.wrong_views() == []

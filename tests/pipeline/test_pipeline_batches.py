"""Batches: from logs through zones to a commit."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

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


def test_what_comes_in_several_calls_after_a_pause_is_one_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch after a pause waits for calls that follow closely, the next one does not."""
    shop = Shop(tmp_path)
    maintainer = shop.maintainer()
    shop.catch_up(maintainer)
    assert not maintainer.step()
    version, slept = shop.snapshot.version, []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) <= 2:
            shop.write(len(slept), operations=5)

    # of this module alone: other threads of the process sleep too, and would be counted
    monkeypatch.setattr(batches, "time", SimpleNamespace(sleep=sleep))
    shop.write(0, operations=5)
    assert maintainer.step()
    assert (shop.snapshot.version, len(slept)) == (version + 1, 3)
    assert shop.wrong_views() == []
    shop.write(3, operations=5)
    assert maintainer.step()
    assert (shop.snapshot.version, len(slept)) == (version + 2, 3)
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

"""What a check is shown of a database."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_database import Shop
from viewkeeper.checker.check import check_views
from viewkeeper.errors import Damaged
from viewkeeper.evidence import DatabaseEvidence
from viewkeeper.trace.local_disk import local_storage
from viewkeeper.views.version import Version


def test_a_check_names_the_file_and_the_region_where_bytes_have_changed(tmp_path: Path) -> None:
    """A flipped bit in what a check reads is told as damage, not as a difference that a defect might have made."""
    shop = Shop(tmp_path, views="CREATE VIEW cheap AS SELECT id, price FROM orders WHERE price < 50;")
    shop.write(1, 200)
    shop.maintain_once()
    snapshot = shop.snapshot
    (view,) = snapshot.catalog.views
    for state in (view.stored.state, snapshot.catalog.tables[0].stored.state):
        run = snapshot.trace(state).runs[-1]
        assert run.ref is not None and run.file is not None
        part = run.file.sections[run.ref.section].parts["words"]
        path, at = (shop.storage.root / "state") / run.ref.file, part.span[0]
        sound = path.read_bytes()
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :])
        version = Version(local_storage(tmp_path).newest())
        with pytest.raises(Damaged, match=f"{run.ref.file}.*words"):
            check_views(DatabaseEvidence(version, shop.logs), [view.name], None)
        path.write_bytes(sound)
    version = Version(local_storage(tmp_path).newest())
    assert all(report.ok for report in check_views(DatabaseEvidence(version, shop.logs), [view.name], None))

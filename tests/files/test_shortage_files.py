"""A process with few file descriptors reads and maintains many views: a mapped file keeps none open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import viewkeeper
from child import SUPPORT
from local_maintenance import catch_up
from viewkeeper.trace import run
from viewkeeper.trace.mapping import mapped

PROGRAM = """
import resource, sys
import viewkeeper
from local_maintenance import catch_up

def made(db, first, last):
    for i in range(first, last):
        db.sql(f"CREATE TABLE t{i} (id BIGINT, x INT, PRIMARY KEY (id)); "
               f"CREATE VIEW v{i} AS SELECT x, count(*) AS n FROM t{i} GROUP BY x")
        db.table(f"t{i}").put({"id": i, "x": 1})
        if i % 10 == 9:
            catch_up(db)

with viewkeeper.connect(sys.argv[1], durability="process") as db:
    made(db, 0, 20)
    # So few are left that no file can keep one: less than half of the views there will be.
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    made(db, 20, 100)
    for i in range(100):
        assert db.view(f"v{i}").get(1) == {"x": 1, "n": 1}
    with db.snapshot() as held:
        assert all(held.view(f"v{i}").get(1)["n"] == 1 for i in range(100))
print("well")
"""


def test_a_process_with_few_descriptors_maintains_and_reads_many_views(tmp_path: Path) -> None:
    """100 tables and views with 40 descriptors, those of the store and of Python itself included."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path / "db")], cwd=SUPPORT,
                          capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.stdout == "well\n", done.stderr[-3000:]


def test_a_mapped_file_stays_readable_when_it_is_deleted_and_goes_with_its_last_buffer(tmp_path: Path) -> None:
    def maps() -> int:
        return Path("/proc/self/maps").read_text().count(str(tmp_path))

    path = tmp_path / "file"
    path.write_bytes(b"x" * 10_000)
    whole = mapped(path)
    part = memoryview(whole)[9_000:]
    del whole
    path.unlink()
    assert maps() == 1 and bytes(part) == b"x" * 1000
    del part
    assert maps() == 0
    (tmp_path / "empty").touch()
    assert mapped(tmp_path / "empty").size == 0
    with pytest.raises(FileNotFoundError):
        mapped(tmp_path / "absent")


def test_files_are_let_go_before_there_are_too_many_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has been opened is opened again when asked for, by readers of the newest version and of a held one."""
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        for i in range(20):
            db.sql(f"CREATE TABLE t{i} (id BIGINT, x INT, PRIMARY KEY (id)); CREATE VIEW v{i} AS SELECT x FROM t{i}")
            db.table(f"t{i}").put({"id": 1, "x": i})
            catch_up(db)
        with db.snapshot() as held:
            held.view("v3").get(3)
            monkeypatch.setattr(run, "FILES_OPEN_MAX", 8)
            for _ in range(3):
                for i in range(20):
                    assert db.view(f"v{i}").get(i) == [{"x": i}] == held.view(f"v{i}").get(i)
            assert len({file for file in maps_of(db.root) if file.endswith(".zone")}) <= 8 + 2


def maps_of(folder: Path) -> list[str]:
    """The files in `folder` that this process has mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line.rpartition("/")[2] for line in lines if str(folder) in line]

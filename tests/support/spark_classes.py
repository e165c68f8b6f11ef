"""An archive of the classes that Spark's Java processes load: with it each of the dozen and more that the tests start
is ready 6 s sooner.  Run as a program it makes the archive, where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ARCHIVE = Path(sys.prefix, "spark-classes.jsa")
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
"""A test's Spark lives for seconds, in which Java would spend half of its time on compiling well what soon ends.  For
so little compiling it sets aside 48 MB, which a session of many tests fills: from then on it would throw away what it
has compiled, and interpret."""

WORKERS = Path(__file__).parent / "workers"
"""The folder of the module `warm_workers`, alone in it: what else supports tests reaches workers by way of Spark."""

USE = """
import tempfile, viewkeeper
with tempfile.TemporaryDirectory() as root, viewkeeper.connect(root) as db:
    db.sql("CREATE TABLE t (id BIGINT, g BIGINT, d DECIMAL(10, 2), PRIMARY KEY (id))")
    db.sql("CREATE VIEW v AS SELECT g, sum(d) AS s, count(*) AS n FROM t GROUP BY g")
    db.table("t").put({"id": 1, "g": 1, "d": 3})
    db.catch_up(timeout=120)
    db.check_all()
    db.sql("SELECT v.g, avg(t.d) FROM t JOIN v ON t.g = v.g GROUP BY v.g ORDER BY 1", engine="spark")
"""
"""What most of the tests' Spark processes do."""


def java_options() -> str:
    """What Java is told by tests; an archive of another Java or Spark is passed over, without a word."""
    options = f"{QUICK} -Dspark.python.daemon.module=warm_workers"
    return f'{options} -Xlog:disable "-XX:SharedArchiveFile={ARCHIVE}"' if ARCHIVE.exists() else options


def make() -> None:
    """Makes the archive; it is there whole or not at all."""
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as folder:
        made = Path(folder, ARCHIVE.name)
        options = f'{QUICK} "-XX:ArchiveClassesAtExit={made}"'
        # Java writes it when Python has ended, and has the output open until then.
        subprocess.run([sys.executable, "-c", USE], check=True, stdout=subprocess.PIPE,
                       env={**os.environ, "SPARK_SUBMIT_OPTS": options})  # fmt: skip
        made.replace(ARCHIVE)


if __name__ == "__main__" and not ARCHIVE.exists():
    make()

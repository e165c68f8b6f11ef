"""Spark as viewkeeper starts it is open to nobody else."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

PROGRAM = """
import ipaddress, json, os, sys
from pathlib import Path
import viewkeeper
from viewkeeper.pipeline.spark_executor import session

def address(text):
    words = bytes.fromhex(text)
    return ipaddress.ip_address(b"".join(words[i : i + 4][::-1] for i in range(0, len(words), 4)))

def family():
    below = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            below.setdefault(int(parent), []).append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    found, waiting = [], [os.getpid()]
    while waiting:
        found.append(waiting.pop())
        waiting += below.get(found[-1], [])
    return found

def listening():
    where = {}
    for name in ("tcp", "tcp6"):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                where[fields[9]] = fields[1].split(":")[0]
    seen = {}
    for pid in family():
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                target = os.readlink(link)
            except OSError:
                continue
            if target.startswith("socket:") and target[8:-1] in where:
                seen.setdefault(Path(f"/proc/{pid}/comm").read_text().strip(), set()).add(where[target[8:-1]])
    return seen

if "ui" in sys.argv:
    spark, _ = session(1, ui=True)
with viewkeeper.connect(sys.argv[1]) as db:
    db.sql("CREATE TABLE t (id BIGINT, PRIMARY KEY (id)); CREATE VIEW v AS SELECT id FROM t")
    db.sql("CREATE STREAM m (ts TIMESTAMP NOT NULL) TIMESTAMP BY ts PARTITION LENGTH 60")
    db.sql("CREATE VIEW p AS SELECT year(ts) AS y FROM m")
    with db.maintain(servers=1):
        token = db.table("t").put({"id": 1})
        db.stream("m").append([{"ts": f"2024-01-01 00:0{i}"} for i in range(3)])
        db.catch_up(timeout=120)
        seen = listening()
        commands = " ".join(Path(f"/proc/{pid}/cmdline").read_text() for pid in family())
    settings = dict(db._spark.session().sparkContext.getConf().getAll())
def is_open(text):
    found = address(text)
    return not (getattr(found, "ipv4_mapped", None) or found).is_loopback

print(json.dumps({
    "processes": sorted(seen), "open": sorted({text for each in seen.values() for text in each if is_open(text)}),
    "authenticate": settings["spark.authenticate"], "environment": os.environ.get("SPARK_LOCAL_IP"),
    "secret": any("spark.authenticate." + "secret" in text for text in (*settings, commands)),
}))
"""


def own_address() -> str:
    """An address of this machine that others can reach, if it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def test_a_worker_that_spark_lets_go_of_ends_without_a_word() -> None:
    """Spark closes a worker that was idle for a minute."""
    program = "import socket\nfrom viewkeeper.spark.daemon import worker\nours, theirs = socket.socketpair()\n" \
              "theirs.close()\nprint(worker(ours, True))"  # fmt: skip
    environment = {**os.environ, "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1"}  # as Spark has it
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False,
                          env=environment)  # fmt: skip
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux's list of sockets")
@pytest.mark.parametrize("ui", [[], ["ui"]], ids=["without the user interface", "with it"])
def test_nobody_outside_this_machine_can_connect_while_views_are_maintained(tmp_path: Path, ui: list[str]) -> None:
    environment = {**os.environ, "SPARK_LOCAL_IP": own_address()}
    done = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path / "db", *ui], capture_output=True, text=True,
                          timeout=300, check=False, env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert "java" in found["processes"]
    assert found["open"] == []
    assert (found["authenticate"], found["secret"]) == ("true", False)
    assert found["environment"] == own_address()

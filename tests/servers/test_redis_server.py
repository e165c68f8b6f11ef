"""A real Redis, and what it shows of all servers: none is left over, none is started twice, errors say what to do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from redis import Redis as Client

from viewkeeper.errors import Busy, Error
from viewkeeper.servers import Redis
from viewkeeper.servers.lifeline import FOREVER, of_fifo
from viewkeeper.servers.ports import free_port

START_AND_WAIT = """
import sys, time
from viewkeeper.servers import Redis
Redis(sys.argv[1]).start()
print("started", flush=True)
time.sleep(1000)
"""


def is_gone(server: Redis, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while server.running and time.monotonic() < deadline:
        time.sleep(0.02)
    return not server.running


def test_what_redis_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    with Redis(tmp_path) as server:
        url = server.url
        with Client.from_url(url) as client:
            client.hset("orders:1", mapping={"price": "19.90"})
        server.kill()
        assert not server.running
        server.start()
        assert server.url == url
        with Client.from_url(url, decode_responses=True) as client:
            assert client.hgetall("orders:1") == {"price": "19.90"}
        server.stop()
        assert not server.running


def test_no_server_outlives_the_process_that_started_it(tmp_path: Path) -> None:
    starter = subprocess.Popen([sys.executable, "-c", START_AND_WAIT, str(tmp_path)], stdout=subprocess.PIPE)
    assert starter.stdout is not None
    with starter:
        assert starter.stdout.readline() == b"started\n"
        server = Redis(tmp_path)
        assert server.running
        os.kill(starter.pid, signal.SIGKILL)
    assert is_gone(server)


def test_a_server_lives_as_long_as_anybody_holds_its_lifeline(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "held")
    lifeline = of_fifo(tmp_path / "held")
    writers = [os.open(tmp_path / "held", os.O_WRONLY) for _ in range(2)]
    server = Redis(tmp_path / "redis", lifeline=lifeline)
    server.start()
    os.close(writers.pop())
    assert not is_gone(server, 0.3)
    os.close(writers.pop())
    assert is_gone(server)


def test_who_has_not_started_a_server_finds_and_ends_it(tmp_path: Path) -> None:
    port = free_port()
    Redis(tmp_path, port, lifeline=FOREVER).start()
    found = Redis(tmp_path)
    assert (found.running, found.address) == (True, f"127.0.0.1:{port}")
    found.start()  # it runs: nothing is to be done
    found.kill()
    assert not found.running


def test_no_folder_is_served_twice(tmp_path: Path) -> None:
    with Redis(tmp_path) as server:
        (process,) = server.processes
        with pytest.raises(Busy, match=f"redis runs already in {tmp_path} .process {process.pid}."):
            Redis(tmp_path).processes[0].start(["true"], FOREVER)


def test_a_port_that_is_taken_is_named_and_who_has_it(tmp_path: Path) -> None:
    with Redis(tmp_path / "one") as one:
        process = one.processes[0].pid
        with pytest.raises(Busy, match=rf"port {one.port} of 127.0.0.1 is taken by redis-server \(process {process}\)"):
            Redis(tmp_path / "two", one.port).start()
    assert not Redis(tmp_path / "two").running


def test_a_server_that_ends_while_starting_says_why(tmp_path: Path) -> None:
    with pytest.raises(
        Error, match=rf"redis ended while starting, see {tmp_path}/redis.log; its last line: .*one of the following"
    ):
        Redis(tmp_path, settings={"appendfsync": "maybe"}).start()


def test_what_the_machine_has_no_memory_for_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Redis, "memory_mb", 10**9)
    with pytest.raises(Error, match=r"redis takes about 1,000,000,000 MB of memory, and [\d,]+ MB are available"):
        Redis(tmp_path).start()


def test_tests_share_a_redis(redis: Redis) -> None:
    with Client.from_url(redis.url) as client:
        assert client.ping()

"""Redis: one server, with its append-only file."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from viewkeeper.errors import NotFound
from viewkeeper.servers.fetching import program
from viewkeeper.servers.lifeline import Lifeline
from viewkeeper.servers.ports import LOOPBACK
from viewkeeper.servers.server import Server, log
from viewkeeper.servers.server_process import ServerProcess

START_SECONDS = 60.0
_OLDEST = 7

_SETTINGS = {
    "bind": LOOPBACK, "daemonize": "no", "save": "",
    # Each write is in the file before it is acknowledged: nothing is lost by kill -9, a second of it by a power loss.
    "appendonly": "yes", "appendfsync": "everysec",
}  # fmt: skip


class Redis(Server):
    """A server; `settings` are those of `redis.conf`."""

    name, usual_port, memory_mb = "redis", 6379, 20

    def __init__(self, folder: Path | str, port: int | None = None, *, settings: Mapping[str, str] | None = None,
                 lifeline: Lifeline | None = None) -> None:  # fmt: skip
        super().__init__(folder, port, lifeline=lifeline)
        self._process = ServerProcess(self.folder, self.name)
        self._settings = dict(settings or {})

    @property
    def processes(self) -> Sequence[ServerProcess]:
        return (self._process,)

    @property
    def url(self) -> str:
        """What its clients call its address."""
        return f"redis://{self.address}"

    def _start(self) -> None:
        command = [_server_program()]
        port = self._take_ports()[self.name]
        settings = {**_SETTINGS, "port": str(port), "dir": str(self.folder), **self._settings}
        for name, value in settings.items():
            command += [f"--{name}", value]
        log.info("redis: starting on port %d", port)
        self._process.start(command, self._lifeline)
        self._process.wait_until(self._answers, START_SECONDS)

    def _answers(self) -> bool:
        """While it reads its file it takes connections, and says that it is not ready."""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False


def _server_program() -> str:
    found = program("redis-server", package="redis-server")
    told = subprocess.run([found, "--version"], capture_output=True, text=True).stdout
    version = re.search(r"v=(\d+)", told)
    if not version or int(version[1]) < _OLDEST:
        raise NotFound(f"viewkeeper needs Redis {_OLDEST} or newer, and {found} is: {told.strip()}")
    return found

"""What all servers have: a folder, a port, and how they are started, stopped and killed."""

from __future__ import annotations

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from viewkeeper.durable import replace
from viewkeeper.errors import Error
from viewkeeper.permissions import make_root
from viewkeeper.servers.lifeline import Lifeline, this_process
from viewkeeper.servers.ports import LOOPBACK, free_port, require_free
from viewkeeper.servers.server_process import ServerProcess

log = logging.getLogger("viewkeeper.progress")

STOP_SECONDS = 10.0
"""More than a server takes that ends in order."""


class Server(ABC):
    """A server on loopback whose data are in `folder`, and stay there when it ends; `with` it, it runs.

    Without `port` it has the port of the last time, else a free one. It is killed when this process ends, however that
    comes, or with another lifeline when that says so.
    """

    name: ClassVar[str]
    usual_port: ClassVar[int]
    """Where its clients look if nobody says."""

    memory_mb: int
    """What it takes with little in it, at most."""

    def __init__(self, folder: Path | str, port: int | None = None, *, lifeline: Lifeline | None = None) -> None:
        self.folder = Path(folder).absolute()
        self._ports_file = self.folder / "ports.json"
        self._chosen_port, self._lifeline = port, lifeline or this_process()

    @property
    @abstractmethod
    def processes(self) -> Sequence[ServerProcess]:
        """All of it, in the order in which they are started."""

    def start(self) -> None:
        """Starts it, with the data that are there; returns when it answers.  Harmless where it runs."""
        if not self.running:
            self._require_memory()
            self._start()

    @abstractmethod
    def _start(self) -> None:
        """Starts what does not run of it."""

    def stop(self) -> None:
        """Ends it in order; harmless where it does not run."""
        for process in reversed(self.processes):
            process.stop(STOP_SECONDS)

    def kill(self) -> None:
        """kill -9; returns when it is gone."""
        for process in self.processes:
            process.kill()

    @property
    def running(self) -> bool:
        """Whether all of it is there."""
        return all(process.pid is not None for process in self.processes)

    @property
    def port(self) -> int:
        """Where it is asked, or will be when it is started; raises Error if nobody has said and it never was."""
        port = self._ports().get(self.name)
        if self._chosen_port and not (port and self.running):
            port = self._chosen_port
        if not port:
            raise Error(f"{self.name} in {self.folder} was never started: it gets its port then")
        return port

    @property
    def address(self) -> str:
        """Where it is asked, as most clients want it: host and port."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def has_run(self) -> bool:
        """Whether it was ever started in this folder."""
        return self._ports_file.exists()

    def _ports(self) -> dict[str, int]:
        return json.loads(self._ports_file.read_text()) if self._ports_file.exists() else {}

    def _take_ports(self, *others: str) -> dict[str, int]:
        """Free ports for the server and its `others`, those of the last time as far as nobody says otherwise."""
        make_root(self.folder)
        ports = {name: port for name, port in self._ports().items() if name in (self.name, *others)}
        if self._chosen_port:
            ports[self.name] = self._chosen_port
        for name in (self.name, *others):
            ports.setdefault(name, free_port())
        for port in ports.values():
            require_free(port, self.name)
        replace(str(self._ports_file), json.dumps(ports).encode())
        return ports

    def _require_memory(self) -> None:
        """Raises Error where the machine has not what it takes: else one that is killed for it says nothing."""
        try:
            lines = Path("/proc/meminfo").read_text().splitlines()
        except FileNotFoundError:
            return
        available = next((int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable:")), None)
        if available is not None and available < self.memory_mb:
            raise Error(f"{self.name} takes about {self.memory_mb:,} MB of memory, and {available:,} MB are available")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.kill()

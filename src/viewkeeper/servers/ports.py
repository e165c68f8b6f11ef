"""Ports of loopback: free ones, and who has one that is taken."""

from __future__ import annotations

import contextlib
import errno
import random
import socket
from pathlib import Path

from viewkeeper.errors import Busy

LOOPBACK = "127.0.0.1"

_LOWEST, _USUAL_CEILING = 10_000, 32_768
_TRIES = 1_000
_LISTENING = "0A"
"""The state of such a socket in /proc/net/tcp."""


def free_port() -> int:
    """A port that nobody has, and that stays free while a server is down between two starts: it is below those that
    the system gives to whoever asks for any."""
    anyhow = random.SystemRandom()  # tests that fix the seed of `random` would all get the same port
    for _ in range(_TRIES):
        port = anyhow.randrange(_LOWEST, _ceiling())
        if _is_free(LOOPBACK, port):
            return port
    raise Busy(f"found no free port from {_LOWEST} to {_ceiling()}")


def _ceiling() -> int:
    with contextlib.suppress(FileNotFoundError):
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        return first if first > _LOWEST * 2 else _USUAL_CEILING
    return _USUAL_CEILING


def require_free(port: int, server: str, host: str = LOOPBACK) -> None:
    """Raises Busy, with the name of the process where that can be found, if `server` cannot have the port."""
    if not _is_free(host, port):
        raise Busy(f"{server} cannot start: port {port} of {host} is taken by {_holder(port)}; choose another one")


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of a server that was, do not count
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True


def is_open(port: int, host: str = LOOPBACK) -> bool:
    """Whether somebody takes connections there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0


def _holder(port: int) -> str:
    """The process that listens there, as far as this one may know."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    for descriptor in Path("/proc").glob("[0-9]*/fd/*") if sockets else ():
        with contextlib.suppress(OSError):  # not ours to look at, or gone meanwhile
            if str(descriptor.readlink()) in sockets:
                process = descriptor.parts[2]
                return f"{Path('/proc', process, 'comm').read_text().strip()} (process {process})"
    return "another process"


def _listening_inodes(port: int) -> set[str]:
    found = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            _, local, _, state, *rest = line.split()
            if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                found.add(rest[5])
    return found

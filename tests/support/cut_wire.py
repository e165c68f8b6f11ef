"""A network between a client and a server that can be cut."""

from __future__ import annotations

import socket
import threading
from contextlib import closing, suppress
from types import TracebackType
from typing import Self


class Wire:
    """Passes what comes to `port` of this machine on to `to`, another one, and back, until it is cut."""

    def __init__(self, to: int) -> None:
        self._to, self._lock = to, threading.Lock()
        self._open: set[socket.socket] = set()
        self._listening: socket.socket | None = None
        self.port = 0
        self.mend()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()

    def mend(self) -> None:
        """From now on it passes on; on the port that it had."""
        listening = socket.create_server(("127.0.0.1", self.port))
        self.port = listening.getsockname()[1]
        self._listening = listening
        threading.Thread(target=self._accept, args=[listening], daemon=True).start()

    def cut(self) -> None:
        """Nothing that is on its way arrives, and nobody can connect."""
        with self._lock:
            ended, self._open = [*self._open, *([self._listening] if self._listening else [])], set()
            self._listening = None
        for each in ended:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near = listening.accept()[0]
                far = socket.create_connection(("127.0.0.1", self._to))
                with self._lock:
                    if self._listening is not listening:
                        near.close()
                        far.close()
                        return
                    self._open |= {near, far}
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=[one, other], daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with closing(one), closing(other), suppress(OSError):
            while data := one.recv(65_536):
                other.sendall(data)

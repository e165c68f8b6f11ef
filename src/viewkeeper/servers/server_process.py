"""One process of a server: started, watched, ended, also by processes that have not started it.

`NAME.pid` in its folder holds its number, and is locked by the process itself for as long as it lives: so nobody takes
another process with the same number for it, and no folder is served twice. What it says goes to `NAME.log`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from viewkeeper.errors import Busy, Error, Timeout
from viewkeeper.servers.lifeline import Lifeline

_POLL_SECONDS = 0.05
_LOCK_TRIES = 20
_END_SECONDS = 30.0
"""More than the system takes to clear a killed process away."""

_SCRIPT = """
exec 3<&0 4>&1 1>&2
echo $$ >&4
[ -z "$1" ] || { exec 4>&-; read -r end <&3; kill -9 0; } &
shift
exec "$@" </dev/null 3<&-
"""
"""Standard input is the lifeline, standard output the locked file, standard error the log."""


class ServerProcess:
    """The process `name` of the server in `folder`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._note = folder / f"{name}.pid"
        self._child: subprocess.Popen[bytes] | None = None
        self._log_begin = 0

    def start(self, command: Sequence[str], lifeline: Lifeline, environment: Mapping[str, str] | None = None) -> None:
        """Starts it; raises Busy where it runs."""
        note = os.open(self._note, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._lock(note)
            os.ftruncate(note, 0)
            with self.log.open("ab") as log:
                self._log_begin = log.tell()
                self._child = subprocess.Popen(
                    ["/bin/sh", "-c", _SCRIPT, "server", "" if lifeline.reader is None else "held", *command],
                    stdin=subprocess.DEVNULL if lifeline.reader is None else lifeline.reader, stdout=note, stderr=log,
                    cwd=self.log.parent, env=None if environment is None else {**os.environ, **environment},
                    start_new_session=True,  # a group of its own, which Ctrl-C does not reach
                )  # fmt: skip
        finally:
            os.close(note)

    def _lock(self, note: int) -> None:
        for _ in range(_LOCK_TRIES):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            time.sleep(_POLL_SECONDS)  # who looks whether it runs has the lock for a moment
        raise Busy(f"{self.name} runs already in {self.log.parent} (process {self.pid})")

    @property
    def pid(self) -> int | None:
        """Its number if it lives."""
        try:
            note = os.open(self._note, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(note, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(os.read(note, 100) or 0) or None
        finally:
            os.close(note)
        return None

    @property
    def log_size(self) -> int:
        """How long its log is by now, in bytes."""
        return self.log.stat().st_size

    def said(self, text: str, since: int | None = None) -> bool:
        """Whether the text is in its log, after so many bytes, or since it was started from here."""
        with self.log.open("rb") as log:
            log.seek(self._log_begin if since is None else since)
            return text.encode() in log.read()

    def wait_until(self, ready: Callable[[], bool], seconds: float) -> None:
        """Returns when it is `ready`; raises Error with the end of its log where it ends before, or Timeout.

        Then, and when it is interrupted, the process is gone.
        """
        try:
            deadline = time.monotonic() + seconds
            while not ready():
                if self._ended():
                    raise Error(f"{self.name} ended while starting, {self._last_words()}")
                if time.monotonic() > deadline:
                    raise Timeout(f"{self.name} does not answer after {seconds:g} seconds, {self._last_words()}")
                time.sleep(_POLL_SECONDS)
        except BaseException:
            self.kill()
            raise

    def _ended(self) -> bool:
        return self._child.poll() is not None if self._child else self.pid is None

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return f"see {self.log}; its last line: {next((line for line in reversed(lines) if line.strip()), '(none)')}"

    def stop(self, seconds: float) -> None:
        """Asks it to end and waits so long, then kills it."""
        self._signal(signal.SIGTERM, whole_group=False)
        self.end_within(seconds)

    def end_within(self, seconds: float) -> None:
        """Waits so long for it to end, as it was told, then kills it."""
        if not self._is_gone_after(seconds):
            self.kill()

    def kill(self) -> None:
        """kill -9; returns when it is gone."""
        self._signal(signal.SIGKILL, whole_group=True)
        if not self._is_gone_after(_END_SECONDS):
            raise Timeout(f"{self.name} (process {self.pid}) is still there after kill -9")

    def _signal(self, number: int, whole_group: bool) -> None:
        if pid := self.pid:
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if whole_group else os.kill)(pid, number)

    def _is_gone_after(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.pid is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        if self._child:
            self._child.wait()
            self._child = None
        return True

"""The demo's other processes: they begin at a line on their standard input, work until it ends, and say in JSON lines
how far they are.

A process whose parent dies, however it dies, so ends by itself.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from viewkeeper.errors import Error

STOP_SECONDS = 90.0
"""More than any process takes for what it is at."""

READY_POLL_SECONDS = 0.05


class Process:
    """Runs `python -m viewkeeper.demo.<module> FOLDER` until `stop`, or until its block ends."""

    def __init__(self, module: str, folder: Path, *arguments: str) -> None:
        self.name = module
        self.latest: dict[str, Any] = {}
        command = [sys.executable, "-m", f"viewkeeper.demo.{module}", str(folder), *arguments]
        # In a session of its own, so that Ctrl-C reaches the parent alone, which ends all in order.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self._process.stdin is not None and self._process.stdout is not None, "both are pipes"
        self._input, self._output = self._process.stdin, self._process.stdout
        self._listener = threading.Thread(target=self._listen, name=f"demo {module}", daemon=True)
        self._listener.start()

    def wait_until_ready(self) -> None:
        """Returns when it could begin; raises Error where it ends before."""
        while not self.latest:
            self.require_alive()
            time.sleep(READY_POLL_SECONDS)

    def begin(self) -> None:
        """Lets it do its work."""
        self._input.write("begin\n")
        self._input.flush()

    def require_alive(self) -> None:
        """Raises Error where the process has ended by itself: what went wrong stands on its standard error."""
        if self._process.poll() is not None:
            raise Error(f"the demo's {self.name} process ended with exit code {self._process.returncode}")

    def stop(self) -> dict[str, Any]:
        """Lets it finish what it is at; what it told last."""
        self._end()
        if self._process.returncode != 0:
            raise Error(f"the demo's {self.name} process ended with exit code {self._process.returncode}")
        return self.latest

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        self._input.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()

    def _listen(self) -> None:
        for line in self._output:
            self.latest = json.loads(line)


def tell(**facts: Any) -> None:
    """Says to the parent how far this process is; the last word counts."""
    print(json.dumps(facts), flush=True)


def ready(**facts: Any) -> None:
    """Says that this process could begin, and waits until it may (or is told to stop)."""
    tell(**facts)
    sys.stdin.readline()


def told_to_stop(wait_seconds: float) -> bool:
    """Whether the parent wants this process to end; waits for that word for so long."""
    readable, _, _ = select.select([sys.stdin], [], [], max(0.0, wait_seconds))
    return bool(readable)

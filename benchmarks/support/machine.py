"""The machine that is measured on, and what processes use of it: CPU seconds, anonymous memory."""

from __future__ import annotations

import contextlib
import os
import platform
import tempfile
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any, Self

import psutil  # type: ignore[import-untyped]

from viewkeeper.errors import NotSupported


def describe(folder: Path | None = None) -> dict[str, Any]:
    """Cores, processor, memory, the file system that is written to, and how busy the machine was just before."""
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "files": _file_system(folder or Path(tempfile.gettempdir())),
        "load before": round(os.getloadavg()[0], 1),
    }


def _processor() -> str:
    for line in _lines(Path("/proc/cpuinfo")):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _file_system(folder: Path) -> str:
    mounts = [mount for mount in psutil.disk_partitions(all=True) if folder.resolve().is_relative_to(mount.mountpoint)]
    deepest = max(mounts, key=lambda mount: len(mount.mountpoint), default=None)
    return "unknown" if deepest is None else deepest.fstype


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def family(without: Collection[int] = ()) -> list[psutil.Process]:
    """This process and all below it (the JVM, Spark's workers), except `without` and what is below those."""
    me = psutil.Process()
    left_out = {child.pid for pid in without if psutil.pid_exists(pid)
                for child in psutil.Process(pid).children(recursive=True)} | set(without)  # fmt: skip
    return [me, *(child for child in me.children(recursive=True) if child.pid not in left_out)]


class CpuMeter:
    """User and system seconds that this family of processes uses within the block, then in `seconds`.

    A thread looks twice a second, so that what a process used that ended meanwhile is not lost.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._before: dict[int, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="cpu meter", daemon=True)

    def __enter__(self) -> Self:
        self._before = _cpu_of_family()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        last = dict(self._before)
        while True:
            stopping = self._stop.wait(0.5)
            last |= _cpu_of_family()
            self.seconds = sum(used - self._before.get(pid, 0.0) for pid, used in last.items())
            if stopping:
                return


def _cpu_of_family() -> dict[int, float]:
    used = {}
    for process in family():
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            used[process.pid] = times.user + times.system
    return used


def anonymous_bytes(without: Collection[int] = ()) -> dict[str, int]:
    """Resident memory that no file backs, of the driver (this process), the JVM and Spark's workers."""
    found = {"driver": 0, "JVM": 0, "workers": 0}
    for process in family(without):
        try:
            name = "driver" if process.pid == os.getpid() else "JVM" if process.name() == "java" else "workers"
        except psutil.NoSuchProcess:
            continue
        found[name] += _anonymous(process.pid)
    return found


def _anonymous(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError as error:
        if not Path("/proc/self/status").exists():
            raise NotSupported("anonymous memory is measured on Linux only") from error
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))

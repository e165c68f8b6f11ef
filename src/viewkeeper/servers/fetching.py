"""What servers are made of, fetched once: jars by Maven into a cache, programs by Debian's packages.

The cache is `~/.cache/viewkeeper/servers` (or within XDG_CACHE_HOME; VIEWKEEPER_SERVERS names another folder). A folder
of jars is named for the sum of its pom, and is whole or not there: what is fetched gets its name at the end.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from viewkeeper.errors import Error, NotFound

log = logging.getLogger("viewkeeper.progress")

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.11.0:copy-dependencies"
_TOLD_SECONDS = 2.0
"""From one word about how far a fetch is to the next."""


def cache_folder() -> Path:
    """Where all that is fetched goes."""
    if named := os.environ.get("VIEWKEEPER_SERVERS"):
        return Path(named).absolute()
    around = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(around, "viewkeeper", "servers")


def jars(server: str, megabytes: int, pom: bytes | None = None) -> Path:
    """The folder with the jars of `server`, about so large, that its `pom` lists, or `SERVER_pom.xml`; fetched if it is
    not there."""
    pom = (Path(__file__).parent / f"{server}_pom.xml").read_bytes() if pom is None else pom
    folder = cache_folder() / f"{server}-{hashlib.sha256(pom).hexdigest()[:12]}"
    if not folder.is_dir():
        with _alone(server) as lock:
            if not folder.is_dir():  # another may have fetched it meanwhile
                _fetch(server, megabytes, pom, folder, lock)
    return folder


@contextmanager
def _alone(what: str) -> Iterator[int]:
    """The only one on this machine that fetches it; the descriptor of the lock, for programs that work on after us."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    lock = os.open(cache_folder() / f"{what}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def _fetch(server: str, megabytes: int, pom: bytes, folder: Path, lock: int) -> None:
    maven, begin = program("mvn", package="maven"), time.monotonic()
    work = cache_folder() / f"{server}.part"
    shutil.rmtree(work, ignore_errors=True)  # what a killed fetch has left
    work.mkdir()
    (work / "pom.xml").write_bytes(pom)
    log.info("%s: fetching its jars, once (%d MB)", server, megabytes)
    _run_maven(server, maven, work, lock)
    (work / "jars").rename(folder)
    shutil.rmtree(work)
    log.info("%s: fetched %d jars in %.0f s", server, len(list(folder.iterdir())), time.monotonic() - begin)


def _run_maven(server: str, maven: str, work: Path, lock: int) -> None:
    """Copies the jars of `work`/pom.xml to `work`/jars, or raises Error with what Maven says is wrong.

    Maven has the lock too: were we killed, the next one would wait for it.
    """
    command = [maven, "--batch-mode", "--strict-checksums", "--file", str(work / "pom.xml"), _COPY,
               "-DincludeScope=runtime", f"-DoutputDirectory={work / 'jars'}"]  # fmt: skip
    report, fetched, told, wrong = cache_folder() / f"{server}.fetch.log", 0, time.monotonic(), ""
    running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, pass_fds=(lock,))  # fmt: skip
    with report.open("w") as kept, running:
        assert running.stdout is not None, "it is a pipe"
        try:
            for line in running.stdout:
                kept.write(line)
                wrong = wrong or (line.removeprefix("[ERROR]").strip() if line.startswith("[ERROR]") else "")
                fetched += line.startswith("Downloaded ")
                if fetched and time.monotonic() - told > _TOLD_SECONDS:
                    log.info("%s: %d files so far", server, fetched)
                    told = time.monotonic()
        except BaseException:
            running.kill()
            raise
    if running.returncode != 0:
        raise Error(f"the jars of {server} cannot be fetched: {wrong or 'Maven failed'} (all it said: {report})")


def program(name: str, package: str) -> str:
    """The path of a program; where it is missing, and we may, Debian's package is installed, else NotFound says so."""
    if found := shutil.which(name):
        return found
    refused = ""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        with _alone("apt-get"):
            refused = "" if shutil.which(name) else _install(package)
        if found := shutil.which(name):
            return found
    raise NotFound(f"found no program '{name}': install it (Debian: apt-get install {package}){refused}")


def _install(package: str) -> str:
    """Installs it; what went wrong, as the end of a sentence."""
    log.info("installing %s", package)
    report = cache_folder() / "apt-get.log"
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]
    with report.open("wb") as kept:
        for arguments in (["update"], ["install", "-y", "--no-install-recommends", package]):
            done = subprocess.run([*apt, *arguments], stdin=subprocess.DEVNULL, stdout=kept, stderr=subprocess.STDOUT,
                                  env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})  # fmt: skip
    return "" if done.returncode == 0 else f"; installing it failed, see {report}"

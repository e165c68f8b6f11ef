"""The program that serves the log of a Cassandra node (stores/outside/cassandra/CassandraLog.java): compiled when it is
first needed, with Cassandra's own jars, and started beside the node."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from viewkeeper.errors import Error
from viewkeeper.permissions import make_folder
from viewkeeper.servers.cassandra import JARS_MB, OPTIONS
from viewkeeper.servers.fetching import cache_folder, jars
from viewkeeper.servers.java import find_java
from viewkeeper.servers.lifeline import Lifeline
from viewkeeper.servers.ports import LOOPBACK, is_open
from viewkeeper.servers.server import Server, log
from viewkeeper.servers.server_process import ServerProcess
from viewkeeper.stores.outside import cassandra as sources

START_SECONDS = 60.0
_MAIN, _HEAP_MB = "CassandraLog", 256
_COMPILED_WITH = ("apache-cassandra-", "cassandra-all-", "jackson-", "guava-")
"""The jars that it names things of: some of the others have packages that the compiler takes for Java's own."""


class CassandraLog(Server):
    """It, for the node whose `cassandra.yaml` is `config`; what it has to remember is in `folder`."""

    name, usual_port, memory_mb = "cassandra_log", 9043, 300

    def __init__(
        self, folder: Path | str, config: Path | str, port: int | None = None, *, lifeline: Lifeline | None = None
    ) -> None:
        super().__init__(folder, port, lifeline=lifeline)
        self._config = Path(config)
        self._process = ServerProcess(self.folder, self.name)

    @property
    def processes(self) -> Sequence[ServerProcess]:
        return (self._process,)

    def _start(self) -> None:
        port = self._take_ports()[self.name]
        command = log_command(self._config, self.folder, LOOPBACK, port)
        self._process.start(command, self._lifeline)
        self._process.wait_until(lambda: is_open(port), START_SECONDS)


def log_command(
    config: Path, state: Path, host: str, port: int, cdc: Path | None = None, library: Path | None = None
) -> list[str]:
    """What is to be executed; `library` is the folder with the jars of Cassandra, fetched where it is not said."""
    library = library or jars("cassandra", JARS_MB)
    java = find_java("cassandra", only=17)
    make_folder(state)
    return [java, f"-Xmx{_HEAP_MB}m", f"@{OPTIONS}", f"-Dcassandra.config={config.absolute().as_uri()}",
            f"-Dcassandra.storagedir={config.absolute().parent}", f"-Duser.home={state}",
            f"-Dlogback.configurationFile={OPTIONS.with_name('cassandra_logback.xml')}", "-Dsaid=OFF",
            "-cp", os.pathsep.join([str(_classes(java, library)), f"{library}/*"]),
            _MAIN, "" if cdc is None else str(cdc.absolute()), str(state.absolute()), host, str(port)]  # fmt: skip


def _classes(java: str, library: Path) -> Path:
    """The folder with the compiled program, whole or not there."""
    (package,) = sources.__path__
    files = sorted(Path(package).glob("*.java"))
    found = sorted(library.glob("*.jar"))
    compilers = [jar for jar in found if jar.name.startswith("ecj-")]
    if not compilers:
        raise Error(f"{library} has no ecj-*.jar: it is not the folder lib of Cassandra")
    said = b"".join(file.read_bytes() for file in files) + "".join(jar.name for jar in found).encode()
    folder = cache_folder() / f"cassandra_log-{hashlib.sha256(said).hexdigest()[:12]}"
    if folder.is_dir():
        return folder
    log.info("cassandra_log: compiling it, once")
    cache_folder().mkdir(parents=True, exist_ok=True)
    work = tempfile.mkdtemp(prefix="cassandra_log-", suffix=".part", dir=cache_folder())
    against = os.pathsep.join(str(jar) for jar in found if jar.name.startswith(_COMPILED_WITH))
    try:
        done = subprocess.run(
            [java, "-cp", str(compilers[0]), "org.eclipse.jdt.internal.compiler.batch.Main", "-17", "-proc:none",
             "-nowarn", "-cp", against, "-d", work, *map(str, files)], capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode != 0:
            raise Error(f"the program that serves Cassandra's log cannot be compiled: {done.stderr or done.stdout}")
        if not folder.is_dir():
            Path(work).rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder

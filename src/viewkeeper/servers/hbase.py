"""HBase: master, region servers and ZooKeeper in one process on local files, and a Thrift gateway for clients."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from xml.sax.saxutils import escape

from viewkeeper.permissions import make_folder
from viewkeeper.servers.fetching import jars
from viewkeeper.servers.java import find_java
from viewkeeper.servers.lifeline import Lifeline
from viewkeeper.servers.ports import LOOPBACK, is_open
from viewkeeper.servers.server import Server, log
from viewkeeper.servers.server_process import ServerProcess

START_SECONDS = 240.0
SHUTDOWN_SECONDS = 60.0
"""Ten times what it takes where nothing else runs."""

_JARS_MB = 123
_ZOOKEEPER = "zookeeper of hbase"
_STARTED = "Master has completed initialization"
_MASTER = "org.apache.hadoop.hbase.master.HMaster"
_GATEWAY = "org.apache.hadoop.hbase.thrift.ThriftServer"
_OPTIONS = Path(__file__).parent / "hbase_java17.options"

_SETTINGS = {
    "hbase.cluster.distributed": "false", "hbase.zookeeper.quorum": LOOPBACK,
    "hbase.localcluster.assign.random.ports": "true", "hbase.master.info.port": "-1",
    "hbase.regionserver.info.port": "-1", "hbase.master.ipc.address": LOOPBACK,
    "hbase.regionserver.ipc.address": LOOPBACK, "hbase.master.hostname": "localhost",
    "hbase.unsafe.regionserver.hostname": "localhost", "hbase.regionserver.handler.count": "10",
    "hbase.unsafe.stream.capability.enforce": "false",  # what a local file system cannot promise
    # Whose log is read may stop for a week, and finds it whole then.
    "hbase.master.logcleaner.ttl": str(7 * 24 * 60 * 60 * 1000),
    # Timers of clusters of many machines, shortened: it starts in 9 seconds and not in 23.
    "hbase.regionserver.msginterval": "500", "hbase.master.wait.on.regionservers.timeout": "3000",
    "hbase.master.wait.on.regionservers.interval": "300", "hbase.master.cleaner.interval": "5000",
    # Not that of its sessions (10 s): who loses one ends, and a machine under load stops for some seconds.
}  # fmt: skip
"""Properties of `hbase-site.xml`."""


class HBase(Server):
    """A cluster of so many region servers; `settings` are those of `hbase-site.xml`.

    `port` is the gateway's (Thrift 1). Logs are in `folder`/root, `WALs` and `oldWALs`.
    """

    name, usual_port, memory_mb = "hbase", 9090, 600

    def __init__(self, folder: Path | str, port: int | None = None, *, region_servers: int = 3,
                 settings: Mapping[str, str] | None = None, lifeline: Lifeline | None = None) -> None:  # fmt: skip
        super().__init__(folder, port, lifeline=lifeline)
        self.region_servers = region_servers
        self._settings = {**_SETTINGS, **(settings or {})}
        self._cluster, self._gateway = ServerProcess(self.folder, "hbase"), ServerProcess(self.folder, "hbase-thrift")

    @property
    def processes(self) -> Sequence[ServerProcess]:
        """The cluster, and the gateway."""
        return self._cluster, self._gateway

    @property
    def configuration(self) -> Path:
        """The folder with `hbase-site.xml`, for a Java client's class path."""
        return self.folder / "conf"

    @property
    def root(self) -> Path:
        """Where HBase has its files."""
        return self.folder / "root"

    def _start(self) -> None:
        java = self.java()
        if self._cluster.pid is None:
            self._gateway.kill()  # it may hold the port that it had, and would have to find the cluster anew
            ports = self._take_ports(_ZOOKEEPER)
            self._write_settings(ports[_ZOOKEEPER])
            log.info("hbase: starting on port %d", ports[self.name])
            self._cluster.start(
                [*java, "-Xms128m", "-Xmx1000m", _MASTER, f"--localRegionServers={self.region_servers}", "start"],
                self._lifeline,
            )
            self._cluster.wait_until(partial(self._cluster.said, _STARTED), START_SECONDS)
        port = self._ports()[self.name]
        self._gateway.start(
            [*java, "-Xms64m", "-Xmx256m", _GATEWAY, "start", "-b", LOOPBACK, "-p", str(port), "--infoport", "-1"],
            self._lifeline,
        )
        self._gateway.wait_until(partial(is_open, port), START_SECONDS)

    def stop(self) -> None:
        """Ends it in order, so that it has no logs to recover when it starts again."""
        self._gateway.kill()
        if self._cluster.pid is not None:
            # A signal ends ZooKeeper first, for which the others then wait 40 seconds.
            told = subprocess.run([*self.java(), _MASTER, "stop", "--shutDownCluster"], stdin=subprocess.DEVNULL,
                                  capture_output=True, cwd=self.folder)  # fmt: skip
            self._cluster.end_within(SHUTDOWN_SECONDS if told.returncode == 0 else 0)

    def java(self) -> Sequence[str]:
        """How a Java program of it, or a client, is started, up to its main class; the class path comes last."""
        logging = _OPTIONS.with_name("hbase_log4j2.properties").as_uri()
        return (find_java(self.name, only=17), f"@{_OPTIONS}", f"-Dlog4j2.configurationFile={logging}",
                "-cp", f"{self.configuration}:{jars(self.name, _JARS_MB)}/*")  # fmt: skip

    def _write_settings(self, zookeeper: int) -> None:
        settings = {
            "hbase.rootdir": self.root.as_uri(), "hbase.tmp.dir": str(self.folder / "tmp"),
            "hbase.zookeeper.property.dataDir": str(self.folder / "zookeeper"),
            "hbase.zookeeper.property.clientPort": str(zookeeper),
            "hbase.master.wait.on.regionservers.mintostart": str(self.region_servers), **self._settings,
        }  # fmt: skip
        make_folder(self.configuration)
        lines = (f"<property><name>{name}</name><value>{escape(value)}</value></property>\n"
                 for name, value in settings.items())  # fmt: skip
        (self.configuration / "hbase-site.xml").write_text(f"<configuration>\n{''.join(lines)}</configuration>\n")

"""Kafka: one broker that is its own controller (KRaft)."""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from viewkeeper.errors import Error
from viewkeeper.servers.fetching import jars
from viewkeeper.servers.java import find_java
from viewkeeper.servers.lifeline import Lifeline
from viewkeeper.servers.ports import LOOPBACK
from viewkeeper.servers.server import Server, log
from viewkeeper.servers.server_process import ServerProcess

START_SECONDS = 120.0
"""Forty times what it takes where nothing else runs."""

_CONTROLLER = "kafka controller"
_STARTED = "Kafka Server started"
"""What it says when all is ready; its port is open before."""

_JAVA_OPTIONS = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

_SETTINGS = {
    "process.roles": "broker,controller", "node.id": "1", "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT", "num.partitions": "2",
    # There is one broker, and few clients.
    "offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1", "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1", "group.initial.rebalance.delay.ms": "0",
    # One that was killed is let in again when its session is over: after 9 seconds if not said.
    "broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500",
    "log.cleaner.dedupe.buffer.size": "16777216",  # 128 MB if not said, half of the heap
}  # fmt: skip


class Kafka(Server):
    """A broker; `settings` are lines of its `server.properties`."""

    name, usual_port, memory_mb = "kafka", 9092, 300

    def __init__(self, folder: Path | str, port: int | None = None, *, settings: Mapping[str, str] | None = None,
                 lifeline: Lifeline | None = None) -> None:  # fmt: skip
        super().__init__(folder, port, lifeline=lifeline)
        self._process = ServerProcess(self.folder, self.name)
        self._settings = dict(settings or {})

    @property
    def processes(self) -> Sequence[ServerProcess]:
        return (self._process,)

    @property
    def bootstrap_servers(self) -> str:
        """What its clients call its address."""
        return self.address

    def _start(self) -> None:
        library = jars(self.name, megabytes=43)
        logging = Path(__file__).parent / "kafka_log4j2.properties"
        java = (find_java(self.name), *_JAVA_OPTIONS, f"-Dlog4j2.configurationFile={logging.as_uri()}",
                "-cp", f"{library}/*")  # fmt: skip
        ports = self._take_ports(_CONTROLLER)
        properties = self._write_properties(ports[self.name], ports[_CONTROLLER])
        if not (self.folder / "data" / "meta.properties").exists():
            self._format(java, properties)
        log.info("kafka: starting on port %d", ports[self.name])
        self._process.start([*java, "kafka.Kafka", str(properties)], self._lifeline)
        self._process.wait_until(lambda: self._process.said(_STARTED), START_SECONDS)

    def _write_properties(self, port: int, controller: int) -> Path:
        outside, inside = f"PLAINTEXT://{LOOPBACK}:{port}", f"CONTROLLER://{LOOPBACK}:{controller}"
        settings = {
            **_SETTINGS, "listeners": f"{outside},{inside}", "advertised.listeners": outside,
            "controller.quorum.voters": f"1@{LOOPBACK}:{controller}", "log.dirs": str(self.folder / "data"),
            **self._settings,
        }  # fmt: skip
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return properties

    def _format(self, java: Sequence[str], properties: Path) -> None:
        """Gives the empty folder its identity, as Kafka wants it."""
        identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        command = [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={identity}", "--config", str(properties)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise Error(f"kafka cannot use the folder {self.folder}: {said[-1] if said else 'it says nothing'}")

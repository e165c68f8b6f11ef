"""Cassandra: one node, or three on 127.0.0.1 to 127.0.0.3, whose commit logs are kept for readers (CDC)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from viewkeeper.errors import Error
from viewkeeper.permissions import make_folder
from viewkeeper.servers.fetching import jars
from viewkeeper.servers.java import find_java
from viewkeeper.servers.lifeline import Lifeline
from viewkeeper.servers.ports import is_open, require_free
from viewkeeper.servers.server import Server, log
from viewkeeper.servers.server_process import ServerProcess

START_SECONDS = 240.0
_STORAGE, _JMX = "cassandra storage", "jmx of node"
"""What its other ports are for."""

_TOKENS = 4
"""Of each node, given by hand and spread evenly: no node looks for some."""

JARS_MB, _HEAP_MB, _NODE_MB = 67, 300, 700
OPTIONS = Path(__file__).parent / "cassandra_java17.options"
_LOGGING = f"-Dlogback.configurationFile={OPTIONS.with_name('cassandra_logback.xml')}"

_SETTINGS: dict[str, object] = {
    "cluster_name": "viewkeeper", "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner", "num_tokens": _TOKENS,
    "endpoint_snitch": "SimpleSnitch", "start_native_transport": True, "auto_bootstrap": False, "auto_snapshot": False,
    "authenticator": "AllowAllAuthenticator", "authorizer": "AllowAllAuthorizer", "hinted_handoff_enabled": True,
    "materialized_views_enabled": True,
    # What is acknowledged is in the log's file: kill -9 loses nothing.  `periodic` is three times as fast.
    "commitlog_sync": "batch", "commitlog_segment_size": "4MiB",
    "cdc_enabled": True, "cdc_total_space": "512MiB", "cdc_block_writes": True,
    "cdc_free_space_check_interval": "250ms",
    "memtable_heap_space": "64MiB", "memtable_offheap_space": "64MiB", "key_cache_size": "8MiB",
    "file_cache_size": "32MiB",
    # Two cores that others use too make answers late, not wrong.
    "request_timeout": "20000ms", "read_request_timeout": "20000ms", "write_request_timeout": "20000ms",
    "range_request_timeout": "20000ms", "truncate_request_timeout": "60000ms",
}  # fmt: skip
"""Lines of `cassandra.yaml`."""


class Cassandra(Server):
    """A cluster of `nodes`; `settings` are those of `cassandra.yaml`, for all of them.

    Nodes are numbered from 1; node N has the address 127.0.0.N, and `folder`/nodeN with its commit log and `cdc_raw`.
    """

    name, usual_port = "cassandra", 9042

    def __init__(self, folder: Path | str, port: int | None = None, *, nodes: int | None = None,
                 settings: Mapping[str, object] | None = None, lifeline: Lifeline | None = None) -> None:  # fmt: skip
        super().__init__(folder, port, lifeline=lifeline)
        there = sum(name.startswith(_JMX) for name in self._ports())
        if there and nodes not in (None, there):
            raise Error(
                f"{self.folder} has a cluster of {there} nodes, not of {nodes}: give {nodes} nodes another folder"
            )
        self.nodes = there or nodes or 1
        self.memory_mb = self.nodes * _NODE_MB
        self._settings = {**_SETTINGS, **(settings or {})}
        self._processes = {node: ServerProcess(self.node_folder(node), self.name) for node in self._numbers}

    @property
    def _numbers(self) -> Sequence[int]:
        return range(1, self.nodes + 1)

    def node_folder(self, node: int) -> Path:
        """Where the node has its data; `cdc_raw` is in it."""
        return self.folder / f"node{node}"

    @property
    def processes(self) -> Sequence[ServerProcess]:
        return tuple(self._processes.values())

    @property
    def contact_points(self) -> list[str]:
        """The addresses of all nodes, as its clients want them beside `port`."""
        return [_host(node) for node in self._numbers]

    def nodetool(self, node: int, *arguments: str) -> str:
        """What `nodetool` says when the node is told to do something (`"repair", "shop"`); raises Error if it fails."""
        command = [find_java(self.name, only=17), f"@{OPTIONS}", f"-Duser.home={self.folder}", _LOGGING,
                   "-Dsaid=OFF", "-cp", f"{jars(self.name, JARS_MB)}/*",
                   "org.apache.cassandra.tools.NodeTool", "-p", str(self._ports()[_jmx(node)]), *arguments]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise Error(f"nodetool {' '.join(arguments)}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def start(self, node: int | None = None) -> None:
        """Starts all nodes that do not run, or that one; returns when each answers and all that run know each other."""
        if node is None:
            super().start()
        elif self._processes[node].pid is None:
            self._start_nodes([node])

    def stop(self, node: int | None = None) -> None:
        """Ends all nodes, or that one, by kill -9: in order it takes 10 to 24 seconds, and nothing more is kept."""
        self.kill(node)

    def kill(self, node: int | None = None) -> None:
        for each in self._numbers if node is None else [node]:
            self._processes[each].kill()

    def _start(self) -> None:
        self._start_nodes([node for node in self._numbers if self._processes[node].pid is None])

    def _start_nodes(self, nodes: Sequence[int]) -> None:
        library = jars(self.name, JARS_MB)
        java = find_java(self.name, only=17)
        ports = self._nodes_ports(nodes)
        others = [node for node in self._numbers if node not in nodes]
        logs = {node: self._processes[node].log_size for node in others}
        log.info("cassandra: starting on port %d", ports[self.name])
        for node in nodes:
            make_folder(self.node_folder(node))
            self._write_settings(node, ports)
            self._processes[node].start([java, *self._options(node, library, ports[_jmx(node)])], self._lifeline)
            if node == 1:  # the others ask it who else is there
                self._wait(1, lambda: is_open(ports[_STORAGE], _host(1)))
        for node in nodes:
            self._wait(node, partial(is_open, ports[self.name], _host(node)))
        running = [node for node in self._numbers if self._processes[node].pid is not None]
        for node in running:
            for other in running:
                if other != node and (node in nodes or other in nodes):
                    known = f"/{_host(other)}:{ports[_STORAGE]} is now UP"
                    self._wait(node, partial(self._processes[node].said, known, logs.get(node)))

    def _wait(self, node: int, ready: Callable[[], bool]) -> None:
        self._processes[node].wait_until(ready, START_SECONDS)

    def _nodes_ports(self, nodes: Sequence[int]) -> dict[str, int]:
        """Those of the cluster, free on the addresses of `nodes`."""
        names = (_STORAGE, *map(_jmx, self._numbers))
        if len(nodes) < self.nodes and self.has_run:
            return self._ports()
        ports = self._take_ports(*names)
        for node in nodes:
            for port in (ports[self.name], ports[_STORAGE]):
                require_free(port, self.name, _host(node))
        return ports

    def _write_settings(self, node: int, ports: Mapping[str, int]) -> None:
        folder, count = self.node_folder(node), _TOKENS * self.nodes
        tokens = [-(2**63) + 1 + 2**64 // count * number for number in range(count)]
        settings = {
            **self._settings, "initial_token": ",".join(map(str, tokens[node - 1 :: self.nodes])),
            "listen_address": _host(node), "rpc_address": _host(node), "storage_port": ports[_STORAGE],
            "native_transport_port": ports[self.name], "data_file_directories": [str(folder / "data")],
            "commitlog_directory": str(folder / "commitlog"), "saved_caches_directory": str(folder / "saved_caches"),
            "hints_directory": str(folder / "hints"), "cdc_raw_directory": str(folder / "cdc_raw"),
            "seed_provider": [{"class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                               "parameters": [{"seeds": f"{_host(1)}:{ports[_STORAGE]}"}]}],
        }  # fmt: skip
        (folder / "cassandra.yaml").write_text(json.dumps(settings, indent=1))  # JSON is YAML

    def _options(self, node: int, library: Path, jmx_port: int) -> Sequence[str]:
        folder = self.node_folder(node)
        (agent,) = library.glob("jamm-*.jar")
        return (
            f"-Xms{_HEAP_MB}m", f"-Xmx{_HEAP_MB}m", f"@{OPTIONS}", f"-javaagent:{agent}",
            f"-Dcassandra.config={(folder / 'cassandra.yaml').as_uri()}", f"-Dcassandra.storagedir={folder}",
            f"-Dcassandra.logdir={folder}", f"-Dcassandra.jmx.local.port={jmx_port}",
            _LOGGING, "-cp", f"{library}/*",
            "org.apache.cassandra.service.CassandraDaemon",
        )  # fmt: skip


def _host(node: int) -> str:
    return f"127.0.0.{node}"


def _jmx(node: int) -> str:
    return f"{_JMX} {node}"

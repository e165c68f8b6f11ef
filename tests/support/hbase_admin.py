"""What HBase's gateway cannot do: regions are split, merged and moved, single versions deleted; by its own Java client,
which py4j drives."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from viewkeeper.servers import HBase


class HBaseAdmin:
    """A Java client of `server`, for as long as the block goes on."""

    def __init__(self, server: HBase) -> None:
        self._server = server

    def __enter__(self) -> Self:
        (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
        java, *arguments = self._server.java()
        port, self._process = launch_gateway(
            jarpath=str(py4j), classpath=arguments[arguments.index("-cp") + 1], java_path=java,
            javaopts=arguments[: arguments.index("-cp")], die_on_exit=True, return_proc=True,
        )  # fmt: skip
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
        jvm: Any = self._gateway.jvm
        self._hbase = jvm.org.apache.hadoop.hbase
        self.connection = self._hbase.client.ConnectionFactory.createConnection(self._hbase.HBaseConfiguration.create())
        self.admin.balancerSwitch(False, True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gateway.shutdown()
        self._process.kill()
        self._process.wait()

    @cached_property
    def admin(self) -> Any:
        return self.connection.getAdmin()

    def named(self, table: str) -> Any:
        return self._hbase.TableName.valueOf(table)

    def regions(self, table: str) -> list[tuple[str, str]]:
        """The encoded names of the regions, in the order of their keys, and the servers that have them."""
        locator = self.connection.getRegionLocator(self.named(table))
        locator.clearRegionLocationCache()
        return [(each.getRegion().getEncodedName(), each.getServerName().toString())
                for each in locator.getAllRegionLocations()]  # fmt: skip

    def servers(self) -> list[str]:
        return sorted(each.toString() for each in self.admin.getRegionServers())

    def move(self, region: str, server: str) -> None:
        self.admin.move(region.encode(), self._hbase.ServerName.valueOf(server))

    def split(self, region: str, at: bytes) -> None:
        self.admin.splitRegionAsync(region.encode(), bytearray(at)).get()

    def merge(self, first: str, second: str) -> None:
        self.admin.mergeRegionsAsync(self._pieces([first.encode(), second.encode()]), True).get()

    def roll(self) -> None:
        for server in self.admin.getRegionServers():
            self.admin.rollWALWriter(server)

    def flush(self, table: str) -> None:
        self.admin.flush(self.named(table))

    def compact(self, table: str) -> None:
        """A major compaction, to its end: deletions that are in files are forgotten."""
        named = self.named(table)
        self.admin.flush(named)
        self.admin.majorCompact(named)
        deadline = time.monotonic() + 60
        while self._compacting(named):
            assert time.monotonic() < deadline
            time.sleep(0.2)

    def _compacting(self, named: Any) -> bool:
        """Whether it is in more than one file a family still, or says that it compacts."""
        if self.admin.getCompactionState(named).toString() != "NONE":
            return True
        loads = [
            load for server in self.admin.getRegionServers() for load in self.admin.getRegionMetrics(server, named)
        ]
        return any(load.getStoreFileCount() > 2 for load in loads)

    def stop_server(self, server: str) -> None:
        self.admin.stopRegionServer(":".join(server.split(",")[:2]))

    def create(self, table: str, families: str, splits: Sequence[bytes] = (), **settings: Any) -> None:
        """A table with families of one letter each, whose builders are called with `settings` (setTimeToLive=100), and
        with regions that begin at `splits`."""
        described = self._hbase.client.TableDescriptorBuilder.newBuilder(self.named(table))
        for family in families:
            builder = self._hbase.client.ColumnFamilyDescriptorBuilder.newBuilder(bytearray(family.encode()))
            for name, value in settings.items():
                builder = getattr(builder, name)(value)
            described = described.setColumnFamily(builder.build())
        self.admin.createTable(described.build(), *([self._pieces(splits)] if splits else []))

    def _pieces(self, pieces: Sequence[bytes]) -> Any:
        """A byte[][]."""
        kind = self._gateway.jvm.Class.forName("[B")
        made = self._gateway.jvm.java.lang.reflect.Array.newInstance(kind, len(pieces))
        for at, piece in enumerate(pieces):
            made[at] = bytearray(piece)
        return made

    def bulk_load(self, table: str, folder: Path, cells: dict[bytes, bytes], family: str, qualifier: str) -> None:
        """Writes a file with a cell for each row, and has the table take it as it is."""
        file = folder / family / "cells"
        file.parent.mkdir(parents=True)
        jvm: Any = self._gateway.jvm
        hfile = self._hbase.io.hfile.HFile
        conf = self.connection.getConfiguration()
        made = hfile.getWriterFactoryNoCache(conf).withPath(
            jvm.org.apache.hadoop.fs.FileSystem.getLocal(conf), jvm.org.apache.hadoop.fs.Path(str(file))
        )
        writer = made.withFileContext(self._hbase.io.hfile.HFileContextBuilder().build()).create()
        for row, value in sorted(cells.items()):
            parts = (row, family.encode(), qualifier.encode())
            writer.append(self._hbase.KeyValue(*map(bytearray, parts), int(time.time() * 1000), bytearray(value)))
        writer.close()
        path = jvm.org.apache.hadoop.fs.Path(str(folder))
        self._hbase.tool.BulkLoadHFiles.create(conf).bulkLoad(self.named(table), path)

    def create_namespace(self, name: str) -> None:
        self.admin.createNamespace(self._hbase.NamespaceDescriptor.create(name).build())

    def truncate(self, table: str) -> None:
        self.admin.disableTable(self.named(table))
        self.admin.truncateTable(self.named(table), False)

    def put_expiring(self, table: str, row: bytes, column: bytes, value: bytes, milliseconds: int) -> None:
        put = self._hbase.client.Put(bytearray(row))
        family, qualifier = column.split(b":")
        put.addColumn(bytearray(family), bytearray(qualifier), bytearray(value))
        put.setTTL(milliseconds)
        self.connection.getTable(self.named(table)).put(put)

    def increment(self, table: str, row: bytes, family: bytes, qualifier: bytes, by: int) -> None:
        self.connection.getTable(self.named(table)).incrementColumnValue(
            bytearray(row), bytearray(family), bytearray(qualifier), by
        )

    def delete(self, table: str, row: bytes, how: Callable[[Any], Any]) -> None:
        """A delete that `how` fills: lambda delete: delete.addColumn(family, qualifier)."""
        delete = self._hbase.client.Delete(bytearray(row))
        how(delete)
        self.connection.getTable(self.named(table)).delete(delete)


def until(do: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Does something until HBase does not refuse it any more: regions are in transition for a moment."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return do()
        except Py4JJavaError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)

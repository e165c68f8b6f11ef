"""Starting Spark in this process: on this machine alone, and for this user alone."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK = "127.0.0.1"
_CLOSED = {
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
    # Spark makes a secret of its own where it runs locally, so that none stands in a command line or a setting.
    "spark.authenticate": "true",
}
_FOLDER_BYTES_MAX = 60
"""A Unix socket has a path of 107 bytes at most, and Spark's names take 43."""

_ENVIRONMENT = {"SPARK_LOCAL_IP": _LOOPBACK, "SPARK_LOCAL_HOSTNAME": "localhost"}
"""Where the user interface listens, and all that no setting says; needs no name of this machine to be known."""


def local_spark(threads: str, name: str, settings: Mapping[str, str]) -> SparkSession:
    """The session of a Spark that is started here, called `name`, with master `local[threads]`; its ports are open to
    this machine alone, and whoever connects must know its secret."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{threads}]").appName(name)
    for key, value in {**settings, **socket_settings(), **_CLOSED}.items():
        builder = builder.config(key, value)
    with _environment():
        return builder.getOrCreate()


def socket_settings() -> dict[str, str]:
    """Settings with which Spark and its Python workers talk over Unix sockets, in a folder of this user's alone: over
    TCP a task waits 40 ms for an acknowledgement that the other side is in no hurry to send."""
    folder = tempfile.mkdtemp(prefix="viewkeeper-")
    if len(os.fsencode(folder)) > _FOLDER_BYTES_MAX or not hasattr(socket, "AF_UNIX"):
        Path(folder).rmdir()
        return {"spark.python.unix.domain.socket.enabled": "false"}
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {
        "spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": folder,
        "spark.python.daemon.module": "viewkeeper.spark.daemon",
    }  # fmt: skip


@contextmanager
def _environment() -> Iterator[None]:
    """What the Java process that the block starts finds in its environment."""
    before = {key: os.environ.get(key) for key in _ENVIRONMENT}
    os.environ.update(_ENVIRONMENT)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value

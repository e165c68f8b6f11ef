"""Spark's daemon of Python workers, whose workers end without a word when Spark lets go of them.

Spark closes its end of a worker that has been idle for a minute.  Over a Unix socket the worker's last flush then
fails, and Spark's own daemon prints a traceback of it.
"""

from __future__ import annotations

import socket

from pyspark import daemon

_spark_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """`pyspark.daemon.worker`; 1 where Spark has closed its end, after which the worker waits for nothing and ends."""
    try:
        return int(_spark_worker(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        return 1


def main() -> None:
    """What Spark starts."""
    daemon.worker = worker
    daemon.manager()


if __name__ == "__main__":
    main()

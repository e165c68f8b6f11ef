"""Spark's processes: its Java process, which can be lost, and its Python workers, which share our terminal."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

from viewkeeper.errors import Error


@contextlib.contextmanager
def loss_named() -> Iterator[None]:
    """Raises Error, which says what to do, where Spark's Java process does not answer any more."""
    try:
        yield
    except Exception as error:
        if is_lost(error):
            raise Error(
                "Spark's Java process is gone (killed, or out of memory?): end this process and start it again; "
                "what was committed stays, and the rest is done then"
            ) from error
        raise


def is_lost(error: Exception) -> bool:
    """Whether `error` means that Spark's Java process does not answer any more."""
    from py4j.protocol import Py4JNetworkError

    return isinstance(error, Py4JNetworkError | ConnectionError)


def leave_interrupts_to_the_driver() -> None:
    """Ctrl-C on a terminal reaches Spark's workers too, where it would fail the task; the driver ends in order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

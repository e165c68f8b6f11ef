"""What the driver raises, as errors of ours: what ends when nodes are there again, and what somebody has to see to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from cassandra import (
    AuthenticationFailed,
    DriverException,
    InvalidRequest,
    OperationTimedOut,
    ReadTimeout,
    Unavailable,
    WriteFailure,
    WriteTimeout,
)
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionException

from viewkeeper.errors import Error, StoreAway

_FAILURES = (DriverException, NoHostAvailable, ConnectionException)
AWAY = (OperationTimedOut, ReadTimeout, Unavailable, WriteTimeout, NoHostAvailable, ConnectionException)


@contextmanager
def translated(what: str, options: Mapping[str, str], said: Callable[[str], str] = str) -> Iterator[None]:
    """Raises, for what the driver does, that `what` is the case: StoreAway where it ends by itself, else Error; `said`
    makes the message."""
    try:
        yield
    except _FAILURES as error:
        cause = _cause(error)
        why = " ".join(str(cause).split())
        if isinstance(cause, NoHostAvailable) and not cause.errors:
            why = "no host of that name is known"
        message = said(f"{what}: {why} ({options['contact_points']})")
        if isinstance(cause, WriteFailure):
            message += "; nodes whose folder cdc_raw is full refuse writes: see viewkeeper cassandra-log --followers"
        refused = isinstance(cause, AuthenticationFailed | InvalidRequest)
        raise (StoreAway(message) if isinstance(error, AWAY) and not refused else Error(message)) from error


def _cause(error: Exception) -> BaseException:
    """Why no host is available, if one of them says."""
    if isinstance(error, NoHostAvailable) and isinstance(error.errors, dict):
        refused = [each for each in error.errors.values() if isinstance(each, AuthenticationFailed)]
        return refused[0] if refused else error
    return error

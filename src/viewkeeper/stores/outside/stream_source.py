"""What an outside store must give for a stream to be fed from it: ends of its logs, and the rows between two ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from viewkeeper.catalog.model import Stream
from viewkeeper.stores.outside.contract import LogEnds


@dataclass(frozen=True)
class SourceRows:
    """Rows that lie before `upto` in a source's logs, as physical columns in declared order, and what is no row: why,
    and the entry as a JSON text."""

    columns: list[pa.Array]
    rejected: list[tuple[str, bytes]]
    upto: LogEnds


class StreamSource(ABC):
    """Where the rows of one stream come from.  For one thread.

    Methods that talk to the store raise as those of `contract.OutsideTable` do.
    """

    poll_seconds: float = 0.02
    """Between two looks when nothing has come."""

    def __init__(self, stream: Stream, zone: str) -> None:
        assert stream.outside is not None
        self.stream, self.zone = stream, zone

    @classmethod
    @abstractmethod
    def check(cls, options: Mapping[str, str]) -> None:
        """Raises InputError, naming the option, where a stream cannot be declared with `options`."""

    @abstractmethod
    def require_there(self) -> None:
        """Raises where the source is not there, or cannot be a stream."""

    @abstractmethod
    def start(self) -> LogEnds:
        """The beginnings of the logs, as far as they are there."""

    @abstractmethod
    def ends(self) -> LogEnds:
        """The ends of the logs now."""

    @abstractmethod
    def read(self, after: LogEnds, upto: LogEnds) -> SourceRows:
        """Rows from `after` on, some at a time, none behind `upto`.  Logs that hold much are read side by side, by the
        time at which entries were written, so that rows of one are not late for those of another."""

    @abstractmethod
    def close(self) -> None:
        """Gives up what is held of the store."""

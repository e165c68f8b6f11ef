"""How far a stream is, as its progress in the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class StreamProgress:
    """`position` is the last entry of the stream's log that was taken, `hash` the log's running hash there, `watermark`
    the greatest timestamp in these entries (microseconds since 1970).

    `first` is the part of the lowest row; `next` the first part that is not sealed, None before there is a sealed one:
    what exists is `first` to `next - 1`.  `unsealed` is the lowest part that neither a call nor IDLE has sealed: parts
    may be sealed before any row has come, and exist then only from the first row on.  Parts before `kept` have expired.
    `late_rows` counts the rows that came for parts that were sealed when they were appended.
    """

    position: int = 0
    watermark: int | None = None
    first: int | None = None
    next: int | None = None
    unsealed: int | None = None
    kept: int | None = None
    late_rows: int = 0
    hash: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return asdict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any] | None) -> StreamProgress:
        """The inverse of `to_dict`; of None: nothing was taken."""
        return StreamProgress(**data) if data is not None else StreamProgress()

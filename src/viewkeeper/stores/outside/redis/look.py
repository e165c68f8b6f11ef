"""What a look at a log shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Look:
    """A log at one moment.

    `mark`: what tells it from another; None: nobody has written there.  `last`: the number of its last entry, None
    where there is no log; `first`: that of the first one that is there; `deleted`: of the last one that was deleted;
    `length`: how many are there.  `tail`: what the last one holds; `asked`: what the one holds that was asked for.
    """

    mark: bytes | None
    last: int | None = None
    first: int | None = None
    deleted: int = 0
    length: int = 0
    tail: Sequence[bytes] | None = None
    asked: Sequence[bytes] | None = None

    def begins_behind(self, after: int) -> bool:
        """Whether entries behind `after` are gone."""
        if self.deleted > after:
            return True
        return (self.last or 0) > after if self.first is None else self.first > after + 1

    def continues(self, seen: Look) -> bool:
        """Whether nothing was lost, but by trimming, of the log that was `seen` before, whose last entry was asked for
        now."""
        if self.mark != seen.mark or self.last is None or seen.last is None:
            return True  # another one, or none: whoever knows its identity sees that
        return self.last >= seen.last and (self.asked is None or seen.tail is None or self.asked == seen.tail)


def look_of(mark: bytes | None, told: Any, asked: Any) -> Look:
    """What the server has told: the mark, XINFO STREAM (None where there is no log), and XRANGE of one entry."""
    if told is None:
        return Look(mark)
    info: Mapping[bytes, Any] = dict(zip(told[::2], told[1::2], strict=True))
    first, last, end = info[b"first-entry"], info[b"last-entry"], _number(info[b"last-generated-id"])
    return Look(mark, end, None if first is None else _number(first[0]), _number(info[b"max-deleted-entry-id"]),
                int(info[b"length"]), last[1] if last is not None and _number(last[0]) == end else None,
                asked[0][1] if asked else None)  # fmt: skip


def _number(id_: bytes) -> int:
    return int(id_.split(b"-")[0])

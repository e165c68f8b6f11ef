"""How far a view over streams is, as its progress in the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Rebuilt:
    """Parts `first` to `last` of a view were computed anew with other versions of its dimension tables."""

    first: int
    last: int
    dimensions: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ViewProgress:
    """`first` is the initial subscript, None while it is not settled; `next` is NEXT (paper 003, 4.1); parts before
    `kept` have expired.

    `stale` says why the view is behind, with the query's error; `redo` is the part from which on all parts are to be
    computed anew, `renew` that from which on dimension tables are to be read as they are when that is done: it is in
    `rebuilt` from then on.  `tried` is set where a dimension table could not be read: how far that had come
    (`dimensions.last_change`).  What its program keeps beside it is there from part `carried` on (None: all).
    """

    first: int | None = None
    next: int | None = None
    kept: int | None = None
    stale: str | None = None
    redo: int | None = None
    rebuilt: tuple[Rebuilt, ...] = ()
    renew: int | None = None
    tried: int | None = None
    carried: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return asdict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any] | None) -> ViewProgress:
        """The inverse of `to_dict`; of None: nothing is built."""
        if data is None:
            return ViewProgress()
        rebuilt = tuple(
            Rebuilt(each["first"], each["last"], tuple((d, v) for d, v in each["dimensions"]))
            for each in data["rebuilt"]
        )
        return ViewProgress(**{**data, "rebuilt": rebuilt})

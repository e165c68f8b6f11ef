"""Reading a view: by key, by range, as a whole."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import View
from viewkeeper.changes.positions import Token
from viewkeeper.errors import InputError, NotReady
from viewkeeper.stores.outside.targets import ViewTarget
from viewkeeper.trace.ordering import OrderTerm, before, sort_indices
from viewkeeper.trace.rows import Rows
from viewkeeper.views.python_rows import data_frame, dicts
from viewkeeper.views.shape import Shape
from viewkeeper.views.spark_frames import SparkFrames
from viewkeeper.views.version import Readable, Version, require_whole
from viewkeeper.views.version_sources import Versions
from viewkeeper.views.written import look_up, target_of

_FILL_POLL_SECONDS = 0.02


class ViewReader:
    """What `db.view(name)` and `snapshot.view(name)` give.

    A `get` costs microseconds: it looks whether there is a newer commit, and searches the runs of the view's state.
    """

    def __init__(self, source: Versions, name: str, frames: SparkFrames | None = None) -> None:
        self._source = source
        self._frames = frames
        self._target: ViewTarget | None = None
        self.name = name

    def get(
        self,
        key: object = (),
        *,
        index: str | None = None,
        after: Token | str | None = None,
        timeout: float = 30.0,
        allow_stale: bool = False,
        source: str = "viewkeeper",
    ) -> Any:
        """The row of `key` as a dict, or None; a list of dicts where the view's rows are a bag, and for an index.

        `key` is the view key (DESCRIBE shows it) or what the index is on: a value, or a tuple.  `after` is the token of
        a write: waits up to `timeout` seconds until the view holds it (and is filled).  Raises NotReady, ViewBroken
        (unless `allow_stale`: then the rows without those that raise, and a warning), Timeout, InputError, NotFound.

        `source="store"` reads what is in the outside store that the view is written to, too, which may be behind.
        """
        if source != "viewkeeper":
            return self._from_store(key, source, index is None and after is None)
        if after is not None:
            readable = self._holding(Token.parse(after) if isinstance(after, str) else after, index, timeout)
        else:
            try:
                readable = self._source.version().readable(self.name, index)
            except FileNotFoundError:
                # Files stay for a minute after their version was replaced; this process slept for longer just now.
                readable = self._source.version().readable(self.name, index)
        return lookup(readable, key, allow_stale)

    def _from_store(self, key: object, source: str, plain: bool) -> Any:
        if source != "store":
            raise InputError(f"source={source!r}: there are 'viewkeeper' and 'store'")
        if not plain:
            raise InputError('source="store" reads by the view key what is there now; leave out index and after')
        shape = self._source.version().shape(self.name)
        if self._target is None or self._target.target != getattr(shape.of, "target", None):
            assert isinstance(shape.of, View), "a ViewReader with a source is one of a view"
            self._target = target_of(shape.of)
        return look_up(self._target, shape, key)

    def _holding(self, token: Token, index: str | None, timeout: float) -> Readable:
        """The view as of a version that holds the writes of `token`; a view that is being filled is waited for too."""
        end = time.monotonic() + timeout
        while True:
            version = self._source.holding(token, max(0.0, end - time.monotonic()))
            try:
                return version.readable(self.name, index)
            except NotReady:
                if time.monotonic() >= end:
                    raise
                time.sleep(_FILL_POLL_SECONDS)

    def scan(
        self, lower: object = None, upper: object = None, *, allow_stale: bool = False
    ) -> Iterator[dict[str, Any]]:
        """The rows with lower <= key < upper, in key order (NULL first, NaN last); None: no bound.

        A bound may name the first columns of the key only.  Reads the whole view.
        """
        with self._source.held() as version:
            shape, rows = self._all(version, allow_stale)
            key = [rows.columns[position] for position in shape.key_positions]
            keep = np.ones(len(rows), dtype=bool)
            if lower is not None:
                keep &= ~before(key, shape.bound(lower))
            if upper is not None:
                keep &= before(key, shape.bound(upper))
            order = np.flatnonzero(keep)
            if key:
                kept = pa.array(order)
                order = order[sort_indices([OrderTerm(column.take(kept)) for column in key])]
            yield from dicts(shape.table(rows.take(order).columns))

    def rows(self, *, allow_stale: bool = False) -> Iterator[dict[str, Any]]:
        """All rows, in no order."""
        with self._source.held() as version:
            shape, rows = self._all(version, allow_stale)
            yield from dicts(shape.table(rows.columns))

    def to_arrow(self, *, allow_stale: bool = False) -> pa.Table:
        """All rows, in no order, as an Arrow table."""
        with self._source.held() as version:
            shape, rows = self._all(version, allow_stale)
            return shape.table(rows.columns)

    def to_pandas(self, *, allow_stale: bool = False) -> Any:
        """All rows, in no order, as a pandas DataFrame."""
        return data_frame(self.to_arrow(allow_stale=allow_stale))

    def to_spark(self, *, allow_stale: bool = False) -> Any:
        """All rows, in no order, as a Spark DataFrame, readable until the snapshot, or else the database, is closed."""
        assert self._frames is not None, "readers that users get can reach Spark"
        with self._source.held() as version:
            return self._frames.frame(version, self.name, allow_stale)

    def _all(self, version: Version, allow_stale: bool) -> tuple[Shape, Rows]:
        shape = version.shape(self.name)
        return shape, version.rows(shape, allow_stale).repeated()


def lookup(readable: Readable, key: object, allow_stale: bool = False) -> Any:
    """The rows of one key: a dict or None where the key is unique, else a list of dicts."""
    shape, trace, broken = readable
    require_whole(broken, allow_stale)
    found = trace.get(shape.physical_key(key))
    if shape.unique:
        return shape.row(found[0][0]) if found else None
    rows: list[dict[str, Any]] = []
    for values, weight in found:
        rows.extend(shape.row(values) for _ in range(weight))
    return rows

"""Reading a stream, or a view over streams: part by part, by time, as a whole."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import TIMESTAMP
from viewkeeper.errors import InputError, NotFound, NotSupported
from viewkeeper.stores.value_conversion import ValueRefused, to_physical
from viewkeeper.trace.lease import LeaseLost
from viewkeeper.views.parts_at_version import Changed, Parts
from viewkeeper.views.python_rows import data_frame, dicts
from viewkeeper.views.spark_frames import SparkFrames
from viewkeeper.views.version import Version, require_whole
from viewkeeper.views.version_sources import Versions


class PartRows:
    """The rows of the parts `first` to `last`, as of one version; read when they are first asked for."""

    def __init__(self, version: Version, parts: Parts, first: int, last: int, frames: SparkFrames | None) -> None:
        self._version, self._parts, self._frames = version, parts, frames
        self._table: pa.Table | None = None
        self.first, self.last = first, last

    @property
    def version(self) -> int:
        """The version of the database that is read."""
        return self._version.number

    @property
    def begin(self) -> datetime.datetime:
        """When the first of the parts begins, in the database's time zone."""
        return self._parts.begin(self.first)

    @property
    def end(self) -> datetime.datetime:
        """When the last of the parts ends: the first moment behind it."""
        return self._parts.begin(self.last + 1)

    def __len__(self) -> int:
        return self._parts.count(self.first, self.last)

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows, in no order, as dicts."""
        return dicts(self.to_arrow())

    def to_arrow(self) -> pa.Table:
        """The rows, in no order, as an Arrow table."""
        if self._table is None:
            try:
                self._table = self._parts.table(self._parts.with_rows(self.first, self.last))
            except FileNotFoundError:
                raise self._gone() from None
        return self._table

    def to_pandas(self) -> Any:
        """The rows, in no order, as a pandas DataFrame."""
        return data_frame(self.to_arrow())

    def to_spark(self) -> Any:
        """The rows, in no order, as a Spark DataFrame, readable until the snapshot, or else the database, is closed."""
        assert self._frames is not None, "readers that users get can reach Spark"
        try:
            return self._frames.parts(self._version, self._parts, self.first, self.last)
        except (FileNotFoundError, LeaseLost):
            raise self._gone() from None

    def _gone(self) -> NotFound:
        said = f"{self._parts.of.name}[{self._span}] as of version {self.version} is kept no more"
        return NotFound(f"{said}; ask for it again, or read within db.snapshot(), which holds its version")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.rows()

    def __repr__(self) -> str:
        return f"<{self._parts.of.name}[{self._span}]: {len(self)} rows as of version {self.version}>"

    @property
    def _span(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}..{self.last}"


class PartsReader:
    """What `db.stream(name)`, and for a view over streams `db.view(name)`, give to read with; likewise of a snapshot.

    Reads the newest version, or the snapshot's.  A view that is stale (its query failed, or that of one below it) is
    read with `allow_stale=True` only: then with a warning.
    """

    def __init__(self, source: Versions, name: str, frames: SparkFrames | None = None) -> None:
        self._source, self._frames = source, frames
        self.name = source.version().parts_named(name).of.name

    @property
    def length(self) -> int:
        """How long a part is, in seconds."""
        return self._parts(self._source.version()).of.length

    @property
    def first(self) -> int | None:
        """The subscript of the first part that is kept; None while there is none."""
        return self._parts(self._source.version()).kept

    @property
    def newest(self) -> int | None:
        """The subscript of the newest part; None while there is none."""
        return self._parts(self._source.version()).newest

    @property
    def next(self) -> int | None:
        """NEXT: the subscript of the part that is sealed or built next; None where that is not known yet."""
        return self._parts(self._source.version()).next

    def part(self, subscript: int, *, allow_stale: bool = False) -> PartRows:
        """Part `subscript`.  Raises NotReady, which says what it waits for, NotFound for one that has expired or lies
        before the first, ViewBroken."""
        return self.parts(subscript, subscript, allow_stale=allow_stale)

    def parts(self, first: int, last: int, *, allow_stale: bool = False) -> PartRows:
        """Parts `first` to `last`, both inclusive; raises as `part` does if one of them is not there."""
        first, last = (whole(each, f"{self.name} is read by subscripts, which are ints") for each in (first, last))
        if first > last:
            raise InputError(f"{self.name}[{first}..{last}] names no part: the first subscript is the lower one")
        version = self._source.version()
        parts = self._whole(version, allow_stale)
        parts.require(first, last)
        return PartRows(version, parts, first, last, self._frames)

    def at(self, moment: datetime.datetime | str, *, allow_stale: bool = False) -> PartRows:
        """The part that holds `moment`: a datetime (naive: in the database's time zone), or its ISO text."""
        return self.part(self.subscript_at(moment), allow_stale=allow_stale)

    def subscript_at(self, moment: datetime.datetime | str) -> int:
        """The subscript of the part that holds `moment`, whether it is there or not."""
        return self._microseconds(moment) // (self.length * 1_000_000)

    def rows(self, *, allow_stale: bool = False) -> Iterator[dict[str, Any]]:
        """The rows of all parts, oldest part first."""
        with self._source.held() as version:
            parts = self._whole(version, allow_stale)
            for run in parts.runs():
                table = parts.table([run.part])
                for _ in range(run.count):
                    yield from dicts(table)

    def to_arrow(self, *, allow_stale: bool = False) -> pa.Table:
        """The rows of all parts as an Arrow table."""
        with self._source.held() as version:
            parts = self._whole(version, allow_stale)
            return parts.table(parts.with_rows())

    def to_pandas(self, *, allow_stale: bool = False) -> Any:
        """The rows of all parts as a pandas DataFrame."""
        return data_frame(self.to_arrow(allow_stale=allow_stale))

    def to_spark(self, *, allow_stale: bool = False) -> Any:
        """The rows of all parts as a Spark DataFrame, readable until the snapshot, or else the database, is closed."""
        assert self._frames is not None, "readers that users get can reach Spark"
        with self._source.held() as version:
            return self._frames.parts(version, self._whole(version, allow_stale))

    def get(self, *_: object, **__: object) -> NoReturn:
        """There are no keys: raises NotSupported."""
        raise NotSupported(f"{self.name} has parts, and no keys; use .part(i), .at(moment), or db.sql with a condition")

    scan = get

    def changed_since(self, since: int | datetime.datetime | str) -> list[Changed]:
        """Which parts that are kept were made or changed after a version, or after a moment (as for `at`): ranges of
        subscripts in their order, each with the version and time of its last change."""
        parts = self._parts(self._source.version())
        if isinstance(since, int) and not isinstance(since, bool):
            return parts.changed(version=since)
        return parts.changed(stamp=self._microseconds(since))

    def last_updated(self, subscript: int) -> Changed:
        """The version and time at which part `subscript` was made or last changed; raises as `part` does."""
        subscript = whole(subscript, f"{self.name} is read by subscripts, which are ints")
        parts = self._parts(self._source.version())
        parts.require(subscript, subscript)
        return replace(parts.last_updated(subscript), last=subscript)

    def _parts(self, version: Version) -> Parts:
        return version.parts_named(self.name)

    def _whole(self, version: Version, allow_stale: bool) -> Parts:
        parts = self._parts(version)
        require_whole(parts.stale, allow_stale)
        return parts

    def _microseconds(self, moment: object) -> int:
        convert: Callable[[Any], int] = to_physical(TIMESTAMP, self._source.version().catalog.zone)
        try:
            return convert(moment)
        except ValueRefused as refused:
            raise InputError(f"{self.name} is cut by time: {refused}") from None


def whole(value: Any, rule: str) -> int:
    """`value` as an int: NumPy's are ints, too.  Raises InputError, which begins with `rule`, for anything else."""
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise InputError(f"{rule}; not {value!r}")
    return operator.index(value)

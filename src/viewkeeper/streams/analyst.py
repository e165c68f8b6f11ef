"""What declaring a ViewDF asks of Spark, without knowing it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from viewkeeper.catalog.model import Column
from viewkeeper.errors import Error, NotSupported
from viewkeeper.spark.parameters import Constant


@dataclass(frozen=True)
class Keys:
    """The columns by which the rows of a table or view can be told apart, by its name in small letters; none: there are
    no such columns.  `settled`: ties in the query's own orders are broken in its text."""

    of: Mapping[str, Sequence[str]]
    settled: bool = True


class NotByRows(NotSupported):
    """A query whose answer over a whole stream is not what it answers over the stream's parts, put together."""


class Analyst(Protocol):
    """Spark's own analysis of queries."""

    def columns(
        self, sql: str, tables: Mapping[str, tuple[Column, ...]], timed: Collection[str] | None = None,
        zone: str = "UTC", by_rows: str | None = None, keys: Keys | None = None, nested: bool = False,
        parameters: Mapping[str, Constant] | None = None,
    ) -> tuple[Column, ...]:  # fmt: skip
        """The columns of the query `sql`, where the names in it are tables of these shapes; those of `timed` (None:
        all) have a hidden PART_TIMESTAMP besides.

        Raises DeclarationError, with the place in `sql` where one is known; NotByRows where the query takes rows of the
        table `by_rows`, which it reads once, together.  With `keys`, also where the answer depends on the order of rows
        that an ORDER BY finds equal; where these are not `settled` yet, only where a list's does.
        Arrays, structs and maps are types of columns if `nested`.  `parameters` are the values of `:name` in `sql`,
        None those of what is kept; else a column that is NULL in every row has `written_anew.NULL_VALUE` before its
        name, and a type that says nothing.
        """


class LazyAnalyst:
    """The analyst that `make` makes when it is first needed."""

    def __init__(self, make: Callable[[], Analyst]) -> None:
        self._make = make
        self._made: Analyst | None = None

    def columns(
        self, sql: str, tables: Mapping[str, tuple[Column, ...]], timed: Collection[str] | None = None,
        zone: str = "UTC", by_rows: str | None = None, keys: Keys | None = None, nested: bool = False,
        parameters: Mapping[str, Constant] | None = None,
    ) -> tuple[Column, ...]:  # fmt: skip
        """As `Analyst.columns`."""
        if self._made is None:
            self._made = self._make()
        return self._made.columns(sql, tables, timed, zone, by_rows, keys, nested, parameters)


class NoAnalyst:
    """Stands where nobody can be asked."""

    def columns(
        self, sql: str, tables: Mapping[str, tuple[Column, ...]], timed: Collection[str] | None = None,
        zone: str = "UTC", by_rows: str | None = None, keys: Keys | None = None, nested: bool = False,
        parameters: Mapping[str, Constant] | None = None,
    ) -> tuple[Column, ...]:  # fmt: skip
        """Raises Error."""
        raise Error("this view's query is analysed by Spark, which this process does not have; "
                    "declare the view by db.sql, or while db.maintain() runs")  # fmt: skip

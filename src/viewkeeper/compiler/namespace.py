"""What the names in FROM mean: tables and views of a catalog, and rows that stand beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from viewkeeper.catalog.model import Catalog, CatalogObject, Column, InParts, PartView, PythonFunction, Scannable
from viewkeeper.catalog.types import TIMESTAMP
from viewkeeper.plans.references import PartQuery, Reference

PART_TIMESTAMP = Column("PART_TIMESTAMP", TIMESTAMP, False)
"""The moment at which a row's part begins.  Hidden: not in `*`, only where it is named (paper 003, section 4.1)."""


class Namespace(Protocol):
    """Where a query's names are looked up."""

    @property
    def zone(self) -> str: ...

    def scannable(self, name: str) -> Scannable | None:
        """What `name` means in FROM."""

    def by_id(self, id_: int) -> CatalogObject | None:
        """The object of the catalog with this id."""

    def function(self, name: str) -> PythonFunction | None:
        """The function of Python's that is called `name`."""

    def readable_names(self) -> list[str]:
        """The names that can stand in FROM, to suggest one."""


@dataclass(frozen=True)
class Derived:
    """Rows that are no object of a catalog, or parts of one only.  The last `hidden` of its columns are found by their
    names alone."""

    id: int
    name: str
    columns: tuple[Column, ...]
    hidden: int = 0


def parts_derived(id_: int, name: str, of: InParts) -> Derived:
    """The rows of some parts of `of`, called `name`; PART_TIMESTAMP is their last column."""
    return Derived(id_, name, (*of.columns, PART_TIMESTAMP), hidden=1)


class Beside:
    """A catalog beside which `rows` stand; they hide what it calls by the same names."""

    def __init__(self, catalog: Catalog, *rows: Scannable) -> None:
        self._catalog = catalog
        self._rows = {each.name.lower(): each for each in rows}

    @property
    def zone(self) -> str:
        """The catalog's."""
        return self._catalog.zone

    def scannable(self, name: str) -> Scannable | None:
        """The rows called `name`, else a table or view."""
        return self._rows.get(name.lower()) or self._catalog.scannable(name)

    def by_id(self, id_: int) -> CatalogObject | None:
        """The catalog's object with this id."""
        return self._catalog.by_id(id_)

    def function(self, name: str) -> PythonFunction | None:
        """The catalog's."""
        return self._catalog.function(name)

    def readable_names(self) -> list[str]:
        """The catalog's, and those of the rows that no hidden helper holds."""
        found = {each.name: self._catalog.find(each.name) for each in self._rows.values()}
        shown = [name for name, of in found.items() if not (isinstance(of, PartView) and of.hidden)]
        return list(dict.fromkeys([*self._catalog.readable_names(), *shown]))


class Noted:
    """`names`, of which `found` says whose ids were looked up, in this order."""

    def __init__(self, names: Namespace) -> None:
        self._names = names
        self.found: list[int] = []

    @property
    def zone(self) -> str:
        """The names' own."""
        return self._names.zone

    def scannable(self, name: str) -> Scannable | None:
        """What `name` means in FROM, noted."""
        found = self._names.scannable(name)
        if found is not None:
            self.found.append(found.id)
        return found

    def by_id(self, id_: int) -> CatalogObject | None:
        """The names' own."""
        return self._names.by_id(id_)

    def function(self, name: str) -> PythonFunction | None:
        """The names' own."""
        return self._names.function(name)

    def readable_names(self) -> list[str]:
        """The names' own."""
        return self._names.readable_names()


def of_whole_parts(catalog: Catalog) -> Beside:
    """Where a view that is no view by parts is looked up: all parts of streams, and of views over them, are a table.
    Only rows of streams know their part."""
    streams = (parts_derived(of.id, of.name, of) for of in catalog.streams)
    return Beside(catalog, *streams, *(of for of in catalog.part_views if not of.hidden))


def reference_id(number: int) -> int:
    """The id by which a query scans what its part reference `number` names; no object has it."""
    return -1 - number


def meaning(catalog: Catalog, parts: PartQuery | None, id_: int) -> InParts | Reference | None:
    """What a query bound in `with_parts` scans by an id: a stream or view as a whole, or a reference; None: neither."""
    if id_ < 0:
        assert parts is not None, "the query has references"
        return parts.references[-1 - id_]
    found = catalog.by_id(id_)
    return found if isinstance(found, InParts) else None


def with_parts(catalog: Catalog, parts: PartQuery | None = None) -> Beside:
    """Where a query with part references is looked up.

    Each stream and part view stands there under its own name (all its parts, by its own id), and so does each reference
    of `parts` (by `reference_id`).  References to what is neither are left out: the name that stands for them is then
    not found.
    """
    rows = [parts_derived(of.id, of.name, of) for of in catalog.in_parts]
    for number, reference in enumerate(() if parts is None else parts.references):
        target = catalog.find(reference.target)
        if isinstance(target, InParts):
            rows.append(parts_derived(reference_id(number), reference.name, target))
    return Beside(catalog, *rows)

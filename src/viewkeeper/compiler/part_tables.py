"""Parts of a stream or view that stand in a query as a table: what the binder sees of them."""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.catalog.model import Catalog, Column, PartView, StateSpec, Stored, Stream, Table
from viewkeeper.catalog.types import TIMESTAMP
from viewkeeper.plans.references import PartQuery, Reference

PART_TIMESTAMP = Column("PART_TIMESTAMP", TIMESTAMP, False)
"""The moment at which a row's part begins.  Hidden: not in `*`, only where it is named (paper 003, section 4.1)."""


class PartTable(Table):
    """A table whose last column is PART_TIMESTAMP; it has no key, and its rows are stored nowhere by this id."""


def part_table(id_: int, name: str, of: Stream | PartView) -> PartTable:
    """The rows of some parts of `of`, called `name`."""
    columns = (*of.columns, PART_TIMESTAMP)
    return PartTable(id_, name, columns, (), Stored(StateSpec(id_, "keyed", columns, 0), tuple(range(len(columns)))))


def with_parts(catalog: Catalog, parts: PartQuery | None) -> tuple[Catalog, dict[int, Stream | PartView | Reference]]:
    """A catalog in which a query with part references can be bound, and what the ids of its part tables mean.

    Each reference of `parts` stands as a table of its own, and so does each stream and part view under its own name
    (all its parts).  References to what is neither are left out: the name that stands for them is then not found.
    """
    meaning: dict[int, Stream | PartView | Reference] = {}
    tables: list[Table] = []

    def add(name: str, of: Stream | PartView, means: Stream | PartView | Reference) -> None:
        id_ = catalog.next_id + len(tables)
        tables.append(part_table(id_, name, of))
        meaning[id_] = means

    for of in catalog.parts():
        add(of.name, of, of)
    for reference in () if parts is None else parts.references:
        target = catalog.find_parts(reference.target)
        if target is not None:
            add(reference.name, target, reference)
    if not tables:
        return catalog, {}
    free = catalog.next_id + len(tables)
    return replace(catalog, tables=(*catalog.tables, *tables), next_id=free), meaning

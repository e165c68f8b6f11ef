"""Which columns a name can mean."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from viewkeeper.catalog.model import Column
from viewkeeper.plans.expressions import Expression
from viewkeeper.plans.relations import Relation, nullable
from viewkeeper.plans.rewriting import references

PLACE = "place of element"
"""What the hidden column of a generator is called (bind_generators.py); Spark has none."""


@dataclass
class FromItem:
    """One table, view or subquery in FROM.  Its columns stand at `offset` and on in the joined row.

    The last `hidden` of them are found by their names alone: no `*` stands for them.  `optional`: an outer join
    may have filled its columns up with NULLs.
    """

    alias: str
    relation: Relation
    names: tuple[str, ...]
    offset: int
    hidden: int = 0
    optional: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        return nullable(self._given) if self.optional else self._given

    @cached_property
    def _given(self) -> tuple[Column, ...]:
        return self.relation.columns

    @cached_property
    def positions(self) -> dict[str, list[int]]:
        """The positions in `columns` of each name in small letters."""
        positions: dict[str, list[int]] = {}
        for i, name in enumerate(self.names):
            positions.setdefault(name.lower(), []).append(i)
        return positions

    @property
    def span(self) -> range:
        return range(self.offset, self.offset + len(self.names))


class Unresolved(Exception):
    """No column, or `several`, for a name; the message says which there are."""

    def __init__(self, message: str, several: bool = False) -> None:
        super().__init__(message)
        self.several = several


ShownColumn = tuple[str, FromItem, int]
"""A column that `*` stands for: its name, its item, its number there."""


class Scope:
    """The items of one FROM, in the order in which they are written.

    `merged` are the columns that USING or NATURAL JOIN made one, by their names in small letters; `shown` is what `*`
    then stands for.
    """

    def __init__(
        self, items: Sequence[FromItem], merged: Mapping[str, ShownColumn] | None = None,
        shown: Sequence[ShownColumn] | None = None,
    ) -> None:  # fmt: skip
        self.items, self.merged = items, merged or {}
        self._shown = shown

    def optional(self) -> Scope:
        """The same columns, all of which may be NULL."""
        items = {id(item): replace(item, optional=True) for item in self.items}
        merged = {name: (n, items[id(item)], i) for name, (n, item, i) in self.merged.items()}
        shown = None if self._shown is None else [(n, items[id(item)], i) for n, item, i in self._shown]
        return Scope(list(items.values()), merged, shown)

    @property
    def shown(self) -> Sequence[ShownColumn]:
        """What `*` stands for."""
        return shown_of(self.items) if self._shown is None else self._shown

    def resolve(self, name: str, table: str | None) -> tuple[int, Column]:
        """The position in the joined row, and the column, that `[table.]name` means; raises Unresolved."""
        _, item, i = self.find(name, table)
        return item.offset + i, item.columns[i]

    def find(self, name: str, table: str | None = None) -> ShownColumn:
        """The same as an item's column."""
        if table is None and name.lower() in self.merged:
            return self.merged[name.lower()]
        found = [(item, i) for item in self._called(table) for i in item.positions.get(name.lower(), ())]
        if len(found) == 1:
            item, i = found[0]
            return item.names[i], item, i
        if found:
            raise Unresolved(_ambiguous(name, [item.alias for item, _ in found]), several=True)
        names = [n for item in self._called(table) for n in item.names]
        raise Unresolved(f"there is no column {name}" + (f" in {table}" if table else "") + did_you_mean(name, names))

    def told_by(self, expressions: Sequence[Expression], width: int) -> tuple[int, ...] | None:
        """By which of the first `width` columns of the joined row rows without a key are told apart: all but hidden
        ones that none of `expressions` names; None: all."""
        hidden = {i for item in self.items if item.hidden for i in [*item.span][-item.hidden :]}
        unnamed = hidden - set().union(*map(references, expressions))
        return tuple(i for i in range(width) if i not in unnamed) if unnamed else None

    def written(self, position: int) -> str | None:
        """How the column at `position` of the joined row is written in the query; None where no name means it alone."""
        item = next(item for item in self.items if position in item.span)
        name = item.names[position - item.offset]
        if name == PLACE:
            return None
        try:
            found, _ = self.resolve(name, item.alias or None)
        except Unresolved:
            return None
        parts = [part.replace("`", "``") for part in (item.alias, name) if part]
        return ".".join(f"`{part}`" for part in parts) if found == position else None

    def is_nested(self, name: str) -> bool:
        """Whether a column is called `name` that holds other values."""
        return any(item.columns[i].type.is_nested for item in self.items for i in item.positions.get(name.lower(), ()))

    def says_nothing(self, name: str) -> bool:
        """Whether no column is called `name`."""
        return not any(name.lower() in item.positions for item in self.items)

    def star(self, table: str | None) -> Iterator[tuple[int, str, Column]]:
        """Position, name and column of all that `*` or `table.*` stands for."""
        shown = self.shown if table is None else self._shown_first(shown_of(self._called(table)))
        for name, item, i in shown:
            yield item.offset + i, name, item.columns[i]

    def _shown_first(self, columns: list[ShownColumn]) -> list[ShownColumn]:
        """Those of USING come first, as in Spark."""
        return sorted(columns, key=lambda column: column[0].lower() not in self.merged)

    def _called(self, table: str | None) -> Sequence[FromItem]:
        if table is None:
            return self.items
        called = [item for item in self.items if item.alias.lower() == table.lower()]
        if not called:
            raise Unresolved(f"there is no {table} in FROM" + did_you_mean(table, [item.alias for item in self.items]))
        return called


def shown_of(items: Iterable[FromItem]) -> list[ShownColumn]:
    """All columns of `items` that are not hidden."""
    return [(n, item, i) for item in items for i, n in enumerate(item.names[: len(item.names) - item.hidden])]


def _ambiguous(name: str, aliases: list[str]) -> str:
    if len(set(aliases)) == 1:
        return f"{name} is ambiguous: {aliases[0] or 'the subquery'} has {len(aliases)} of that name; give them aliases"
    return f"{name} is ambiguous: it could be " + " or ".join(f"{alias}.{name}" for alias in aliases)


def listed(names: Sequence[str]) -> str:
    """Names for a message, the first five of many."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A suggestion to put behind a message, empty where nothing is close; the names themselves where they are few."""
    known = {each.lower(): each for each in names}
    close = difflib.get_close_matches(name.lower(), known, n=2, cutoff=0.6)
    if close:
        return f"; did you mean {' or '.join(known[each] for each in close)}?"
    return f"; there is {', '.join(known.values())}" if 0 < len(known) <= 12 else ""

"""Plans of window views, and of the hidden helpers below them, as they are stored in the catalog.

A helper's part holds a row for each group (and each value, where values are kept): the group's columns, the values,
then `Slot`s, which are running numbers that can be put together (`states.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.catalog.codec import stored
from viewkeeper.catalog.model import Column, HelperPlan, PartPlan
from viewkeeper.catalog.types import BIGINT, BINARY, Type
from viewkeeper.plans.expressions import ColumnRef, Expression, TextPlace
from viewkeeper.plans.relations import Filter, InnerJoin, Project, Relation, Scan
from viewkeeper.plans.sums import sum_columns
from viewkeeper.plans.text import expression_text, listed

ROWS, COUNT, SUM, SQUARES, LEAST, GREATEST = "rows", "count", "sum", "squares", "least", "greatest"

MERGE, RUNNING, CUMULATIVE, BLOCKS = "merge", "running", "cumulative", "blocks"
"""The strategies: merging the pre-aggregates of all parts of the window; own running numbers, to which the newest part
is added and from which the one that leaves is taken; the difference of two sums since the beginning (the paper's
View6); merging blocks of 2, 4, 8, ... parts."""

ADDITIVE = frozenset((ROWS, COUNT, SUM, SQUARES))
"""What can be subtracted again."""


@stored(shared=True)
@dataclass(frozen=True)
class Slot:
    """One running number of a group: `kind` is one of the six above, `measure` the argument it is of (-1: all rows),
    `type` the argument's type."""

    kind: str
    measure: int
    type: Type

    @property
    def types(self) -> tuple[Type, ...]:
        """Its columns."""
        if self.kind in (LEAST, GREATEST):
            return (self.type,)
        if self.kind == SUM:
            return sum_columns(self.type)
        return (BINARY,) if self.kind == SQUARES else (BIGINT,)


@stored
@dataclass(frozen=True)
class Layout:
    """The columns of pre-aggregated rows: those of the group, those of the value, then of each slot in turn."""

    keys: tuple[Column, ...]
    values: tuple[Column, ...]
    slots: tuple[Slot, ...]

    @property
    def key(self) -> int:
        """How many columns tell rows apart."""
        return len(self.keys) + len(self.values)

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns; of slots the names are made."""
        made = []
        for slot in self.slots:
            name = slot.kind if slot.measure < 0 else f"{slot.kind}_{slot.measure}"
            nullable = slot.kind in (LEAST, GREATEST)
            many = len(slot.types) > 1
            made += [Column(f"{name}_{i}" if many else name, type_, nullable) for i, type_ in enumerate(slot.types)]
        return (*self.keys, *self.values, *made)

    def at(self, slot: int) -> int:
        """The first column of a slot."""
        return self.key + sum(len(each.types) for each in self.slots[:slot])

    def pick(self, slots: tuple[int, ...]) -> tuple[int, ...]:
        """The positions of the key's columns and of those of `slots`."""
        chosen = list(range(self.key))
        for slot in slots:
            chosen += range(self.at(slot), self.at(slot) + len(self.slots[slot].types))
        return tuple(chosen)

    def only(self, slots: tuple[int, ...]) -> Layout:
        """The layout of what `pick` picks."""
        return Layout(self.keys, self.values, tuple(self.slots[slot] for slot in slots))


@stored
@dataclass(frozen=True)
class PartAggregate(HelperPlan):
    """A helper: each part of `source` aggregated by itself.

    `input` gives the rows (scans, joins, filters), `keys` are the grouping expressions over it, `values` those whose
    values are kept with their number, `measures` the arguments of the slots.
    """

    source: int
    input: Relation
    keys: tuple[Expression, ...]
    values: tuple[Expression, ...]
    measures: tuple[Expression, ...]
    layout: Layout
    dimensions: tuple[int, ...]
    zone: str

    def text(self) -> str:
        """What it does, for people."""
        kept = [listed(self.values)] * bool(self.values)
        for slot in self.layout.slots:
            of = "" if slot.measure < 0 else f"({expression_text(self.measures[slot.measure])})"
            kept.append(f"{slot.kind}{of}")
        groups = f"by ({listed(self.keys)})" if self.keys else "as one group"
        return f"{_rows_text(self.input, self.source)} {groups}: {', '.join(kept)}"


def _rows_text(relation: Relation, source: int) -> str:
    match relation:
        case Scan():
            return f"{relation.name}[j]" if relation.object == source else f"{relation.name} as recorded for j"
        case Filter():
            return f"{_rows_text(relation.input, source)} where {expression_text(relation.predicate)}"
        case Project():
            return f"({listed(relation.outputs)} from {_rows_text(relation.input, source)})"
        case InnerJoin():
            pairs = zip(relation.left_keys, relation.right_keys, strict=True)
            on = [f"{expression_text(left)} = {expression_text(right)}" for left, right in pairs]
            on += [] if relation.residual is None else [expression_text(relation.residual)]
            left, right = _rows_text(relation.left, source), _rows_text(relation.right, source)
            return f"{left} joined with {right} on {' and '.join(on)}"
    raise TypeError(f"a window over {type(relation).__name__}")


@stored
@dataclass(frozen=True)
class Halves(HelperPlan):
    """A helper whose part i is the parts 2i and 2i + 1 of `below` put together; `pick` are the columns it takes."""

    below: int
    pick: tuple[int, ...]
    layout: Layout


@stored
@dataclass(frozen=True)
class Cumulated(HelperPlan):
    """A helper whose part j is the sum of all parts of `below` up to j (the paper's Helper for View6); it begins anew
    where more than `window` parts have no row.  `summed` is the layout without the part in which a group began."""

    below: int
    pick: tuple[int, ...]
    layout: Layout
    summed: Layout
    window: int


@stored
@dataclass(frozen=True)
class WindowPiece:
    """Some running numbers of a window, and how they are had from helper `object`.

    `pick` are the helper's columns that are read, `layout` their shape.  `levels` are the helpers with the blocks of 2,
    4, 8, ... parts; `own` is what the view keeps beside it (running); `since` the cumulated helper.
    """

    strategy: str
    object: int
    pick: tuple[int, ...]
    layout: Layout
    levels: tuple[int, ...] = ()
    own: int | None = None
    since: int | None = None


@stored
@dataclass(frozen=True)
class WindowCall:
    """An aggregate of the query, read off the slots `slots` (their positions) of piece `piece`, or off its values.

    `function` is named as in `AggregateCall`; `argument` is the type of its argument, None for COUNT(*).
    """

    function: str
    piece: int
    slots: tuple[int, ...]
    argument: Type | None
    type: Type
    nullable: bool
    place: TextPlace | None


@stored
@dataclass(frozen=True)
class Window(PartPlan):
    """A window view: `window` parts of `source`; `having` and `outputs` are over the group's columns and the calls."""

    kind = title = "window"

    source: int
    window: int
    keys: tuple[Column, ...]
    pieces: tuple[WindowPiece, ...]
    calls: tuple[WindowCall, ...]
    having: Expression | None
    outputs: tuple[Expression, ...]
    columns: tuple[Column, ...]
    zone: str
    hint: str | None = None

    @property
    def unique(self) -> tuple[int, ...] | None:
        """The columns that tell the rows of a part apart: the group's; None where one of them is no output."""
        places = {output.index: i for i, output in enumerate(self.outputs) if isinstance(output, ColumnRef)}
        wanted = range(len(self.keys))
        return tuple(places[i] for i in wanted) if all(i in places for i in wanted) else None

"""Keeps window views in memory: a schedule so plain that it can be seen to be right, over the real programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Catalog, Column, PartView, Stream
from viewkeeper.catalog.types import logical_type, physical_type, to_logical, to_physical
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.statements import CreateWindowView
from viewkeeper.jobs.ring import are_within, interval
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.part_program import Dividing, PartProgram, Shuffled
from viewkeeper.streams.windows.declare_window import declare_window
from viewkeeper.streams.windows.window_programs import window_program

Rows = list[tuple[Any, ...]]


def block_of(columns: Sequence[Column], rows: Rows) -> Block:
    """Rows of logical Python values as a block."""
    arrays = []
    for i, column in enumerate(columns):
        logical = pa.array([row[i] for row in rows], logical_type(column.type))
        arrays.append(to_physical(logical, column.type))
    return Block(arrays, np.zeros(len(rows), np.uint64))


def rows_of_block(columns: Sequence[Column], block: Block) -> Rows:
    """The inverse, in any order."""
    for column, array in zip(columns, block.columns, strict=True):
        assert array.type == physical_type(column.type), (column, array.type)
        assert column.nullable or not array.null_count, column
    lists = [to_logical(array, column.type).to_pylist() for column, array in zip(columns, block.columns, strict=True)]
    return [tuple(row) for row in zip(*lists, strict=True)] if lists else [()] * len(block)


def declare(catalog: Catalog, sql: str, stream: Stream) -> tuple[Catalog, PartView]:
    """The catalog with a window view and its new helpers."""
    (statement,) = parse_script(sql)
    assert isinstance(statement, CreateWindowView)
    ids = count(catalog.next_id)
    views = declare_window(catalog, statement, stream, lambda: next(ids))
    grown = replace(catalog.adding(*views), next_id=next(ids))
    return grown, views[-1]


@dataclass
class Engine:
    """`parts` has all rows, by object and part; `seen` the (object, part) pairs that a program has read."""

    catalog: Catalog
    stream: Stream
    dimensions: dict[int, Block] = field(default_factory=dict)
    parts: dict[tuple[int, int], Block] = field(default_factory=dict)
    first: int | None = None
    last: int | None = None
    seen: set[tuple[int, int]] = field(default_factory=set)
    begins: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.programs = {view.id: window_program(self.catalog, view) for view in self.catalog.part_views}

    def seal(self, part: int, slices: Sequence[Rows]) -> None:
        """Part `part`, the next one, is there: builds what can be built."""
        self.first = part if self.first is None else self.first
        self.last = part
        rows = [block_of(self.stream.columns, rows) for rows in slices if rows]
        self._put(self.stream.id, part, Block.concat(rows) if rows else Block.empty(self.stream.columns))
        for view in self.catalog.part_views:
            for j in self._newly(view, part):
                self._compute(view, j, None, slices=max(1, len(slices)))

    def _newly(self, view: PartView, part: int) -> range:
        """The parts of a view that end with the stream's part `part`, if they begin in time."""
        factor = view.length // self.stream.length
        if (part + 1) % factor:
            return range(0)
        j = (part + 1) // factor - 1
        return range(j, j + 1) if self._begins(view) <= j else range(0)

    def _begins(self, view: PartView) -> int:
        """The lowest part that names nothing before what its sources begin with."""
        if view.id not in self.begins:
            starts = [(each.low, self._start(each.object)) for each in self.programs[view.id].inputs]
            j = -100
            while any(low.at(j) < start for low, start in starts):
                j += 1
            self.begins[view.id] = j
        return self.begins[view.id]

    def _start(self, object_: int) -> int:
        if object_ == self.stream.id:
            assert self.first is not None
            return self.first
        return self._begins(next(view for view in self.catalog.part_views if view.id == object_))

    def late(self, part: int, rows: Rows) -> dict[int, set[int]]:
        """Late rows come into a part; returns which parts of each view are others than before."""
        block = block_of(self.stream.columns, rows)
        self._put(self.stream.id, part, Block.concat([self.parts[self.stream.id, part], block]))
        dirty: dict[tuple[int, int], np.ndarray] = {}
        changed: dict[int, set[int]] = {}
        for view in self.catalog.part_views:
            program = self.programs[view.id]
            touched: dict[int, np.ndarray] = {}
            built = self._built(view)
            for each in (*program.inputs, *program.optional):
                for j in built:
                    for named in range(each.low.at(j), each.high.at(j) + 1):
                        if each.object == self.stream.id and named == part:
                            hashes = program.prepare(part, block, self.dimensions).hashes
                        else:
                            hashes = dirty.get((each.object, named), np.zeros(0, np.uint64))
                        touched[j] = np.union1d(touched.get(j, np.zeros(0, np.uint64)), hashes)
            for j in built:
                if len(touched.get(j, ())):
                    differs = self._compute(view, j, touched[j])
                    if program.carry == "part":
                        touched[j + 1] = np.union1d(touched.get(j + 1, np.zeros(0, np.uint64)), differs)
                    for output in program.outputs:
                        dirty[output.object, j] = differs
                    if len(differs):
                        changed.setdefault(view.id, set()).add(j)
        return changed

    def _built(self, view: PartView) -> range:
        assert self.last is not None
        factor = view.length // self.stream.length
        return range(self._begins(view), (self.last + 1) // factor)

    def _compute(self, view: PartView, j: int, touched: np.ndarray | None, slices: int = 1) -> np.ndarray:
        """Computes a part (of it, the touched groups); returns the hashes of the groups that are others."""
        program = self.programs[view.id]
        made = dict(self._made(program, j, touched, slices))
        differs = np.zeros(0, np.uint64)
        for output in program.outputs:
            new = made.get(output.object, Block.empty(output.columns))
            assert touched is None or np.isin(new.hashes, touched).all(), "only what was asked for"
            old = self.parts.get((output.object, j), Block.empty(output.columns))
            if touched is not None:
                kept = old.filter(~np.isin(old.hashes, touched))
                new = Block.concat([kept, new])
            before, after = _by_hash(output.columns, old), _by_hash(output.columns, new)
            others = [h for h in before.keys() | after.keys() if before.get(h) != after.get(h)]
            differs = np.union1d(differs, np.array(others, np.uint64))
            self._put(output.object, j, new)
        return differs

    def _made(self, program: PartProgram, j: int, touched: np.ndarray | None, slices: int) -> dict[int, Block]:
        named = [(each.object, i) for each in program.inputs for i in range(each.low.at(j), each.high.at(j) + 1)]
        if not any(len(self.parts.get(place, ())) for place in named):  # type: ignore[arg-type]
            return {}
        source = self.parts.get((program.inputs[0].object, j))
        rows = Block.empty(())
        if isinstance(program, Shuffled):
            assert source is not None
            cuts = np.array_split(np.arange(len(source)), slices)
            prepared = [block for cut in cuts for block in self._prepared(program, j, source.take(cut))]
            rows = Block.concat(prepared)
            if touched is not None:
                rows = rows.filter(np.isin(rows.hashes, touched))
            if not len(rows):
                return {}
        return dict(program.advance(j, rows, _Past(self, program, j, touched)))

    def _prepared(self, program: Shuffled, j: int, rows: Block) -> list[Block]:
        """A slice as one view server prepares it, or, every other part, as two do."""
        if j % 2 or not isinstance(program, Dividing):
            return [program.prepare(j, rows, self.dimensions)]
        halves = [interval(server, 2) for server in range(2)]
        found = [program.prepare_some(j, rows, self.dimensions, partial(are_within, low=low, high=high))
                 for low, high in halves]  # fmt: skip
        for block, (low, high) in zip(found, halves, strict=True):
            assert all(low <= h <= high for h in block.hashes.tolist()), "of its interval only"
        return found

    def _put(self, object_: int, part: int, block: Block) -> None:
        order = np.argsort(block.hashes, kind="stable")
        self.parts[object_, part] = block.take(order)

    def rows(self, view: PartView, part: int) -> Rows:
        """The rows of a view's part."""
        return rows_of_block(view.columns, self.parts.get((view.id, part), Block.empty(view.columns)))


@dataclass
class _Past:
    engine: Engine
    program: PartProgram
    part: int
    touched: np.ndarray | None

    def read(self, object_: int, part: int) -> Block:
        own = any(output.object == object_ for output in self.program.outputs)
        inputs = (*self.program.inputs, *self.program.optional)
        allowed = any(
            each.object == object_ and each.low.at(self.part) <= part <= each.high.at(self.part) for each in inputs
        )
        assert (own and part == self.part - 1 and self.program.carry == "part") or allowed, "reads what it named"
        self.engine.seen.add((object_, part))
        columns = next(
            columns for view in self.engine.catalog.part_views
            for id_, columns in [(view.id, view.columns), *((helper.id, helper.columns) for helper in view.helpers)]
            if id_ == object_
        )  # fmt: skip
        block = self.engine.parts.get((object_, part), Block.empty(columns))
        return block if self.touched is None else block.filter(np.isin(block.hashes, self.touched))

    def filled(self, object_: int, low: int, high: int) -> list[int]:
        return sorted(
            i for (id_, i), rows in self.engine.parts.items() if id_ == object_ and low <= i <= high and len(rows)
        )

    def last(self, object_: int) -> Block:
        raise AssertionError("no window view carries rows")


def _by_hash(columns: Sequence[Column], block: Block) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for h, row in zip(block.hashes.tolist(), rows_of_block(columns, block), strict=True):
        found.setdefault(h, []).append(repr(row))
    return {h: sorted(rows) for h, rows in found.items()}

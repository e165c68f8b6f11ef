"""A MATCH_RECOGNIZE view kept in memory: its parts are built and repaired as the maintainer does it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from bags import bag
from viewkeeper.catalog.model import Catalog, Column, PartView, Stream
from viewkeeper.catalog.types import (
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    decimal,
    logical_type,
    to_logical,
    to_physical,
)
from viewkeeper.compiler.source_text import QueryText, Script
from viewkeeper.compiler.statements import CreateMatchView, Identifier
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.recognize.declare_match import declare_match
from viewkeeper.streams.recognize.match_program import match_program

Row = tuple[Any, ...]
LENGTH = 60
STREAM = Stream(
    20, "s", (Column("ts", TIMESTAMP, False), Column("g", STRING), Column("x", INT), Column("y", DOUBLE),
              Column("d", decimal(38, 2))), 0, LENGTH,
)  # fmt: skip


def declared(text: str, source: Stream | PartView = STREAM, columns: Sequence[str] = ()) -> PartView:
    """The view `v` that the query `text` declares over `source`; the text begins at line 1, column 1."""
    query = QueryText(exp.select("1"), Script(text), 0, len(text))
    names = tuple(Identifier(name, (1, 1)) for name in columns)
    statement = CreateMatchView(text, (1, 1), Identifier("v", (1, 1)), names, query, None)
    ids = itertools.count(30)
    (view,) = declare_match(Catalog((STREAM,)), statement, source, lambda: next(ids))
    return view


def matching(clauses: str) -> PartView:
    """The view of all columns of matches in `s`."""
    return declared(f"SELECT * FROM s MATCH_RECOGNIZE ({clauses})")


def block(rows: Sequence[Row], columns: Sequence[Column] = STREAM.columns) -> Block:
    """Rows of logical values as a block without hashes."""
    arrays = [_array([row[i] for row in rows], column.type) for i, column in enumerate(columns)]
    return Block(arrays, np.zeros(len(rows), dtype=np.uint64))


def _array(values: Sequence[Any], type_: Type) -> pa.Array:
    return to_physical(pa.array(values, logical_type(type_)), type_)


def rows_of(block: Block, columns: Sequence[Column]) -> Counter[Row]:
    """The rows of a block as logical values."""
    arrays = [to_logical(a, c.type).to_pylist() for a, c in zip(block.columns, columns, strict=True)]
    return bag(zip(*arrays, strict=True)) if len(block) else Counter()


class History:
    """All parts of one view and of its open rows."""

    def __init__(self, view: PartView, slices: int = 1) -> None:
        self.view, self.program = view, match_program(Catalog(), view)
        self.columns = STREAM.columns
        self._slices = slices
        self._helper = view.helpers[0] if view.helpers else None
        self.source: dict[int, list[Row]] = {}
        self.parts: dict[int, Block] = {}
        self.opened: dict[int, Block] = {}
        self._touched: np.ndarray | None = None
        self._at = 0

    def append(self, part: int, rows: Sequence[Row]) -> None:
        """Builds a new part; one without rows is passed over."""
        self.source[part] = list(rows)
        if rows:
            self._compute(part, None)

    def repair(self, part: int, rows: Sequence[Row]) -> list[int]:
        """Adds late rows; gives the parts that were computed again: until the open rows are as before."""
        self.source[part] += rows
        late = self._prepared(part, rows)
        touched = np.unique(late.hashes)
        computed = []
        for j in sorted(j for j, there in self.source.items() if j >= part and there):
            before = self.opened.get(j)
            self._compute(j, touched)
            computed.append(j)
            if self._helper is None or (before is not None and _same(before, self.opened[j])):
                break
        return computed

    def last(self, object_: int) -> Block:
        """`Past.last`: of the touched groups only, in a repair; in no order within a group."""
        assert self._helper is not None and object_ == self._helper.id
        earlier = [j for j, rows in self.source.items() if j < self._at and rows]
        if not earlier:
            return Block.empty(self._helper.columns)
        block = self.opened[max(earlier)]
        block = block.take(np.arange(len(block))[::-1])
        return block if self._touched is None else block.filter(np.isin(block.hashes, self._touched))

    def read(self, object_: int, part: int) -> Block:
        raise AssertionError("a program reads only what it names")

    def shown(self) -> dict[int, Counter[Row]]:
        """The rows of each part of the view."""
        return {j: rows_of(block, self.view.columns) for j, block in self.parts.items()}

    def _prepared(self, part: int, rows: Sequence[Row]) -> Block:
        slices = [rows[i :: self._slices] for i in range(self._slices)]
        return Block.concat([self.program.prepare(part, block(piece, self.columns), {}) for piece in slices])

    def _compute(self, part: int, touched: np.ndarray | None) -> None:
        rows = self._prepared(part, self.source[part])
        if touched is not None:
            rows = rows.filter(np.isin(rows.hashes, touched))
        self._at, self._touched = part, touched
        made = self.program.advance(part, rows, self)
        self._replace(self.parts, part, made.get(self.view.id), self.view.columns)
        if self._helper is not None:
            self._replace(self.opened, part, made.get(self._helper.id), self._helper.columns)

    def _replace(
        self, parts: dict[int, Block], part: int, new: Block | None, columns: Sequence[Column]
    ) -> None:  # fmt: skip
        new = Block.empty(columns) if new is None else new
        old = parts.get(part)
        if self._touched is not None and old is not None:
            assert np.isin(new.hashes, self._touched).all()
            new = Block.concat([old.filter(~np.isin(old.hashes, self._touched)), new])
        parts[part] = new


def _same(left: Block, right: Block) -> bool:
    def rows(block: Block) -> Counter[Row]:
        return Counter(zip(*(column.to_pylist() for column in block.columns), strict=True))

    return rows(left) == rows(right)


def built(view: PartView, parts: Mapping[int, Sequence[Row]], slices: int = 1) -> History:
    """The history of `view` over all `parts`, in order."""
    history = History(view, slices)
    for part in sorted(parts):
        history.append(part, parts[part])
    return history

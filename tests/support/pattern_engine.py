"""A pattern view kept in memory: its programs run part by part over rows as Python values, without files or driver."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Catalog, Column, PartView, Stream
from viewkeeper.catalog.types import INT, STRING, TIMESTAMP, logical_type, to_logical, to_physical
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.statements import CreatePatternView
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.patterns import simulation
from viewkeeper.streams.patterns.answer import AnswerProgram
from viewkeeper.streams.patterns.declare_pattern import declare_pattern
from viewkeeper.streams.patterns.matches_program import MatchesProgram
from viewkeeper.streams.patterns.pattern_program import pattern_program

Row = tuple[Any, ...]
LENGTH = 60
STREAM = Stream(16, "M", (Column("ts", TIMESTAMP, False), Column("src", STRING), Column("loss", INT),
                          Column("x", INT)), 0, LENGTH)  # fmt: skip


def at(part: int, second: int = 0) -> datetime.datetime:
    """A moment in a part of `STREAM`."""
    return datetime.datetime.fromtimestamp(part * LENGTH + second, datetime.UTC)


def declared(sql: str, source: Stream | PartView = STREAM, catalog: Catalog | None = None) -> tuple[Catalog, PartView]:
    """The catalog with the view that `sql` declares over `source`, and the view."""
    catalog = catalog or Catalog((STREAM,))
    (statement,) = parse_script(sql)
    assert isinstance(statement, CreatePatternView)
    ids = itertools.count(max([item.id for item in catalog.in_parts]) + 1)
    views = declare_pattern(catalog, statement, source, lambda: next(ids))
    return catalog.adding(*views), views[-1]


def block(rows: Sequence[Row], columns: Sequence[Column]) -> Block:
    """Rows of logical values as a block without hashes."""
    arrays = [to_physical(pa.array([row[i] for row in rows], logical_type(c.type)), c.type)
              for i, c in enumerate(columns)]  # fmt: skip
    return Block(arrays, np.zeros(len(rows), np.uint64))


def values(rows: Block, columns: Sequence[Column]) -> list[Row]:
    """The inverse of `block`."""
    arrays = [to_logical(array, c.type).to_pylist() for array, c in zip(rows.columns, columns, strict=True)]
    return list(zip(*arrays, strict=True)) if arrays else [()] * len(rows)


class Kept:
    """The Helper's parts and the view's, kept part by part; it is the programs' `Past`."""

    def __init__(self, catalog: Catalog, view: PartView, *, dominance: bool = True) -> None:
        helper = catalog.by_id(view.plan.helper)
        assert isinstance(helper, PartView)
        matches, answer = pattern_program(catalog, helper), pattern_program(catalog, view)
        assert isinstance(matches, MatchesProgram) and isinstance(answer, AnswerProgram)
        self.matches, self.answer = replace(matches, dominance=dominance), answer
        self.helper: dict[int, Block] = {}
        self.view: dict[int, Block] = {}

    def read(self, object_: int, part: int) -> Block:
        """`program.Past.read`."""
        return self.helper.get(part, Block.empty(self.matches.outputs[0].columns))

    def last(self, object_: int) -> Block:
        """`program.Past.last`."""
        raise AssertionError("carry is part")

    def build(self, part: int, rows: Sequence[Row], slices: int = 1) -> None:
        """Part `part` from the source's rows, which come in `slices`."""
        if not rows:
            return
        made = self.matches.advance(part, self._prepared(part, rows, slices), self)
        self._keep(part, made.get(self.matches.helper, Block.empty(self.matches.outputs[0].columns)))

    def repair(self, parts: Mapping[int, Sequence[Row]], first: int, last: int, late: Sequence[Row]) -> list[int]:
        """Recomputes the groups of the `late` rows of part `first`, and of later parts until they are as before;
        `parts` has all rows.  Returns the parts that were computed."""
        touched = np.unique(self._prepared(first, late, 1).hashes)
        computed = []
        for part in range(first, last + 1):
            before = self.read(0, part)
            old, rest = _of(before, touched), _of(before, touched, inverse=True)
            new = Block.empty(self.matches.outputs[0].columns)
            if parts.get(part):
                prepared = _of(self._prepared(part, parts[part], 1), touched)
                made = self.matches.advance(part, prepared, _Touched(self, touched))
                new = made.get(self.matches.helper, new)
            computed.append(part)
            self._keep(part, Block.concat([rest, new]))
            columns = self.matches.outputs[0].columns
            if sorted(map(repr, values(old, columns))) == sorted(map(repr, values(new, columns))):
                break
        return computed

    def rows(self) -> dict[int, list[Row]]:
        """The view's rows by part, empty parts left out."""
        return {part: values(rows, self.answer.outputs[0].columns) for part, rows in self.view.items() if len(rows)}

    def _prepared(self, part: int, rows: Sequence[Row], slices: int) -> Block:
        pieces = [list(rows[i::slices]) for i in range(slices)]
        return Block.concat([self.matches.prepare(part, block(p, self.matches.columns), {}) for p in pieces])

    def _keep(self, part: int, helper: Block) -> None:
        self.helper[part] = helper
        self.view[part] = self.answer.advance(part, helper, self)[self.answer.view]


class _Touched:
    def __init__(self, kept: Kept, touched: np.ndarray) -> None:
        self._kept, self._touched = kept, touched

    def read(self, object_: int, part: int) -> Block:
        return _of(self._kept.read(object_, part), self._touched)

    def last(self, object_: int) -> Block:
        return self._kept.last(object_)


def _of(rows: Block, touched: np.ndarray, inverse: bool = False) -> Block:
    return rows.filter(np.isin(rows.hashes, touched, invert=inverse))


def kept(sql: str, parts: Mapping[int, Sequence[Row]], **options: Any) -> Kept:
    """The view that `sql` declares, over all `parts`."""
    machine = Kept(*declared(sql), **options)
    for part in sorted(parts):
        machine.build(part, parts[part])
    return machine


def by_part(rows: Iterable[Row]) -> dict[int, list[Row]]:
    """Rows of `STREAM` by part."""
    parts: dict[int, list[Row]] = {}
    for row in rows:
        parts.setdefault(int(row[0].timestamp()) // LENGTH, []).append(row)
    return parts


@contextmanager
def few_groups(count: int) -> Iterator[None]:
    """So many groups are taken one by one."""
    with mock.patch.object(simulation, "FEW_GROUPS", count):
        yield

"""Small programs of generated views, each with a plain Python account of what it computes, and a driver that runs them.

The accounts (`expected`) share no code with what they check: rows are tuples, parts are dictionaries of lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import BIGINT, STRING
from viewkeeper.errors import ViewBroken
from viewkeeper.plans.references import Input, Subscript
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.computing import compute
from viewkeeper.streams.part_files import PartWriter, read_part
from viewkeeper.streams.part_program import Carry, OfRows, Output, Past, Shuffled
from viewkeeper.streams.work import Outcome, PartExecutor, PartWork, Piece, Place
from viewkeeper.trace import hashing
from viewkeeper.trace.grouping import group_rows
from viewkeeper.trace.local_disk import LocalDisk
from viewkeeper.trace.receipt import FileRef

SOURCE, GROUPED, VIEW, HELPER = 16, 17, 18, 19
COLUMNS = (Column("g", STRING), Column("x", BIGINT))
HERE = Subscript(1, 0)

Row = tuple[str | None, int]
Rows = list[Row]
Parts = dict[int, Rows]


def summed(blocks: Sequence[Block]) -> Block:
    """The sum of x for each g, in all of `blocks`."""
    block = Block.concat([Block.empty(COLUMNS), *blocks])
    groups = group_rows(block.hashes, block.columns[:1])
    first = block.take(groups.firsts)
    if not len(block):
        return block
    totals = np.add.reduceat(block.columns[1].to_numpy()[groups.order], groups.starts)
    return Block([first.columns[0], pa.array(totals)], first.hashes)


def where_even(block: Block) -> Block:
    return block.filter(block.columns[1].to_numpy() % 2 == 0)


@dataclass(frozen=True)
class Toy(OfRows):
    """What all have in common: rows without x are not counted; a row of x = 666 raises, one of 667 is a defect."""

    inputs: tuple[Input, ...] = (Input(SOURCE, HERE, HERE),)
    optional: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = (Output(VIEW, COLUMNS), Output(HELPER, COLUMNS))
    carry: Carry = "none"
    dimensions: tuple[int, ...] = ()

    def advance(self, part: int, rows: Block, past: Past) -> Mapping[int, Block]:
        raise NotImplementedError


@dataclass(frozen=True)
class Counted(Toy, Shuffled):
    """Over a source without groups."""

    def prepared_columns(self) -> tuple[Column, ...]:
        return COLUMNS

    def prepare(self, part: int, rows: Block, dimensions: Mapping[int, Block]) -> Block:
        values = rows.columns[1].to_pylist()
        if 666 in values:
            raise ViewBroken(f"part {part}: the row of 666 raises")
        if 667 in values:
            raise KeyError("a defect")
        kept = rows.filter(rows.columns[1].is_valid().to_numpy(zero_copy_only=False))
        return summed([Block(kept.columns, hashing.hash_columns(kept.columns[:1], len(kept)))])


@dataclass(frozen=True)
class RunningSum(Counted):
    """Helper: the sum of each group over all parts since the last empty one; view: those that are even."""

    carry: Carry = "part"

    def advance(self, part: int, rows: Block, past: Past) -> Mapping[int, Block]:
        sums = summed([past.read(HELPER, part - 1), rows])
        return {HELPER: sums, VIEW: where_even(sums)}


@dataclass(frozen=True)
class LastState(Counted):
    """Helper: a number for each group that was ever seen, 3 times the last part's number and the sum of this part,
    modulo 7 (so that it settles where it meets); the last part is the last one in which the stream has rows."""

    carry: Carry = "row"

    def advance(self, part: int, rows: Block, past: Past) -> Mapping[int, Block]:
        before = past.last(HELPER)
        tripled = Block([before.columns[0], pa.array(3 * before.columns[1].to_numpy())], before.hashes)
        sums = summed([tripled, rows])
        states = Block([sums.columns[0], pa.array(sums.columns[1].to_numpy() % 7)], sums.hashes)
        return {HELPER: states, VIEW: where_even(states)}


@dataclass(frozen=True)
class OwnWindow(Counted):
    """Helper: the sum of each group in the part; view: in the last three parts, from the helper's own parts."""

    inputs: tuple[Input, ...] = (Input(SOURCE, Subscript(1, -2), HERE),)
    optional: tuple[Input, ...] = (Input(HELPER, Subscript(1, -2), Subscript(1, -1)),)

    def advance(self, part: int, rows: Block, past: Past) -> Mapping[int, Block]:
        sums = summed([rows])
        return {HELPER: sums, VIEW: summed([past.read(HELPER, part - 2), past.read(HELPER, part - 1), sums])}


@dataclass(frozen=True)
class GroupedWindow(Toy):
    """The same over a source that has groups itself."""

    inputs: tuple[Input, ...] = (Input(GROUPED, Subscript(1, -2), HERE),)
    outputs: tuple[Output, ...] = (Output(VIEW, COLUMNS),)

    def advance(self, part: int, rows: Block, past: Past) -> Mapping[int, Block]:
        return {VIEW: summed([past.read(GROUPED, part - 2), past.read(GROUPED, part - 1), rows])}


Answer = dict[int, dict[int, Counter[Row]]]
"""The rows of each part, by object."""


def python_sums(rows: Rows) -> dict[str | None, int]:
    sums: dict[str | None, int] = {}
    for g, x in rows:
        if x is not None:
            sums[g] = sums.get(g, 0) + x
    return sums


def expected_running(parts: Parts, first: int, last: int) -> Answer:
    answer: Answer = {VIEW: {}, HELPER: {}}
    sums: dict[str | None, int] = {}
    for part in range(first, last + 1):
        if not parts.get(part):
            sums = {}
        for g, x in python_sums(parts.get(part, [])).items():
            sums[g] = sums.get(g, 0) + x
        answer[HELPER][part] = Counter(sums.items())
        answer[VIEW][part] = Counter(item for item in sums.items() if item[1] % 2 == 0)
    return answer


def expected_states(parts: Parts, first: int, last: int) -> Answer:
    answer: Answer = {VIEW: {}, HELPER: {}}
    states: dict[str | None, int] = {}
    for part in range(first, last + 1):
        if not parts.get(part):
            answer[HELPER][part], answer[VIEW][part] = Counter(), Counter()
            continue
        came = python_sums(parts[part])
        states = {g: (3 * states.get(g, 0) + came.get(g, 0)) % 7 for g in [*states, *came]}
        answer[HELPER][part] = Counter(states.items())
        answer[VIEW][part] = Counter(item for item in states.items() if item[1] % 2 == 0)
    return answer


def expected_window(parts: Parts, first: int, last: int) -> Answer:
    answer: Answer = {VIEW: {}, HELPER: {}}
    for part in range(first, last + 1):
        rows = [row for i in range(part - 2, part + 1) for row in parts.get(i, [])]
        answer[VIEW][part] = Counter(python_sums(rows).items())
        answer[HELPER][part] = Counter(python_sums(parts.get(part, [])).items())
    return answer


PROGRAMS = (RunningSum(), LastState(), OwnWindow(), GroupedWindow())

EXPECTED: dict[type, Callable[[Parts, int, int], Answer]] = {
    RunningSum: expected_running, LastState: expected_states, OwnWindow: expected_window,
    GroupedWindow: expected_window,
}  # fmt: skip


def block_of(rows: Rows) -> Block:
    """Rows as the source has them, with the hash of g."""
    columns = [pa.array([g for g, _ in rows], pa.large_string()), pa.array([x for _, x in rows], pa.int64())]
    return Block(columns, hashing.hash_columns(columns[:1], len(rows)))


@dataclass
class Keeper:
    """Keeps the view of one program as the driver does: builds it part by part in works, and repairs it."""

    root: Path
    executor: PartExecutor
    program: Any
    first: int
    parts: Parts = field(default_factory=dict)
    pieces: dict[Place, tuple[Piece, ...]] = field(default_factory=dict)
    files: dict[str, FileRef] = field(default_factory=dict)
    next: int = 0
    works: int = 0

    def __post_init__(self) -> None:
        self.next = self.first
        (self.root / "state").mkdir(exist_ok=True)

    @property
    def source(self) -> int:
        return self.program.inputs[0].object

    def add(self, part: int, rows: Rows) -> None:
        """Rows of a source's part: one more piece, as when late rows come."""
        self.works += 1
        writer = PartWriter(LocalDisk(str(self.root)), f"source{self.works}", COLUMNS, "UTC", self.source == GROUPED)
        writer.add(part, block_of(rows))
        _, made = writer.finish()
        if made:
            self.pieces[self.source, part] = (*self.pieces.get((self.source, part), ()), made[part])
            self.parts.setdefault(part, []).extend(rows)

    def filled(self, part: int) -> bool:
        """Whether the program computes a part."""
        return any(
            self.pieces.get((each.object, i))
            for each in self.program.inputs
            for i in range(each.low.at(part), each.high.at(part) + 1)
        )

    def build(self, last: int) -> Outcome:
        """Builds the parts up to `last` in one work."""
        parts = [part for part in range(self.next, last + 1) if self.filled(part)]
        self.next = last + 1
        return self.run(parts, None) if parts else Outcome()

    def repair(self, touched: dict[int, np.ndarray | None], most: int) -> dict[Place, int]:
        """Repairs in works of at most `most` parts; how many hashes changed in each part."""
        pending, changes = dict(touched), dict[Place, int]()
        while pending:
            start = min(pending)
            parts = [part for part in range(start, self.next) if self.filled(part) or part in pending][:most]
            outcome = self.run(parts, {part: pending.pop(part) for part in parts if part in pending})
            assert outcome.error is None
            carried = np.zeros(0, dtype=np.uint64)
            for (object_, part), made in outcome.made.items():
                assert made.changed is not None
                changes[object_, part] = len(made.changed)
                if part == parts[-1]:
                    carried = np.union1d(carried, made.changed)
            follower = self.follower(parts[-1])
            if follower is not None and len(carried):
                before = pending.get(follower, carried)
                pending[follower] = None if before is None else np.union1d(before, carried)
        return changes

    def follower(self, part: int) -> int | None:
        if self.program.carry == "part":
            return part + 1 if part + 1 < self.next and self.filled(part + 1) else None
        if self.program.carry == "row":
            return min((i for i in range(part + 1, self.next) if self.parts.get(i)), default=None)
        return None

    def run(self, parts: list[int], touched: dict[int, np.ndarray | None] | None) -> Outcome:
        """Runs one work and takes over what it made."""
        self.works += 1
        before = max((i for i in self.parts if i < parts[0]), default=None) if self.program.carry == "row" else None
        objects = {SOURCE, GROUPED, VIEW, HELPER}
        work = PartWork(
            disk=LocalDisk(str(self.root)), version=self.works, epoch=1, attempt=self.works, zone="UTC", title="a test",
            program=self.program, parts=tuple(parts),
            columns=dict.fromkeys(objects, COLUMNS), pieces=dict(self.pieces), before=before, touched=touched,
        )  # fmt: skip
        outcome = compute(self.executor, work)
        if outcome.error is None:
            self.take(outcome)
        return outcome

    def take(self, outcome: Outcome) -> None:
        self.files.update({file.name: file for file in outcome.files})
        for place, made in outcome.made.items():
            self.pieces[place] = made.pieces

    def rows(self, object_: int, part: int) -> Counter[Row]:
        """The rows of a part as they are stored."""
        block = read_part(LocalDisk(str(self.root)), self.pieces.get((object_, part), ()), COLUMNS, grouped=True)
        assert (block.hashes == hashing.hash_columns(block.columns[:1], len(block))).all()
        return Counter(zip(*(column.to_pylist() for column in block.columns), strict=True))

    def expected(self) -> Answer:
        """What the account says of all built parts."""
        answer = EXPECTED[type(self.program)](self.parts, self.first, self.next - 1)
        written = {output.object for output in self.program.outputs}
        return {object_: parts for object_, parts in answer.items() if object_ in written}

    def found(self) -> Answer:
        """What is stored of all built parts."""
        built = range(self.first, self.next)
        return {
            output.object: {part: self.rows(output.object, part) for part in built} for output in self.program.outputs
        }

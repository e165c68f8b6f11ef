"""What a program may read of the past: parts of its inputs, and what it wrote before, of one interval of the hash."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from viewkeeper.streams.blocks import Block
from viewkeeper.streams.part_files import Selection, read_part
from viewkeeper.streams.part_program import Shuffled
from viewkeeper.streams.touched import Touched, chosen
from viewkeeper.streams.work import PartWork, Piece, Place

MEMORY_BYTES = 256 << 20
"""What one view server remembers of parts that later parts of the same work read again."""


class History:
    """The parts that one view server reads in one work, of its interval and of the hashes that may be touched.

    Blocks that later parts of the work may read again are remembered, up to `MEMORY_BYTES`.  What the work itself wrote
    stands in a file that is not finished: it is remembered until `written` says where to find it.
    """

    def __init__(self, work: PartWork, low: int, high: int, touched: Touched) -> None:
        self._work, self._selection = work, Selection(low, high, touched)
        self._disk = work.disk
        self._named = (*work.program.inputs, *work.program.optional)
        self._own = {output.object for output in work.program.outputs}
        self._pieces: dict[Place, tuple[Piece, ...]] = {}
        self._unwritten: dict[Place, Block] = {}
        self._read: OrderedDict[Place, Block] = OrderedDict()
        self._after: int | None = None
        self.unwritten_bytes = self._read_bytes = 0
        filled: dict[int, set[int]] = {}
        for (object_, part), pieces in work.pieces.items():
            if pieces:
                filled.setdefault(object_, set()).add(part)
        self._filled = {object_: sorted(parts) for object_, parts in filled.items()}
        source = filled.get(work.program.inputs[0].object, set())
        self._source = sorted(source if work.before is None else source | {work.before})

    def begin(self, part: int, after: int | None) -> None:
        """`part` is computed now, and `after` next: what no part from `part` on reads is let go of."""
        self._after = part
        for place in [place for place in self._unwritten if not self._is_read_later(*place)]:
            self.unwritten_bytes -= _bytes(self._unwritten.pop(place))
        for place in [place for place in self._read if not self._is_read_later(*place)]:
            self._read_bytes -= _bytes(self._read.pop(place))
        self._after = after

    def block(self, object_: int, part: int) -> Block:
        """The rows of a part (of the interval, of hashes that may be touched), sorted by hash."""
        place = (object_, part)
        if place in self._unwritten:
            return self._unwritten[place]
        if place in self._read:
            self._read.move_to_end(place)
            return self._read[place]
        block = read_part(
            self._disk, self.pieces(object_, part), self._work.columns[object_], self._selection, grouped=True
        )
        if len(block) and self._is_read_later(object_, part):
            self._read[place] = block
            self._read_bytes += _bytes(block)
            while self._read_bytes > MEMORY_BYTES:
                self._read_bytes -= _bytes(self._read.popitem(last=False)[1])
        return block

    def pieces(self, object_: int, part: int) -> tuple[Piece, ...]:
        """The pieces of a part, as they were or as this work wrote them."""
        place = (object_, part)
        return self._pieces[place] if place in self._pieces else self._work.pieces.get(place, ())

    def wrote(self, object_: int, part: int, block: Block) -> None:
        """The work wrote an own part, which is now `block` (as `self.block` would give it)."""
        place = (object_, part)
        if place in self._read:
            self._read_bytes -= _bytes(self._read.pop(place))
        if self._is_read_later(object_, part):
            self._unwritten[place] = block
            self.unwritten_bytes += _bytes(block)

    def written(self, pieces: Mapping[Place, tuple[Piece, ...]]) -> None:
        """What the work wrote now stands in these pieces of finished files."""
        self._pieces.update(pieces)
        self._unwritten, self.unwritten_bytes = {}, 0

    def has_input(self, part: int) -> bool:
        """Whether any part that the inputs name for `part` has rows."""
        for each in self._work.program.inputs:
            low, high = each.low.at(part), each.high.at(part)
            filled = self._filled.get(each.object, [])
            if bisect_left(filled, low) < bisect_right(filled, high):
                return True
            if any(
                object_ == each.object and low <= i <= high and len(b) for (object_, i), b in self._unwritten.items()
            ):
                return True
        return False

    def filled(self, object_: int, low: int, high: int) -> list[int]:
        """The parts from `low` to `high` that may have rows, ascending."""
        filled = self._filled.get(object_, [])
        found = filled[bisect_left(filled, low) : bisect_right(filled, high)]
        if object_ not in self._own:
            return found
        made = (i for id_, i in (*self._pieces, *self._unwritten) if id_ == object_ and low <= i <= high)
        return sorted({*found, *made})

    def last_source(self, part: int) -> int | None:
        """The last part before `part` in which the source has rows."""
        at = bisect_left(self._source, part)
        return self._source[at - 1] if at else None

    def followers(self, object_: int, part: int) -> list[int]:
        """The later parts of the work that read `part` of an own output."""
        program, parts = self._work.program, self._work.parts
        later = parts[bisect_right(parts, part) :]
        found = set()
        if program.carry == "part" and later[:1] == (part + 1,):
            found.add(part + 1)
        if program.carry == "row":
            behind = self._source[bisect_right(self._source, part) :]
            found.update(behind[:1] if behind and behind[0] in later else ())
        for each in self._named:
            if each.object == object_:
                found.update(i for i in later if each.low.at(i) <= part <= each.high.at(i))
        return sorted(found)

    def may_read(self, object_: int, part: int, reading: int) -> bool:
        """Whether the program says that it reads `part` of an object for its part `reading`."""
        if object_ in self._own and self._work.program.carry == "part" and part == reading - 1:
            return True
        return any(
            each.object == object_ and each.low.at(reading) <= part <= each.high.at(reading) for each in self._named
        )

    def _is_read_later(self, object_: int, part: int) -> bool:
        """Whether the part of the work that comes next, or one behind it, may read `part`."""
        after, last = self._after, self._work.parts[-1]
        if after is None:
            return False
        if any(each.object == object_ and each.low.at(after) <= part <= each.high.at(last) for each in self._named):
            return True
        if object_ not in self._own:
            return False
        if self._work.program.carry == "row":
            before = self.last_source(after)
            return before is not None and part >= before
        return self._work.program.carry == "part" and part >= after - 1


class PartPast:
    """`program.Past` for one part: of the touched hashes alone."""

    def __init__(self, history: History, work: PartWork, part: int, touched: Touched) -> None:
        self._history, self._work, self._part, self._touched = history, work, part, touched

    def read(self, object_: int, part: int) -> Block:
        """The rows of a part, sorted by hash; ValueError where the program does not say that it reads it."""
        if not self._history.may_read(object_, part, self._part):
            raise ValueError(f"for part {self._part}, part {part} of object {object_} is read, which no input names")
        source = self._work.program.inputs[0].object
        if isinstance(self._work.program, Shuffled) and object_ == source:
            raise ValueError(f"object {object_} has no groups: it cannot be read by hash")
        return chosen(self._history.block(object_, part), self._touched)

    def filled(self, object_: int, low: int, high: int) -> Sequence[int]:
        """The parts from `low` to `high` that may have rows."""
        return self._history.filled(object_, low, high)

    def last(self, object_: int) -> Block:
        """The rows of an own output in the last part before in which the source has rows."""
        part = self._history.last_source(self._part) if self._work.program.carry == "row" else None
        if part is None:
            return Block.empty(self._work.columns[object_])
        return chosen(self._history.block(object_, part), self._touched)


def _bytes(block: Block) -> int:
    return block.hashes.nbytes + sum(column.nbytes for column in block.columns)

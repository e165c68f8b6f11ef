"""Equal parts: how far parts of a view read the same, and so are the same.

A part of a view follows from the parts that it reads, the versions of the dimension tables, and its definition.  Where
all of these are as for the part before, it is computed no more than once: time without rows costs a step, however long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from viewkeeper.plans.references import Input
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.keeping.stage import RoundStage
from viewkeeper.streams.part_files import read_part
from viewkeeper.streams.part_index import Range
from viewkeeper.streams.running import changed_hashes
from viewkeeper.streams.subscripts import UNBOUNDED, greatest_at_most


def reads_same_until(stage: RoundStage, input_: Input, part: int, timed: bool) -> int:
    """The last part from `part` on that reads the same by `input_` as `part` does; `timed`: it also sees which parts
    the rows are of."""
    index = stage.index(input_.object)
    low, high = input_.low.at(part), input_.high.at(part)
    alike = index.alike_until(low)
    if alike is None:
        return UNBOUNDED
    if alike < high:
        return part
    here = index.at(low)
    if here is not None and here.rows and (timed or not _slides(input_)):
        return part
    return max(part, greatest_at_most(input_.high, alike))


def _slides(input_: Input) -> bool:
    """Whether it names as many parts for each part."""
    return input_.low.factor == input_.high.factor and input_.low.divisor == input_.high.divisor == 1


def stretches(
    stage: RoundStage, objects: Iterable[int], same_until: Callable[[int], int], runs: Iterable[Range]
) -> Iterator[Range]:
    """The parts of `runs`, in stretches of parts that are the same and will be the same: `objects` are what a view
    writes, `same_until` says up to which part what is read is the same."""
    indexes = [stage.index(object_) for object_ in objects]
    for first, last in runs:
        part = first
        while part <= last:
            ends = [index.alike_until(part) for index in indexes]
            end = min([last, same_until(part), *(end for end in ends if end is not None)])
            yield part, end
            part = end + 1


def are_equal(stage: RoundStage, object_: int, part: int, other: int, *, grouped: bool) -> bool:
    """Whether two parts have the same rows, as bags."""
    left, right = stage.pieces(object_, part), stage.pieces(object_, other)
    if left == right:
        return True
    if sum(piece.rows for piece in left) != sum(piece.rows for piece in right):
        return False
    columns = stage.columns[object_]
    blocks: list[Block] = [read_part(stage.disk, each, columns, grouped=grouped) for each in (left, right)]
    return not len(changed_hashes(*blocks))

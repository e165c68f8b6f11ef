"""What a view server does for its interval of the hash: the parts of a generated view, one after another.

A part is computed from the prepared rows and from the past, and written to one file an output.  A repair computes the
touched groups anew, compares them with what they were, and goes on to the parts that read what has changed; it writes
the pieces in which rows changed, whole, and leaves all others as they are.  (Paper 003, section 4.3.)
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from viewkeeper.jobs.ring import interval
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.calling import DEFECT, ProgramFailed, called, require_shape
from viewkeeper.streams.part_files import PartWriter, Selection, by_hash, narrowed, read_part
from viewkeeper.streams.part_program import Output, Shuffled
from viewkeeper.streams.past import MEMORY_BYTES, History, PartPast
from viewkeeper.streams.preparing import prepare_here, touched_anywhere
from viewkeeper.streams.touched import Touched, chosen, left_out, union, within
from viewkeeper.streams.work import Made, Outcome, PartWork, Piece, Place
from viewkeeper.trace.grouping import group_rows
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.keys import canonical
from viewkeeper.trace.naming import file_name
from viewkeeper.trace.points import reached
from viewkeeper.trace.receipt import FileRef

FILE_KIND = "batch"


@dataclass
class Share:
    """What one interval made of a part: a piece with new rows, in place of its share of the pieces `replaced`; in a
    repair the hashes whose rows changed."""

    piece: Piece | None = None
    replaced: tuple[Piece, ...] = ()
    changed: np.ndarray | None = None


@dataclass
class IntervalResult:
    """What one view server made; `error` is why the program failed."""

    shares: dict[Place, Share] = field(default_factory=dict)
    files: list[FileRef] = field(default_factory=list)
    error: str | None = None


def run_interval(
    work: PartWork, server: int, servers: int, rows: Mapping[int, Sequence[Block]] | None = None
) -> IntervalResult:
    """Computes the interval of `server`.

    `rows` are the prepared rows of the interval, of every part that was prepared; others are prepared here when they
    are needed.
    """
    run = _Run(work, server, servers, rows or {})
    try:
        run.run()
    except ProgramFailed as failed:
        return IntervalResult(error=str(failed))
    return run.result


def combined(work: PartWork, results: Sequence[IntervalResult], started: float) -> Outcome:
    """What came of the whole work; `started` is when it began (`time.perf_counter`)."""
    seconds = time.perf_counter() - started
    errors = sorted(result.error for result in results if result.error is not None)
    if errors:
        return Outcome(seconds=seconds, error=errors[0])
    files = tuple(file for result in results for file in result.files)
    places = [(output.object, part) for output in work.program.outputs for part in work.parts]
    made: dict[Place, Made] = {}
    for place in places:
        shares = [result.shares.get(place) for result in results]
        if work.touched is None:
            made[place] = Made(tuple(share.piece for share in shares if share and share.piece))
        elif place[1] in work.touched or any(shares):
            made[place] = _repaired(work, place, shares)
    return Outcome(made, files, seconds)


def changed_hashes(old: Block, new: Block) -> np.ndarray:
    """The hashes (ascending, distinct) whose rows in one block are others, or as many times others, than in the other.

    -0.0 is 0.0, and every NaN the same.
    """
    both = Block.concat([old, new])
    keys = [pa.array(both.hashes.view(np.int64)), *map(canonical, both.columns)]
    groups = group_rows(hash_columns(keys, len(both)), keys)
    if not len(both):
        return both.hashes
    signs = np.where(np.arange(len(both)) < len(old), -1, 1)
    differ = np.add.reduceat(signs[groups.order], groups.starts) != 0
    return np.unique(both.hashes[groups.firsts[differ]])


class _Run:
    def __init__(self, work: PartWork, server: int, servers: int, rows: Mapping[int, Sequence[Block]]) -> None:
        self.work, self.server, self.rows = work, server, rows
        self.low, self.high = interval(server, servers)
        self.history = History(work, self.low, self.high, within(touched_anywhere(work), self.low, self.high))
        self.result = IntervalResult()
        self.writers: dict[int, PartWriter] = {}
        self.pending: dict[int, Touched] | None = None
        if work.touched is not None:
            self.pending = {part: within(touched, self.low, self.high) for part, touched in work.touched.items()}

    def run(self) -> None:
        for i, part in enumerate(self.work.parts):
            touched: Touched = None
            if self.pending is not None:
                if part not in self.pending:
                    continue
                touched = self.pending.pop(part)
                if touched is not None and not len(touched):
                    continue
            self.history.begin(part, self.work.parts[i + 1] if i + 1 < len(self.work.parts) else None)
            made = self._advance(part, touched)
            for output in self.work.program.outputs:
                new = by_hash(made.get(output.object) or Block.empty(output.columns))
                if self.pending is None:
                    self._build(output, part, new)
                else:
                    self._repair(output, part, touched, new)
            if self.history.unwritten_bytes > MEMORY_BYTES:
                self._finish_files()
        self._finish_files()

    def _advance(self, part: int, touched: Touched) -> Mapping[int, Block]:
        """What the program makes of a part; it is not asked where no input has rows."""
        if not self.history.has_input(part):
            return self._without_input(touched)
        rows = self._source(part, touched)
        past = PartPast(self.history, self.work, part, touched)
        made = called(lambda: self.work.program.advance(part, rows, past))
        for output in self.work.program.outputs:
            if output.object in made:
                self._require_fit(output, part, touched, made[output.object])
        return made

    def _without_input(self, touched: Touched) -> Mapping[int, Block]:
        empty = self.work.empty
        if empty is None:
            return {}
        mine = within(empty.hashes, self.low, self.high)
        return {self.work.program.outputs[0].object: chosen(chosen(empty, mine), touched)}

    def _source(self, part: int, touched: Touched) -> Block:
        """The source's rows of a part: prepared, or as they stand where they have groups already."""
        program = self.work.program
        source = program.inputs[0]
        if not isinstance(program, Shuffled):
            if source.low.at(part) <= part <= source.high.at(part):
                return chosen(self.history.block(source.object, part), touched)
            return Block.empty(self.work.columns[source.object])
        if part in self.rows:
            blocks = self.rows[part]
            if touched is not None:
                blocks = [chosen(by_hash(block), touched) for block in blocks]
        else:
            blocks = prepare_here(self.work, part, self.low, self.high, touched)
        return Block.concat(blocks) if blocks else Block.empty(program.prepared_columns())

    def _require_fit(self, output: Output, part: int, touched: Touched, block: Block) -> None:
        """A program that mixes groups, or gives other columns than it said, must not pass."""
        require_shape(block, output.columns, f"part {part} of object {output.object}")
        strange = len(block) and not (self.low <= int(block.hashes.min()) and int(block.hashes.max()) <= self.high)
        if strange or (touched is not None and len(np.setdiff1d(block.hashes, touched))):
            raise ProgramFailed(
                f"{DEFECT}: part {part} of object {output.object} came with rows of groups that were not asked for"
            )

    def _build(self, output: Output, part: int, new: Block) -> None:
        self._writer(output).add(part, new)
        self.result.shares[output.object, part] = Share()
        self.history.wrote(output.object, part, new)

    def _repair(self, output: Output, part: int, touched: Touched, new: Block) -> None:
        place = (output.object, part)
        before = self.history.block(*place)
        changed = changed_hashes(chosen(before, touched), new)
        share = self.result.shares[place] = Share(changed=changed)
        if not len(changed):
            return
        new = chosen(new, changed)
        pieces = self.work.pieces.get(place, ())
        share.replaced = tuple(piece for piece in pieces if len(within(changed, piece.low, piece.high)))  # type: ignore[arg-type]
        old = read_part(
            self.work.disk, share.replaced, output.columns, Selection(low=self.low, high=self.high), grouped=True,
        )  # fmt: skip
        self._writer(output).add(part, by_hash(Block.concat([left_out(old, changed), new])))
        self.history.wrote(output.object, part, by_hash(Block.concat([left_out(before, changed), new])))
        assert self.pending is not None
        for follower in self.history.followers(output.object, part):
            self.pending[follower] = union(self.pending.get(follower, changed), changed)

    def _writer(self, output: Output) -> PartWriter:
        if output.object not in self.writers:
            work = self.work
            name = file_name(work.version, work.epoch, 0, self.server, work.attempt, FILE_KIND, "parquet")
            self.writers[output.object] = PartWriter(self.work.disk, name, output.columns, work.zone, grouped=True)
        return self.writers[output.object]

    def _finish_files(self) -> None:
        """Completes the files, so that what they hold can be read again."""
        now: dict[Place, tuple[Piece, ...]] = {}
        for object_, writer in self.writers.items():
            file, pieces = writer.finish()
            reached("part file written")
            if file is not None:
                self.result.files.append(file)
            for part, piece in pieces.items():
                self.result.shares[object_, part].piece = piece
        self.writers = {}
        for place, share in self.result.shares.items():
            if share.changed is None or len(share.changed):
                kept = [piece for piece in self.work.pieces.get(place, ()) if piece not in share.replaced]
                now[place] = (*(kept if self.pending is not None else ()), *([share.piece] if share.piece else ()))
        self.history.written(now)


def _repaired(work: PartWork, place: Place, shares: Sequence[Share | None]) -> Made:
    """A repaired part: what changed in each interval, beside what stayed of the old pieces."""
    old = work.pieces.get(place, ())
    changes = [share.changed for share in shares if share is not None and share.changed is not None]
    changed = np.unique(np.concatenate([np.zeros(0, dtype=np.uint64), *changes]))
    if not len(changed):
        return Made(old, changed)
    pieces: list[Piece] = []
    for piece in old:
        leaving = [share is not None and piece in share.replaced for share in shares]
        if not any(leaving):
            pieces.append(piece)
            continue
        for server, is_leaving in enumerate(leaving):
            if not is_leaving:
                low, high = interval(server, len(shares))
                if piece.low <= high and low <= piece.high:
                    staying = narrowed(work.disk, piece, low, high)
                    pieces += [staying] if staying is not None else []
    return Made((*pieces, *(share.piece for share in shares if share and share.piece)), changed)

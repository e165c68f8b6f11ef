"""One round of keeping: takes what the logs of the streams hold, seals parts, and does all that follows from it.

A round computes over one snapshot, while batches of base tables go on beside it; what it made is one commit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from viewkeeper.catalog.model import Catalog, PartView, Stream
from viewkeeper.plans.viewdf import QueryPlan
from viewkeeper.streams.intake.stream_log import StreamLog
from viewkeeper.streams.intake.taking import advance, sealed_upto
from viewkeeper.streams.keeping.dimensions import Dimensions
from viewkeeper.streams.keeping.expiry import expire
from viewkeeper.streams.keeping.program_upkeep import ProgramUpkeep
from viewkeeper.streams.keeping.query_upkeep import QueryUpkeep
from viewkeeper.streams.keeping.rollup import roll_up
from viewkeeper.streams.keeping.stage import RoundStage, new_files
from viewkeeper.streams.keeping.upkeep import Hands, Upkeep
from viewkeeper.streams.part_index import Part
from viewkeeper.streams.work import PartExecutor
from viewkeeper.trace.points import reached
from viewkeeper.trace.snapshot import Snapshot

ENTRIES = 10_000
"""Log entries that a round takes of one stream, at most (and see `log.READ_BYTES`)."""

SEALED_ROWS = 4_000_000
"""Rows in parts that a round makes visible, about, if there are several parts."""

SEALED_PARTS = 256
"""Parts with rows that a round makes visible, at most; with views below that Spark SQL computes, one query a part: a
version then should not wait for too many."""
SEALED_PARTS_QUERIED = 8

FILL_SECONDS = 5.0
"""For so long a round builds parts of views that lag behind, before it commits and goes on in the next."""

VIEWS_AT_ONCE = 4


@dataclass
class Round:
    """`seconds` is shared by all rounds of a driver: what the last works of each view took, a part.  With `tidy`, old
    parts are looked through, and where any go or are rolled up this is all that the round does.  `upto` are the ends,
    by id, up to which the streams' logs are taken: what was written to tables before these entries is in `snapshot`.
    """

    snapshot: Snapshot
    log: StreamLog
    executor: PartExecutor
    epoch: int
    attempt: int
    seconds: dict[int, list[float]]
    tidy: bool
    upto: Mapping[int, int]
    more: bool = field(default=False, init=False)
    stop: threading.Event = field(default_factory=threading.Event, init=False)
    """Set when the round should come to its end soon: what is built by then is committed."""

    def run(self) -> RoundStage:
        """Everything that can be done now; `more` tells whether it is worth to begin another one at once."""
        stage = RoundStage(self.snapshot)
        if self.tidy:
            expire(stage)
            roll_up(stage, self.epoch, self.attempt)
            if not stage.is_empty:
                self.more = True
                return stage
        dimensions = Dimensions(stage, self.epoch, self.attempt)
        deadline = time.monotonic() + FILL_SECONDS
        for stream in stage.catalog.streams:
            self._take(stage, stream)
            self._publish(stage, dimensions, stream)
        hands = Hands(stage, self.executor, dimensions, self.epoch, self.attempt, self.seconds, deadline, self.stop)
        for level in levels(stage.catalog):
            _run_all([upkeep(hands, view) for view in level])
        self.more = self.more or hands.more or time.monotonic() > deadline
        return stage

    def _take(self, stage: RoundStage, stream: Stream) -> None:
        """Takes the entries of one stream's log: rows of open parts, late rows, what is sealed, what is rejected."""
        progress = stage.stream(stream.id)
        upto = self.upto.get(stream.id, 0)  # a stream that was declared since has its turn in the next round
        if upto <= progress.position:
            return
        entries = self.log.entries(stream.id, progress.position, min(ENTRIES, upto - progress.position), progress.hash)
        if not entries:
            return
        taken = advance(stream, progress, entries)
        late = progress.late_rows + taken.late_rows
        after = replace(taken.progress, next=progress.next, late_rows=late)  # sealed parts are published below
        first = progress.first
        if progress.next is not None and first is not None and after.first is not None and after.first < first:
            stage.put(stream.id, after.first, (), last=first - 1)
        for part, pieces in (*taken.pieces.items(), *taken.late.items()):
            stage.put(stream.id, part, (*stage.pieces(stream.id, part), *pieces))
        for part, pieces in taken.late.items():
            stage.touch(stream.id, part, None)
            stage.late[stream.id, part] = pieces
        pieces_by_part = [(part, piece) for each in (taken.pieces, taken.late) for part, all_ in each.items()
                          for piece in all_]  # fmt: skip
        stage.files += new_files(stream.id, taken.files, pieces_by_part)
        if len(taken.rejected):
            stage.rejected.append(taken.rejected)
        stage.set_progress(stream.id, after)
        reached("entries taken")
        self.more = self.more or after.position < upto

    def _publish(self, stage: RoundStage, dimensions: Dimensions, stream: Stream) -> None:
        """Makes sealed parts visible, as many as one version should hold."""
        progress = stage.stream(stream.id)
        sealed = sealed_upto(stream, progress)
        if sealed is None or progress.first is None:
            return
        after = progress.first if progress.next is None else progress.next
        if after >= sealed:
            return
        most = SEALED_PARTS_QUERIED if _is_queried(stage.catalog, stream.id) else SEALED_PARTS
        rows, parts, upto = 0, list[Part](), sealed
        for part in stage.index(stream.id).with_rows(after, sealed - 1):
            if parts and (len(parts) == most or rows + part.rows > SEALED_ROWS):
                upto, self.more = part.part, True
                break
            parts.append(part)
            rows += part.rows
        recorded = dimensions.record(stream.id)
        stage.put(stream.id, after, (), last=upto - 1, dimensions=recorded)
        for part in parts:
            stage.put(stream.id, part.part, part.pieces, dimensions=recorded)
        stage.set_progress(stream.id, replace(progress, next=upto))


def upkeep(hands: Hands, view: PartView) -> Upkeep:
    """What keeps `view`, by its kind."""
    return QueryUpkeep(hands, view) if isinstance(view.plan, QueryPlan) else ProgramUpkeep(hands, view)


def levels(catalog: Catalog) -> Iterator[list[PartView]]:
    """The part views, those that do not read each other together, each behind what it reads."""
    waiting = list(catalog.part_views)
    while waiting:
        ids = {view.id for view in waiting}
        level = [view for view in waiting if not ids & (set(view.reads) - {view.id})]
        assert level, "views that read each other were refused when they were declared"
        yield level
        waiting = [view for view in waiting if view not in level]


def _is_queried(catalog: Catalog, stream: int) -> bool:
    """Whether a view that Spark SQL computes reads the stream, directly or through others."""
    reached = {stream}
    for level in levels(catalog):
        for view in level:
            if reached & set(view.reads):
                reached.add(view.id)
                if isinstance(view.plan, QueryPlan):
                    return True
    return False


def _run_all(upkeeps: Sequence[Upkeep]) -> None:
    if len(upkeeps) == 1:
        upkeeps[0].run()
        return
    with ThreadPoolExecutor(VIEWS_AT_ONCE, thread_name_prefix="viewkeeper parts") as pool:
        for done in [pool.submit(each.run) for each in upkeeps]:
            done.result()

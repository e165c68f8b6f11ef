"""Keeping a ViewDF or a plain view: each part is one query, of Spark SQL or of our own operators."""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence

from viewkeeper.catalog.model import PartView
from viewkeeper.compiler.namespace import PART_TIMESTAMP
from viewkeeper.plans.references import Input
from viewkeeper.plans.viewdf import PlannedQuery, QueryPlan
from viewkeeper.streams.computing import compute_query
from viewkeeper.streams.emptiness import Emptiness
from viewkeeper.streams.keeping.builds import Build
from viewkeeper.streams.keeping.repairs import Repairs
from viewkeeper.streams.keeping.upkeep import Hands, Upkeep
from viewkeeper.streams.subscripts import UNBOUNDED, naming
from viewkeeper.streams.work import Outcome, Piece, QueryWork


class QueryUpkeep(Upkeep):
    """Keeps a view by its INITIALIZE and UPDATE queries (paper 003, sections 2 and 4.1)."""

    def __init__(self, hands: Hands, view: PartView) -> None:
        super().__init__(hands, view)
        assert isinstance(view.plan, QueryPlan)
        self.plan = view.plan
        self._empty = {side: Emptiness.of(side.query) for side in self.plan.queries}
        self.is_timed = any(PART_TIMESTAMP.name.lower() in side.query.sql.lower() for side in self.plan.queries)
        self.carries = any(each.object == view.id for side in self.plan.queries for each in side.inputs)

    def inputs(self, part: int) -> tuple[Input, ...]:
        return self._side(part).inputs

    def initial_inputs(self) -> tuple[Input, ...]:
        return self.plan.initialize.inputs

    def named_inputs(self) -> Sequence[Input]:
        return tuple(dict.fromkeys(each for side in self.plan.queries for each in side.inputs))

    def deciding(self, part: int) -> tuple[Input, ...]:
        return tuple(each for each in self._side(part).inputs if each.object != self.view.id)

    def next_definition(self, part: int) -> int:
        after = min((old.until for old in self.plan.earlier if part < old.until), default=UNBOUNDED)
        return part + 1 if part == self.progress.first else after

    def is_idle(self, part: int) -> bool:
        return self._is_surely_empty(part)

    def next_build(self, first: int, last: int, most: int) -> Build:
        if self._is_surely_empty(first):
            return Build(first, min(last, self._quiet_until(first)))
        until = self.repeated_until(first, last)
        return Build(first, until, ((first, until),))

    def compute(self, parts: list[int]) -> Outcome:
        (part,) = parts
        return self._query(part, None)

    def repair(self, repairs: Repairs) -> None:
        waiting, known = sorted(repairs.touched), set(repairs.touched)
        done = -UNBOUNDED
        while waiting:
            part = heapq.heappop(waiting)
            if part <= done:
                continue
            self.hands.require_time()
            outcome = self._query(part, self.stage.pieces(self.view.id, part))
            self.keep(outcome, part, repairs)
            if outcome.made[self.view.id, part].is_same:
                continue
            done = self.settle_stretch(part)
            for follower in self._followers(done):
                if follower not in known:
                    known.add(follower)
                    heapq.heappush(waiting, follower)

    def equal_until(self, part: int, last: int) -> int:
        side = self._side(part)
        own = [each for each in side.inputs if each.object == self.view.id]
        if any((each.low.at(part), each.high.at(part)) != (part - 1, part - 1) for each in own):
            return part
        if own and self.is_timed:
            return part
        return super().equal_until(part, last)

    def _followers(self, part: int) -> list[int]:
        """The built parts of the view that read its own part `part`."""
        after, found = self.progress.next or 0, list[int]()
        for each in self.named_inputs():
            if each.object == self.view.id:
                low, high = naming(each.low, each.high, part, part)
                found += range(max(low, part + 1), min(high, after - 1) + 1)
        return found

    def _side(self, part: int) -> PlannedQuery:
        return self.plan.query(part, self.progress.first)

    def _is_surely_empty(self, part: int) -> bool:
        side = self._side(part)
        empty = frozenset(name for name, each in side.named_inputs if not self._has_rows(each, part))
        return bool(empty) and self._empty[side](empty)

    def _has_rows(self, input_: Input, part: int) -> bool:
        found = self.stage.next_with_rows(input_.object, input_.low.at(part))
        return found is not None and found <= input_.high.at(part)

    def _quiet_until(self, part: int) -> int:
        """The last part from `part` (which is empty) on of which the same is certain since none of its inputs has
        rows."""
        side = self._side(part + 1)
        if not self._empty[side](frozenset(name for name, _ in side.named_inputs)):
            return part
        return min(self.next_with_input(part + 1, side.inputs), self.next_definition(part + 1)) - 1

    # The work

    def _query(self, part: int, old: tuple[Piece, ...] | None) -> Outcome:
        hands, stage, side = self.hands, self.stage, self._side(part)
        self.require_kept(part)
        with self.reading_dimensions(part):
            versions = hands.dimensions.versions(self.view, side.inputs, part)
        pieces: dict[str, dict[int, tuple[Piece, ...]]] = {}
        columns, lengths = {}, {}
        for name, each in side.named_inputs:
            low, high = each.low.at(part), each.high.at(part)
            pieces[name] = {p.part: p.pieces for p in stage.index(each.object).with_rows(low, high)}
            columns[name] = stage.columns[each.object]
            lengths[name] = stage.catalog.source(each.object).length
        for name, id_ in side.dimensions:
            pieces[name] = {versions[id_]: hands.dimensions.pieces(id_, versions[id_])}
            columns[name] = stage.columns[id_]
        work = QueryWork(
            disk=stage.disk, version=hands.version, epoch=hands.epoch, attempt=hands.attempt,
            zone=stage.catalog.zone, title=f"viewkeeper: part {part} of {self.view.name}", view=self.view, part=part,
            query=side.query, columns=columns, pieces=pieces, lengths=lengths, old=old,
            relation=side.relation, objects=side.objects,
        )  # fmt: skip
        started = time.monotonic()
        outcome = compute_query(hands.executor, work)
        hands.took(self.view.id, 1, time.monotonic() - started)
        return outcome

"""One zone's work for one view server and one batch: what arrived, what the operators hand on, what goes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.model import ERRORS, StateSpec, Table
from viewkeeper.catalog.types import physical_type, to_logical
from viewkeeper.evaluation import error_codes
from viewkeeper.maintenance.zone_programs import ZonePrograms
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.exchange import Exchange
from viewkeeper.trace.grouping import Groups, group_rows
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.trace import Trace


class Context(Protocol):
    """What a pipeline gives to a zone's programs.

    `seed` is True in one task of zone 1 of a fill from nothing, which runs though all tables may be empty: a global
    aggregate gets its first row there.
    """

    seed: bool
    owned: tuple[int, int]
    """The smallest and the greatest hash whose rows this task answers for."""

    def trace(self, spec: StateSpec) -> Trace:
        """The state as of the version before; in a fill, what the fill itself has written of it by then."""

    def write(self, spec: StateSpec, rows: Rows) -> None:
        """Adds `rows` to the file that this task writes."""

    def send(self, target: str, rows: Rows, hashes: np.ndarray) -> None:
        """Hands rows to the view servers that own their hashes, in the target's zone.

        Targets are `ops:<table>` (operations), `delta:<table>` (signed rows of a table in declared order, last the
        hidden row id where it has no key), both in zone 1, and `x:<exchange>`.
        """

    def reject(self, table: Table, operations: Rows, reasons: Sequence[str]) -> None:
        """Sets operations aside that cannot be applied."""

    def count(self, name: str, number: int) -> None:
        """Adds to a counter of the receipt."""


@dataclass
class Sent:
    """Rows under way, and the uint64 hash of each one's key."""

    rows: Rows
    hashes: np.ndarray


@dataclass
class Arrived:
    """All rows that came through one exchange; the first `key` columns are the key (the member column included).

    `arranged` are the same rows as a run of a REVERSE-JOIN holds them.
    """

    rows: Rows
    hashes: np.ndarray
    key: int
    arranged: Rows | None = None

    @cached_property
    def groups(self) -> Groups:
        return group_rows(self.hashes, self.rows.columns[: self.key])

    @cached_property
    def group_hashes(self) -> np.ndarray:
        return self.hashes[self.groups.firsts]

    @cached_property
    def group_keys(self) -> list[pa.Array]:
        index = pa.array(self.groups.firsts)
        return [column.take(index) for column in self.rows.columns[: self.key]]

    @cached_property
    def sorted_weights(self) -> np.ndarray:
        """The weights in the order of `groups.order`."""
        return self.rows.weights[self.groups.order]

    @cached_property
    def group_of(self) -> np.ndarray:
        """int64: the group of each row of `groups.order`."""
        lengths = self.groups.lengths
        return np.repeat(np.arange(len(lengths)), lengths)


@dataclass
class GroupChanges:
    """The groups of a PRE-AGGREGATION that changed: their keys, and the state's columns behind the key, before and
    after, which are meaningful where `existed` and where `exists`."""

    keys: list[pa.Array]
    existed: np.ndarray
    exists: np.ndarray
    before: list[pa.Array]
    after: list[pa.Array]

    def __len__(self) -> int:
        return len(self.exists)


@dataclass
class Task:
    """`streams`, `changes`, `sides` and `answers` are what operators of this zone have made for later ones, by
    operator id; `error` describes the first row that raised."""

    program: ZonePrograms
    context: Context
    inbox: dict[str, list[Sent]]
    streams: dict[int, Rows] = field(default_factory=dict)
    changes: dict[int, GroupChanges] = field(default_factory=dict)
    sides: dict[int, Arrived] = field(default_factory=dict)
    answers: dict[int, list[pa.Array]] = field(default_factory=dict)
    error: str | None = None
    _arrived: dict[int, Arrived] = field(default_factory=dict)

    def arrived(self, exchange: Exchange) -> Arrived | None:
        """What came through `exchange`, put together once for all operators that it feeds."""
        if exchange.id not in self._arrived:
            sent = self.inbox.get(f"x:{exchange.id}")
            if not sent:
                return None
            rows = Rows.concat([s.rows for s in sent])
            hashes = np.concatenate([s.hashes for s in sent])
            self._arrived[exchange.id] = Arrived(rows, hashes, exchange.key + exchange.member)
        return self._arrived[exchange.id]

    def write(self, spec: StateSpec, rows: Rows) -> None:
        """Writes what this program is to write: in a fill, new states and the rows of new members."""
        members = self.program.writes(spec)
        if members is not None:
            if not len(members):
                return
            rows = rows.filter(np.isin(rows.columns[0].to_numpy(), members))
        if len(rows):
            self.context.write(spec, rows)

    def raised(self, operator: plan.Operator, below: plan.Operator, rows: Rows, errors: np.ndarray) -> None:
        """Keeps error rows for every view that reads `operator`: `errors` (packed, none 0) of the rows of `below`."""
        if below.member:
            members = rows.columns[0].to_numpy()
            for member in np.unique(members):
                mine = np.flatnonzero(members == member)
                self.raised_by(operator, below, rows.take(mine), errors[mine], int(member))
        else:
            self.raised_by(operator, below, rows, errors, None)

    def raised_by(
        self, operator: plan.Operator, below: plan.Operator, rows: Rows, errors: np.ndarray, member: int | None
    ) -> None:
        """As `raised`, for the views of one member (None: of all)."""
        labels = _labels(below, rows)
        packed = pc.dictionary_encode(pa.array(errors))
        distinct = [error_codes.unpack_error(e) for e in packed.dictionary.to_pylist()]
        codes = pa.array([error_codes.ERROR_CODES[code] for code, _ in distinct], pa.large_string())
        places = pa.array([f"{p[0]}:{p[1]}" if p else "" for _, p in distinct], pa.large_string())
        self.error = self.error or f"{error_codes.format_error(int(errors[0]))} for {labels[0].as_py()}"
        for view in self.program.dependents(operator.id, member):
            columns = [
                pa.array(np.full(len(rows), view)),
                codes.take(packed.indices),
                places.take(packed.indices),
                labels,
            ]
            self.context.write(ERRORS, Rows(columns, rows.weights))


def _labels(operator: plan.Operator, rows: Rows) -> pa.Array:
    """For each row a text that names it: table and key of its base rows, or else all its columns."""
    identity = operator.identity or (
        ("row", tuple((c.name, i) for i, c in enumerate(operator.columns) if i >= operator.member)),
    )  # fmt: skip
    parts: list[pa.Array] = []
    for n, (table, key) in enumerate(identity):
        parts.append(_constant(f"{' and ' if n else ''}{table}(", len(rows)))
        for k, (name, position) in enumerate(key):
            parts.append(_constant(f"{', ' if k else ''}{name}=", len(rows)))
            parts.append(_text(rows.columns[position], operator.columns[position]))
        parts.append(_constant(")", len(rows)))
    return pc.binary_join_element_wise(*parts, pa.scalar("", pa.large_string()))


def _constant(text: str, length: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.large_string()), length)


def _text(column: pa.Array, described: object) -> pa.Array:
    type_ = described.type  # type: ignore[attr-defined]
    assert column.type == physical_type(type_)
    if type_.is_nested:
        texts = [None if value is None else str(value) for value in to_logical(column, type_).to_pylist()]
        return pc.fill_null(pa.array(texts, pa.large_string()), "NULL")
    if type_.name == "BINARY":
        return pa.array(["NULL" if v is None else f"X'{v.hex()}'" for v in column.to_pylist()], pa.large_string())
    return pc.fill_null(to_logical(column, type_).cast(pa.large_string()), "NULL")

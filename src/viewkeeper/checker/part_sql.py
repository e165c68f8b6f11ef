"""Parts by Spark SQL: each is a query over the rows of the parts that it names, many of them in one statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import PartView, Stream
from viewkeeper.catalog.types import logical_type
from viewkeeper.checker.check import Judge
from viewkeeper.checker.part_evidence import (
    PART,
    PartsEvidence,
    dimension_table,
    in_batches,
    rows_by_part,
    schema_of,
)
from viewkeeper.compiler.namespace import PART_TIMESTAMP
from viewkeeper.compiler.part_references import quoted

AT_ONCE = 64
"""So many parts are read, and asked for, at once."""

_IN_A_QUERY = 16
_MOMENT = "__part_begins"


@dataclass(frozen=True)
class Recomputed:
    """What some parts must hold: `PART`, then the view's columns.  `failed` are parts whose query raises, `unjudged`
    parts of which nothing can be said, each with the reason; `rows` has none of theirs."""

    parts: Sequence[int]
    rows: pa.Table
    judge: str
    failed: Mapping[int, str] = field(default_factory=dict)
    unjudged: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """The query of one part.  `parts` are the parts of streams and views that stand in it, by name: the object, the
    first and last part, and what PART_TIMESTAMP is called (None: it is not named); `dimensions` the tables with their
    version."""

    sql: str
    parts: Mapping[str, tuple[int, int, int, str | None]]
    dimensions: Mapping[str, tuple[int, int]]


class SqlParts:
    """Asks `judge` for parts of one view."""

    def __init__(self, evidence: PartsEvidence, judge: Judge, view: PartView) -> None:
        self._evidence, self._judge, self._view = evidence, judge, view

    def recompute(self, asked: Mapping[int, Asked]) -> Recomputed:
        """The parts that `asked` has a query for."""
        zone = self._evidence.catalog.zone
        schema, failed = schema_of(self._view, zone), dict[int, str]()
        tables = self._tables(asked.values())
        groups = {str(group[0]): group for group in in_batches(list(asked), _IN_A_QUERY)}
        answers = self._judge.answers({name: self._union(asked, group) for name, group in groups.items()}, tables)
        found = [schema.empty_table()]
        for name, group in groups.items():
            if isinstance(answers[name], pa.Table):
                found.append(_as(answers[name], schema))
                continue
            alone = self._judge.answers({str(part): self._union(asked, [part]) for part in group}, tables)
            for part in group:
                answer = alone[str(part)]
                if isinstance(answer, pa.Table):
                    found.append(_as(answer, schema))
                else:
                    failed[part] = str(answer)
        return Recomputed(list(asked), pa.concat_tables(found), "spark", failed)

    def _union(self, asked: Mapping[int, Asked], parts: Iterable[int]) -> str:
        return "\nUNION ALL\n".join(f"({self._of_part(part, asked[part])})" for part in parts)

    def _of_part(self, part: int, asked: Asked) -> str:
        """The rows of a part: the query, with what it names in front of it."""
        catalog = self._evidence.catalog
        named = []
        for name, (object_, first, last, moment) in asked.parts.items():
            columns = [quoted(column.name) for column in catalog.source(object_).columns]
            columns += [f"{quoted(_MOMENT)} AS {quoted(moment)}"] if moment else []
            where = f"{quoted(PART)} BETWEEN {first} AND {last}"
            named.append(f"{quoted(name)} AS (SELECT {', '.join(columns)} FROM {_parts_name(object_)} WHERE {where})")
        for name, (id_, version) in asked.dimensions.items():
            named.append(f"{quoted(name)} AS (SELECT * FROM {_dimension_name(id_, version)})")
        outputs = ", ".join(f"CAST(c{i} AS {column.type}) AS c{i}" for i, column in enumerate(self._view.columns))
        names = ", ".join(f"c{i}" for i in range(len(self._view.columns)))
        return (f"SELECT CAST({part} AS BIGINT) AS {quoted(PART)}, {outputs} FROM (WITH {', '.join(named)}\n"
                f"SELECT * FROM (\n{asked.sql}\n) AS __query) AS __part_rows({names})")  # fmt: skip

    def _tables(self, asked: Iterable[Asked]) -> dict[str, pa.Table]:
        """All rows that the queries name, each once."""
        evidence, catalog = self._evidence, self._evidence.catalog
        wanted: dict[int, set[int]] = {}
        tables: dict[str, pa.Table] = {}
        for each in asked:
            for object_, first, last, _ in each.parts.values():
                wanted.setdefault(object_, set()).update(evidence.with_rows(catalog.source(object_), first, last))
            for id_, version in each.dimensions.values():
                name = _dimension_name(id_, version).strip("`")
                if name not in tables:
                    tables[name] = evidence.dimension(dimension_table(catalog, id_), version)
        for object_, parts in wanted.items():
            tables[_parts_name(object_).strip("`")] = _timed(evidence, catalog.source(object_), sorted(parts))
        return tables


def _timed(evidence: PartsEvidence, of: Stream | PartView, parts: Sequence[int]) -> pa.Table:
    """The rows of some parts, with `PART` and when each part begins."""
    table = rows_by_part(evidence, of, parts)
    begins = table[PART].to_numpy().astype(np.int64) * of.length * 1_000_000
    moments = pa.array(begins).cast(logical_type(PART_TIMESTAMP.type, evidence.catalog.zone))
    return table.append_column(pa.field(_MOMENT, moments.type, False), moments)


def _parts_name(object_: int) -> str:
    return f"`__parts_{object_}`"


def _dimension_name(id_: int, version: int) -> str:
    return f"`__dimension_{id_}_{version}`"


def _as(answer: Any, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_arrays([column.cast(f.type) for column, f in zip(answer.columns, schema, strict=True)],
                                schema=schema)  # fmt: skip

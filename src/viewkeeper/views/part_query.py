"""SELECT without Spark over the parts of streams and of views over them: which parts it reads, and their rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import InParts, PartView, Stream
from viewkeeper.catalog.types import physical_type
from viewkeeper.compiler.namespace import meaning, with_parts
from viewkeeper.compiler.scope import did_you_mean
from viewkeeper.compiler.statements import SelectStatement
from viewkeeper.errors import DeclarationError
from viewkeeper.plans.references import Reference
from viewkeeper.plans.relations import Relation
from viewkeeper.trace.rows import Rows
from viewkeeper.views.part_pruning import Use, uses
from viewkeeper.views.parts_at_version import Parts
from viewkeeper.views.version import Version, require_whole

_RANGES_SHOWN = 10
_PARTS_TRIED = 1_000_000
"""So many parts are tried with the conditions one by one, without a look at what these say."""


class PartTables:
    """The part tables that one SELECT may name, at one version.

    A stream or view that is named without subscripts is all its parts; one that is referred to, `t[5]` or `t[5..9]`,
    raises NotReady or NotFound where one of these parts is not there.
    """

    def __init__(self, version: Version, statement: SelectStatement) -> None:
        self._version = version
        for reference in () if statement.parts is None else statement.parts.references:
            _require_parts(version, reference)
        self._parts = statement.parts
        self.names = with_parts(version.catalog, statement.parts)
        self._uses: dict[int, Use] = {}

    def __contains__(self, id_: int) -> bool:
        return self._meaning(id_) is not None

    def read_by(self, relation: Relation) -> None:
        """Remembers what of them the bound query `relation` reads."""
        self._uses = uses(relation)

    def rows(self, id_: int) -> Rows:
        """What the query needs of one of them; columns that it does not read are all NULL."""
        parts, _, chosen = self._chosen(id_)
        shown, used = parts.of.columns, self._uses[id_].columns
        wanted = [i for i in range(len(shown)) if i in used]
        block, subscripts = parts.rows(chosen, wanted)
        columns: list[pa.Array] = [pa.nulls(len(subscripts), physical_type(column.type)) for column in shown]
        for i, array in zip(wanted, block.columns, strict=True):
            columns[i] = array
        columns.append(pa.array(subscripts * (parts.of.length * 1_000_000)))
        return Rows(columns, np.ones(len(subscripts), dtype=np.int64))

    def text(self, id_: int) -> str:
        """Which parts of one of them the query reads."""
        parts, present, chosen = self._chosen(id_)
        ranges: list[list[int]] = []
        for part in chosen:
            if ranges and ranges[-1][1] == part - 1:
                ranges[-1][1] = part
            else:
                ranges.append([part, part])
        shown = [str(first) if first == last else f"{first}..{last}" for first, last in ranges[:_RANGES_SHOWN]]
        more = ["..."] if len(ranges) > _RANGES_SHOWN else []
        which = f"parts {', '.join(shown + more)}" if shown else "no part"
        return f"{which} of {parts.of.name}: {len(chosen):,} of the {len(present):,} with rows"

    def _chosen(self, id_: int) -> tuple[Parts, list[int], list[int]]:
        """Of one of them, the parts with rows that are named; and those that the query reads, after its conditions on
        PART_TIMESTAMP."""
        what = self._meaning(id_)
        assert what is not None, "only parts are asked for"
        parts, first, last = meant(self._version, what)
        first, last = self._bounded(parts, first, last, self._uses[id_])
        present = parts.with_rows(first, last)
        starts = np.array(present, dtype=np.int64) * (parts.of.length * 1_000_000)
        kept = self._uses[id_].leaves(starts, self.names.zone)
        return parts, present, [part for part, keep in zip(present, kept.tolist(), strict=True) if keep]

    def _meaning(self, id_: int) -> InParts | Reference | None:
        return meaning(self._version.catalog, self._parts, id_)

    def _bounded(self, parts: Parts, first: int | None, last: int | None, use: Use) -> tuple[int | None, int | None]:
        """Fewer parts, where they are many and the conditions on PART_TIMESTAMP say so at once."""
        runs = parts.runs(first, last)
        if sum(run.count for run in runs) <= _PARTS_TRIED:
            return first, last
        return use.bounds(runs[0].part, runs[-1].last, parts.of.length * 1_000_000, self.names.zone)


def meant(
    version: Version, what: Stream | PartView | Reference
) -> tuple[Parts, int | None, int | None]:  # fmt: skip
    """The parts that a query names, from the first to the last (None: all that are there).  Raises DeclarationError
    where the name is of something without parts, ViewBroken, NotReady or NotFound where the parts cannot be read."""
    if not isinstance(what, Reference):
        parts, first, last = version.parts_of(what), None, None
    else:
        _require_parts(version, what)
        parts = version.parts_named(what.target)
        first = None if what.low is None else what.low.at(0)
        last = None if what.high is None else what.high.at(0)
    require_whole(parts.stale, False)
    if first is not None and last is not None:
        parts.require(first, last)
    return parts, first, last


def _require_parts(version: Version, reference: Reference) -> None:
    """Raises DeclarationError where a reference is to something that has no parts."""
    named = reference.target
    catalog = version.catalog
    found = catalog.find(named)
    if not isinstance(found, InParts):
        known = [name for name in catalog.readable_names() if isinstance(catalog.find(name), InParts)]
        said = f"{named} does not exist" + did_you_mean(named, known)
        if found is not None:
            said = f"{named} has no parts: it is no stream and no view over streams; leave out the brackets"
        raise DeclarationError(said, *reference.place)

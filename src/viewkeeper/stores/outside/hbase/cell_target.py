"""Views as rows of HBase (docs/stores/views.md): cells by columns, and the marker in a family of its own.

HBase orders what is written of a cell by its timestamp.  So ours are numbers that begin with that of the attempt: what
an earlier one sent too late is hidden by what a later one has written.  Where it has not, all rows are compared once
more when nothing can be on its way any longer (docs/decisions/102-views-in-hbase.md).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from viewkeeper.catalog.outside_store import Target
from viewkeeper.errors import Error, InputError
from viewkeeper.stores.outside.hbase.client import WRITTEN_AT_ONCE, CellChanges, NoFamily, NoTable
from viewkeeper.stores.outside.hbase.encodings import shown
from viewkeeper.stores.outside.hbase.mapping import columns_option, key_option
from viewkeeper.stores.outside.hbase.marker_cell import COLUMN, FAMILY, ROW, MarkerCell, Said
from viewkeeper.stores.outside.hbase.place import GATEWAY_OPTIONS, check_place, full_name, gateway_of
from viewkeeper.stores.outside.hbase.view_cells import RowCells, ViewCells, families, version_cell
from viewkeeper.stores.outside.options import filled_in, require_known
from viewkeeper.stores.outside.targets import (
    RESERVED,
    Begun,
    Deviation,
    LaterEpoch,
    Marker,
    Mending,
    RowForm,
    TargetTaken,
    ViewTarget,
    Written,
)
from viewkeeper.trace.rows import Rows

LATE_SECONDS = 1_500.0
"""What was sent is written, or given up, by then: the gateway's own client tries for 20 minutes
(`hbase.client.operation.timeout`)."""

SURE_SECONDS = 10.0
"""For so long nobody is asked whether another has begun: a process that was stopped for a while asks."""

NUMBER_BITS = 30
"""A timestamp is the attempt, and so many bits of the writing's number in it.  Attempts are seconds since 1970, or one
more than the last: greater than all before, also where the marker was lost, and than the servers' own timestamps."""

_TRIES = 20


class RowChange(NamedTuple):
    """What is written of a row: its cells, None: it goes; and then the columns `gone` are deleted."""

    key: bytes
    cells: RowCells | None
    gone: Sequence[bytes] = ()


class HBaseTarget(ViewTarget):
    """A view's rows in a table of their own."""

    what: ClassVar[str] = "a table of HBase"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._options = filled_in(dict(target.options))
        self._families = families(self._options)
        self._gateway = gateway_of(self._options, self._worded)
        self._cell = MarkerCell(self._gateway)
        self._said: Said | None = None
        self._sure_until, self._number = 0.0, 0
        self._rewrites = False
        self._comparing: float | None = None
        self._everywhere: list[bytes] | None = None
        self._version = version_cell(self._options)

    @classmethod
    def check(cls, options: Mapping[str, str]) -> None:
        require_known(
            "hbase", options, ("thrift", "table"), ("key", "columns", "family", "separator", *GATEWAY_OPTIONS)
        )
        check_place(options)
        if "key" in options:
            key_option(options)
        elif "separator" in options:
            raise InputError("OPTIONS (separator ...): it stands between the parts of a key that the option key names")
        for name, (_, qualifier, _) in columns_option(options).items():
            if qualifier.startswith(RESERVED.encode()):
                raise InputError(
                    f"OPTIONS (columns ...): {name}: cells that begin with {RESERVED} are viewkeeper's own"
                )
        for family in families(options):
            if not family or b":" in family or family == FAMILY:
                raise InputError(f"OPTIONS: {shown(family)} is no family of rows; {FAMILY.decode()} has the marker")

    @classmethod
    def collide(cls, one: Mapping[str, str], other: Mapping[str, str]) -> bool:
        return (one["thrift"], full_name(one["table"])) == (other["thrift"], full_name(other["table"]))

    @classmethod
    def fit(cls, options: Mapping[str, str], form: RowForm) -> None:
        ViewCells(form, options)

    def marker(self) -> Marker | None:
        said = self._look()
        if said is None:
            return None
        if self._said is not None and _is_due(said):  # who writes it compares all rows now
            return said.marker._replace(at=Written())
        return said.marker

    def begin(self, mine: Marker, *, force: bool = False) -> Marker | None:
        self._said, self._number, self._rewrites, self._comparing, self._everywhere = None, 0, False, None, None
        for _ in range(_TRIES):
            found, now = self._look(), time.time()
            if found is None:
                self._gateway.make([FAMILY, *self._families])
                said = Said(Marker(mine.database, mine.view, mine.state, epoch=mine.epoch), int(now))
            else:
                said = self._taken_over(found, mine, force, now)
            if self._cell.replace(found, said):
                self._said, self._sure_until = said, now + SURE_SECONDS
                if found is None:
                    return None
                self._rewrites = found.marker.writing is not None
                return found.marker._replace(at=Written()) if _is_due(found) else found.marker
        raise Begun("others begin to write it all the time")

    def write(self, form: RowForm, at: Written, came: Rows, gone: Rows) -> None:
        laid = ViewCells(form, self._options)
        rows = laid.cells(came)
        changes = [RowChange(key, cells, laid.nulls(cells)) for key, cells in rows.items()]
        changes += [RowChange(key, None) for key in laid.keys(form.keys(gone)) if key not in rows]
        self._require_not_due()
        self._send(at, changes)

    def complete(self, marker: Marker) -> None:
        if marker.at.version >= 0:
            self._require_not_due()
        said = self._begun()
        compare = said.compare
        if compare is not None and self._comparing is not None and self._comparing >= compare:
            late = (said.cut_off or 0.0) + LATE_SECONDS
            compare = late if late > self._comparing else None
        self._change(marker, compare=compare)
        self._rewrites, self._comparing = False, None

    def deviations(self, form: RowForm, rows: Iterable[Rows]) -> Iterator[tuple[list[Deviation], Mending]]:
        self._comparing = time.time()
        laid, known, everywhere = ViewCells(form, self._options), set[bytes](), self._row_families()
        for block in rows if everywhere else ():
            expected = laid.cells(block)
            known.update(expected)
            there = {key: _values(cells) for key, cells in self._gateway.rows_of(list(expected), everywhere)}
            deviations, changes = list[Deviation](), list[RowChange]()
            for key, cells in expected.items():
                found, resting = there.get(key, {}), laid.resting(cells)
                is_right = key in there and {**found, laid.version: b""} == {**resting, laid.version: b""}
                if not is_right:
                    deviations.append(Deviation(shown(key), _readable(resting), _readable(found) or None))
                if not is_right or self._rewrites:
                    changes.append(
                        RowChange(key, cells, [*laid.nulls(cells), *(found.keys() - cells.keys() - {laid.version})])
                    )
            yield deviations, changes
        for some in self._gateway.rows(everywhere) if everywhere else ():
            left = [(key, cells) for key, cells in some if key not in known]
            yield ([Deviation(shown(key), None, _readable(_values(cells))) for key, cells in left],
                   [RowChange(key, None) for key, _ in left])  # fmt: skip

    def mend(self, at: Written, mending: Mending) -> None:
        self._send(at, mending)

    def clear(self) -> None:
        for found in self._gateway.rows(self._row_families()):
            self._send(Written(), [RowChange(key, None) for key, _ in found])
        was = self._begun().marker
        self._change(Marker(was.database, 0, 0, epoch=was.epoch))

    def get(self, form: RowForm, key: Rows) -> list[dict[str, Any]]:
        laid = ViewCells(form, self._options)
        found = self._gateway.row(laid.keys(key)[0], self._families)
        if found is None:
            return []
        try:
            row, times = laid.values(_values(found[1]))
        except ValueError as error:
            raise Error(
                f"the row in HBase is not as it was written: {error}; viewkeeper check --repair mends it"
            ) from error
        return [row] * times

    def close(self) -> None:
        self._gateway.close()

    def _look(self) -> Said | None:
        """The marker; None where there is nothing."""
        try:
            said = self._cell.read()
            if said is None and self._gateway.first_rows(1, []):
                raise self._taken("rows that are not viewkeeper's")
        except NoTable:
            return None
        except NoFamily:
            raise self._taken(f"a table that is not viewkeeper's: it has no family {FAMILY.decode()}") from None
        except ValueError as error:
            raise self._taken(f"what is no marker, in the cell {COLUMN.decode()} of the row {ROW.decode()}: "
                              f"{error}") from None  # fmt: skip
        return said

    def _taken(self, what: str) -> TargetTaken:
        return TargetTaken(self._worded(f"it holds {what}; take another table, or drop this one"))

    def _taken_over(self, found: Said, mine: Marker, force: bool, now: float) -> Said:
        """The marker of the attempt that takes over from the one that `found` is of."""
        was = found.marker
        if was.database != mine.database:
            raise self._taken(f"rows of another database ({was.database})")
        if was.epoch > mine.epoch and not force:
            raise LaterEpoch(f"it was written in epoch {was.epoch}, and this is {mine.epoch}")
        cut_off, compare = found.cut_off, found.compare
        if was.writing is not None:
            cut_off, compare = now, now + LATE_SECONDS if compare is None else compare
        attempt = max(found.attempt + 1, int(now))
        return Said(was._replace(epoch=mine.epoch), attempt, cut_off=cut_off, compare=compare)

    def _begun(self) -> Said:
        if self._said is None:
            raise Begun("nothing was begun")
        return self._said

    def _change(self, marker: Marker, **changes: Any) -> Said:
        """Has the marker say so; raises Begun where it is not the one that was written last."""
        old, now = self._begun(), time.time()
        new = old.next(marker=marker, **changes)
        if not self._cell.replace(old, new):
            raise Begun("another has begun to write it, or HBase has lost what was written")
        self._said, self._sure_until = new, now + SURE_SECONDS
        return new

    def _require_not_due(self) -> None:
        if self._comparing is None and _is_due(self._begun()):
            raise Begun("all rows are compared once more, since a writing had been cut off")

    def _send(self, at: Written, changes: Sequence[RowChange]) -> None:
        if not changes:
            return
        said = self._begun()
        if said.marker.writing != at:
            said = self._change(said.marker._replace(writing=at))
        self._number += 1
        stamp = (said.attempt << NUMBER_BITS) + self._number
        version, row_gone = {self._version: str(at.version).encode()}, dict.fromkeys(self._row_families())
        for first in range(0, len(changes), WRITTEN_AT_ONCE):
            part = changes[first : first + WRITTEN_AT_ONCE]
            self._write({each.key: row_gone if each.cells is None else each.cells | version for each in part}, stamp)
            self._write({each.key: dict.fromkeys(each.gone) for each in part if each.gone}, stamp)

    def _write(self, changes: CellChanges, stamp: int) -> None:
        if changes and time.time() > self._sure_until:
            now = time.time()
            if self._cell.read() != self._begun():
                raise Begun("another has begun to write it meanwhile")
            self._sure_until = now + SURE_SECONDS
        self._gateway.write(changes, stamp)

    def _row_families(self) -> list[bytes]:
        """All families of the table but the marker's; none where there is no table."""
        if self._everywhere is None:
            try:
                self._everywhere = [name for name in self._gateway.families() if name != FAMILY]
            except NoTable:
                return []
        return self._everywhere

    def _worded(self, message: str) -> str:
        return f"the table {self._options['table']!r} of HBase: {message}"


def _is_due(said: Said) -> bool:
    return said.compare is not None and said.compare <= time.time()


def _values(cells: Mapping[bytes, Any]) -> RowCells:
    return {name: cell.value for name, cell in cells.items()}


def _readable(cells: RowCells) -> dict[str, Any]:
    return {name.decode(errors="backslashreplace"): value.decode(errors="backslashreplace")
            for name, value in cells.items()}  # fmt: skip

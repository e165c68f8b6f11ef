"""An outside store in a folder whose cells have timestamps: two logs, to which a write may come in any order.

Its rows are what `cell_model` makes of all writes.  `between` is called between two pieces of a scan.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from cell_model import Key, Write, rows_of, stored_bytes
from cell_operations import operations_of
from viewkeeper.catalog.outside_store import NEVER
from viewkeeper.catalog.types import physical_type
from viewkeeper.changes.operations import Operations
from viewkeeper.stores.outside.cells import stamped
from viewkeeper.stores.outside.contract import (
    LogEnds,
    OutsideTable,
    OutsideTraits,
    PartRange,
    ReadPart,
    Scanned,
    identity_of,
)

PARTS = ("0", "1")
ROWS_AT_ONCE = 3


class CellStore:
    """The store as its writers see it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        for part in PARTS:
            (folder / part).touch()

    def write(self, write: Write, part: str) -> None:
        with (self.folder / part).open("a") as file:
            file.write(pickle.dumps(write).hex() + "\n")

    def log(self, part: str) -> list[Write]:
        return [pickle.loads(bytes.fromhex(line)) for line in (self.folder / part).read_text().splitlines()]

    @property
    def writes(self) -> list[Write]:
        return [write for part in PARTS for write in self.log(part)]


class CellTable(OutsideTable):
    """A table of it, whose columns behind the key are n and s."""

    traits: ClassVar[OutsideTraits] = OutsideTraits("cell timestamp", rows=True, writable=False, partial=True,
                                                    keyless=False)  # fmt: skip
    between: ClassVar[Callable[[], None] | None] = None

    def __init__(self, table: object, zone: str) -> None:
        super().__init__(table, zone)  # type: ignore[arg-type]
        assert self.table.outside is not None
        self.store = CellStore(Path(dict(self.table.outside.options)["folder"]))

    @classmethod
    def check(cls, options: Mapping[str, str], keyless: bool) -> None:
        assert "folder" in options and not keyless

    def require_there(self) -> None:
        assert self.store.folder.exists()

    def start(self) -> LogEnds:
        return self.ends()

    def ends(self) -> LogEnds:
        return LogEnds({part: len(self.store.log(part)) for part in PARTS}, dict.fromkeys(PARTS, identity_of("one")))

    def read(self, range_: PartRange) -> ReadPart:
        found = ReadPart()
        for sequence, write in enumerate(self.store.log(range_.part)[range_.after : range_.upto], range_.after + 1):
            found.operations += [(each, np.array([sequence]), np.array([write.stamp]))
                                 for each in operations_of(self.form, write)]  # fmt: skip
        return found

    def scan(self, since: Mapping[str, int]) -> Iterator[Scanned]:
        keys = sorted(rows_of(self.store.writes, ["n", "s"], stored_bytes))
        for at in range(0, len(keys), ROWS_AT_ONCE):
            writes = self.store.writes
            there = rows_of(writes, ["n", "s"], stored_bytes)
            some = [key for key in keys[at : at + ROWS_AT_ONCE] if key in there]
            if some:
                yield Scanned(list(self._rows(some, there, writes)))
            if CellTable.between is not None:
                CellTable.between()

    def _rows(
        self, keys: list[Key], there: dict[Key, Key], writes: list[Write]
    ) -> Iterator[tuple[Operations, np.ndarray]]:
        types = [physical_type(each) for each in self.form.types]
        key = [
            pa.array(list(column), types[i]) for i, column in zip(self.form.key, zip(*keys, strict=True), strict=True)
        ]
        rows = list(zip(*(there[key] for key in keys), strict=True))
        values = [pa.array(list(column), types[i]) for i, column in zip(self.form.values, rows, strict=True)]
        stamps = [[_stamp(writes, key, name) for name in ("n", "s")] for key in keys]
        made = [max((w.stamp for w in writes if w.kind == "insert" and w.key == key), default=NEVER) for key in keys]
        yield from stamped(self.form, key, values, np.array(stamps), np.array(made))

    def forget(self, positions: Mapping[str, int]) -> None:
        """Nothing is thrown away."""

    def close(self) -> None:
        """Nothing is held."""


def _stamp(writes: list[Write], key: Key, column: str) -> int:
    """When the store says that a cell was written; a deletion of the row or a range that is newer left none."""
    deletions = [w.stamp for w in writes if w.kind == "delete" and w.key == key]
    deletions += [w.stamp for w in writes if w.kind == "range" and w.covers(key)]
    newest = max((w.stamp for w in writes if w.kind not in ("delete", "range") and w.key == key and column in w.cells),
                 default=NEVER)  # fmt: skip
    return newest if newest > max(deletions, default=NEVER) else NEVER

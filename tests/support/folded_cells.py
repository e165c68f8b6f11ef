"""What operations with timestamps leave: the newest value of each cell, if nothing as new deletes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from viewkeeper.catalog.operation_kinds import DELETE, DELETE_COLUMNS
from viewkeeper.catalog.types import to_logical
from viewkeeper.changes.operations import Operations, TableForm, bits

Folded = dict[tuple[Any, ...], dict[str, Any]]


class FoldedCells:
    """The rows of a table whose rows are there as long as they have cells, by their keys."""

    def __init__(self, form: TableForm) -> None:
        self._form = form
        self._cells: dict[tuple[Any, ...], dict[int, tuple[int, int, Any]]] = defaultdict(dict)
        self._gone: dict[tuple[Any, ...], dict[int, int]] = defaultdict(dict)

    def add(self, found: Iterable[tuple[Operations, np.ndarray, np.ndarray]]) -> None:
        """Operations with sequences and stamps, in any order."""
        for operations, sequences, stamps in found:
            form = self._form
            carried = zip(form.carried(operations.kind), operations.columns, strict=True)
            columns = {i: to_logical(column, form.types[i]).to_pylist() for i, column in carried}
            for row in range(len(operations)):
                key = tuple(columns[i][row] for i in form.key)
                for i in form.values:
                    if operations.named is not None and not bits(operations.named, i)[row]:
                        continue
                    stamp = int(stamps[row])
                    if operations.kind in (DELETE, DELETE_COLUMNS):
                        self._gone[key][i] = max(self._gone[key].get(i, stamp), stamp)
                    else:
                        cell = (stamp, int(sequences[row]), columns[i][row])
                        self._cells[key][i] = max(self._cells[key].get(i, cell), cell, key=lambda each: each[:2])

    @property
    def rows(self) -> Folded:
        """All columns of each row that has a cell."""
        found: Folded = {}
        for key, cells in self._cells.items():
            left = {i: value for i, (stamp, _, value) in cells.items()
                    if value is not None and stamp > self._gone[key].get(i, stamp - 1)}  # fmt: skip
            if left:
                names = self._form.table.columns
                found[key] = {names[i].name: left.get(i) for i in self._form.values}
        return found

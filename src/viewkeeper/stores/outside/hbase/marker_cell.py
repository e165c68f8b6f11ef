"""The marker of a view in HBase: one cell, a JSON object, which is changed only by who knows what it is."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field, replace
from typing import Any

from viewkeeper.stores.outside.hbase.client import Gateway, NoTable
from viewkeeper.stores.outside.targets import Marker, Written

FAMILY = b"viewkeeper"
"""The family of the marker alone."""

ROW, COLUMN = b"viewkeeper", FAMILY + b":marker"


@dataclass(frozen=True)
class Said:
    """The marker, and what only its writers need: which `attempt` wrote it, which change of it this is (`step`), and a
    word of the writer's own, so that no two are alike.

    `cut_off` is when a writing was last found that had not come to its end, `compare` from when on all rows are
    compared once more for that (seconds since 1970).
    """

    marker: Marker
    attempt: int
    step: int = 0
    cut_off: float | None = None
    compare: float | None = None
    word: str = field(default_factory=lambda: secrets.token_hex(8))

    def next(self, **changes: Any) -> Said:
        """The one behind this one."""
        return replace(self, step=self.step + 1, **changes)

    def encoded(self) -> bytes:
        """As it stands in the cell."""
        marker = self.marker
        said = {
            "database": marker.database, "view": marker.view, "state": marker.state, "version": marker.at.version,
            "writing": None if marker.writing is None else str(marker.writing), "at": str(marker.at),
            "epoch": marker.epoch, "attempt": self.attempt, "step": self.step, "cut_off": self.cut_off,
            "compare": self.compare, "word": self.word,
        }  # fmt: skip
        return json.dumps({name: value for name, value in said.items() if value is not None}).encode()

    @staticmethod
    def decoded(cell: bytes) -> Said:
        """The inverse of `encoded`; raises ValueError where it is none."""
        try:
            said = json.loads(cell)
            writing = said.get("writing")
            marker = Marker(said["database"], said["view"], said["state"], Written.parse(said["at"]), said["epoch"],
                            None if writing is None else Written.parse(writing))  # fmt: skip
            return Said(marker, said["attempt"], said["step"], said.get("cut_off"), said.get("compare"), said["word"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"it is no marker: {error!r}") from error


class MarkerCell:
    """The cell in its table."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def read(self) -> Said | None:
        """What it says; None where there is none, or no table.  Raises ValueError where it is none of viewkeeper's."""
        try:
            found = self._gateway.row(ROW, [COLUMN])
        except NoTable:
            return None
        return None if found is None else Said.decoded(found[1][COLUMN].value)

    def replace(self, old: Said | None, new: Said) -> bool:
        """Changes it from `old` to `new`; False: it is another one."""
        return self._gateway.replace(ROW, COLUMN, None if old is None else old.encoded(), new.encoded())

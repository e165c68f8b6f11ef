"""The keys of rows: the encodings of the columns of a key, one behind the other, with a separator behind one that has
no length of its own and is not the last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import Type
from viewkeeper.errors import InputError
from viewkeeper.stores.intake import TableIntake
from viewkeeper.stores.outside.hbase.byte_spans import ByteSpans
from viewkeeper.stores.outside.hbase.encodings import Encoding, shown


class KeyEncoder:
    """Writes keys of columns with these names and types."""

    def __init__(
        self, names: Sequence[str], types: Sequence[Type], encodings: Sequence[Encoding], separator: bytes
    ) -> None:
        self._names, self._types, self._encodings, self._separator = names, types, encodings, separator

    def encode(self, columns: Sequence[pa.Array]) -> list[bytes]:
        """The keys of rows; raises InputError where one cannot be written."""
        made = []
        last = len(columns) - 1
        for at, (name, column, encoding, type_) in enumerate(
            zip(self._names, columns, self._encodings, self._types, strict=True)
        ):
            try:
                pieces = [each or b"" for each in encoding.encode(column, type_)]
                self._require_writable(pieces, encoding, at == last)
            except InputError as refused:
                raise InputError(f"key column {name}: {refused}") from None
            made.append(pieces)
            if encoding.width is None and at != last:
                made.append([self._separator] * len(pieces))
        return made[0] if len(made) == 1 else [b"".join(parts) for parts in zip(*made, strict=True)]

    def _require_writable(self, pieces: Sequence[bytes], encoding: Encoding, last: bool) -> None:
        for piece in pieces:
            if encoding.width is not None and len(piece) != encoding.width:
                raise InputError(f"{shown(piece)} has {len(piece)} bytes, and {encoding.name} {encoding.width}")
            if encoding.width is None and not last and self._separator in piece:
                raise InputError(f"{shown(piece)} has the separator {shown(self._separator)} in it")
            if not piece and last and len(self._names) == 1:
                raise InputError("a row of HBase has a key that is not empty")


class RowKeys(KeyEncoder):
    """The keys of a table's rows."""

    def __init__(self, intake: TableIntake, encodings: Sequence[Encoding], separator: bytes) -> None:
        form = intake.form
        super().__init__([form.table.columns[i].name for i in form.key], [form.types[i] for i in form.key], encodings,
                         separator)  # fmt: skip
        self._intakes = [intake.intakes[i] for i in form.key]
        self._unique = all(each.is_unique(of) for each, of in zip(encodings, self._intakes, strict=True))

    def decode(self, rows: ByteSpans) -> tuple[list[pa.Array], dict[int, str]]:
        """The physical columns of the key, canonical, and why some rows have none, by row."""
        bad: dict[int, str] = {}
        columns = []
        for name, intake, encoding, pieces in zip(
            self._names, self._intakes, self._encodings, self._pieces(rows, bad), strict=True
        ):
            column, reasons = encoding.column(pieces, intake)
            for row, reason in reasons.items():
                bad.setdefault(row, f"key column {name}: {reason}")
            columns.append(column)
        if not self._unique:
            self._require_canonical(rows, columns, bad)
        return columns, bad

    def _pieces(self, rows: ByteSpans, bad: dict[int, str]) -> list[ByteSpans]:
        """The bytes of each column; empty where a row does not go on so far."""
        found, rest = [], rows
        for name, encoding in list(zip(self._names, self._encodings, strict=True))[:-1]:
            if encoding.width is not None:
                lengths = np.minimum(rest.lengths, encoding.width)
                behind = lengths
            else:
                at = pc.find_substring(rest.binary(), self._separator).to_numpy()
                for row in np.flatnonzero(at < 0).tolist():
                    bad.setdefault(row, f"key column {name}: there is no separator {shown(self._separator)} behind it")
                lengths = np.where(at < 0, rest.lengths, at)
                behind = np.where(at < 0, rest.lengths, at + len(self._separator))
            found.append(rest.head(lengths))
            rest = rest.behind(behind)
        return [*found, rest]

    def _require_canonical(self, rows: ByteSpans, columns: Sequence[pa.Array], bad: dict[int, str]) -> None:
        """Of the keys that stand for the same values one is right: there is one row a key."""
        good = np.setdiff1d(np.arange(len(rows)), list(bad))
        if not len(good):
            return
        index = pa.array(good)
        taken = [column.take(index) for column in columns]
        expected = pa.array(self._rewritten(taken), pa.large_binary())
        different = pc.not_equal(expected, rows.take(good).binary()).to_numpy(zero_copy_only=False)
        for at in np.flatnonzero(different).tolist():
            row = int(good[at])
            bad[row] = f"the key {shown(rows[row])} has to be written {shown(expected[at].as_py())}"

    def _rewritten(self, columns: Sequence[pa.Array]) -> list[bytes]:
        """As `encode`, of values that were read: those which cannot be written are not what was read either."""
        try:
            return self.encode(columns)
        except InputError:
            rows = [[column.slice(row, 1) for column in columns] for row in range(len(columns[0]))]
            return [self._one(row) for row in rows]

    def _one(self, columns: Sequence[pa.Array]) -> bytes:
        try:
            return self.encode(columns)[0]
        except InputError:
            return b""

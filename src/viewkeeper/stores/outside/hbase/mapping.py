"""Which cells a table's columns are, and what its rows' keys are made of: the options `key`, `columns` and `family`.

`columns` is a list of NAME=FAMILY:QUALIFIER:ENCODING; a column that is not in it is a text in `family`, under its own
name.  `key` is a list of encodings, one a column of the PRIMARY KEY, in its order: their bytes stand one behind the
other, with `separator` behind one that has no length of its own and is not the last.  Bytes are written as HBase's
shell has them: \\x00.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.changes.operations import TableForm
from viewkeeper.errors import InputError
from viewkeeper.stores.intake import TableIntake
from viewkeeper.stores.outside.hbase.byte_spans import ByteSpans
from viewkeeper.stores.outside.hbase.encodings import ENCODINGS, Encoding, encoding_of, shown

_ESCAPED = re.compile(rb"\\x([0-9a-fA-F]{2})")


@dataclass(frozen=True)
class CellPlace:
    """Where a column is: `column` is its place in the declaration."""

    column: int
    family: bytes
    qualifier: bytes
    encoding: Encoding

    @property
    def name(self) -> bytes:
        """As the gateway has it."""
        return self.family + b":" + self.qualifier


class RowKeys:
    """The keys of a table's rows."""

    def __init__(self, intake: TableIntake, encodings: Sequence[Encoding], separator: bytes) -> None:
        form = intake.form
        self._names = [form.table.columns[i].name for i in form.key]
        self._types = [form.types[i] for i in form.key]
        self._intakes = [intake.intakes[i] for i in form.key]
        self._encodings, self._separator = encodings, separator
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


class CellMapping:
    """The cells and the keys of a table, by its options; raises InputError where they do not fit."""

    def __init__(self, intake: TableIntake, options: Mapping[str, str]) -> None:
        form = intake.form
        named = _columns_option(options)
        families = {family for family, _, _ in named.values()}
        family = _bytes(options["family"]) if "family" in options else min(families) if len(families) == 1 else None
        self.places = _places(form, named, family)
        encodings, separator = _key_option(options)
        if len(encodings) != len(form.key):
            raise InputError(f"OPTIONS (key {options['key']!r}): it has {len(encodings)} encodings, and the PRIMARY "
                             f"KEY {len(form.key)} columns")  # fmt: skip
        for i, encoding in zip(form.key, encodings, strict=True):
            _require_holds("key", encoding, form, i)
        self.keys = RowKeys(intake, encodings, separator)

    @property
    def families(self) -> list[bytes]:
        """Those in which columns are."""
        return sorted({place.family for place in self.places})


def require_readable(options: Mapping[str, str]) -> None:
    """Raises InputError, naming the option, where the mapping cannot be read, whatever the columns are."""
    named = _columns_option(options)
    if not named and not options.get("family"):
        raise InputError("OPTIONS: hbase needs columns 'NAME=FAMILY:QUALIFIER:ENCODING, ...', or family '...' for "
                         "columns that are texts under their own names")  # fmt: skip
    if ":" in options.get("family", ""):
        raise InputError(f"OPTIONS (family {options['family']!r}): a family has no ':' in its name")
    _key_option(options)


def _places(
    form: TableForm, named: Mapping[str, tuple[bytes, bytes, Encoding]], family: bytes | None
) -> list[CellPlace]:
    """Where the columns beside the key are."""
    places, taken = list[CellPlace](), dict[tuple[bytes, bytes], str]()
    by_name = {name.lower(): place for name, place in named.items()}
    for i in form.values:
        name = form.table.columns[i].name
        place = by_name.pop(name.lower(), None)
        if place is None and family is None:
            raise InputError(f"OPTIONS (columns ...): {name} is not in it, and there is no option family")
        at, qualifier, encoding = place or (family or b"", name.encode(), ENCODINGS["text"])
        _require_holds("columns", encoding, form, i)
        if (other := taken.setdefault((at, qualifier), name)) != name:
            raise InputError(f"OPTIONS (columns ...): {other} and {name} are both {shown(at + b':' + qualifier)}")
        places.append(CellPlace(i, at, qualifier, encoding))
    for name in by_name:
        in_key = name in (form.table.columns[i].name.lower() for i in form.key)
        why = "is in the PRIMARY KEY; the option key says how it is written" if in_key else "is no column of the table"
        raise InputError(f"OPTIONS (columns ...): {name} {why}")
    if not places:
        raise InputError("a table in hbase needs a column beside its key: a row is there as long as it has cells")
    return places


def _require_holds(option: str, encoding: Encoding, form: TableForm, i: int) -> None:
    column, type_ = form.table.columns[i], form.types[i]
    if type_.is_nested:
        raise InputError(f"{column.name} is a {type_.name}, which no encoding of hbase holds")
    if option == "key" and type_.is_float:
        raise InputError(f"OPTIONS (key ...): {column.name} is a {type_}, whose numbers have several forms: it cannot "
                         "be in the key of a row")  # fmt: skip
    if not encoding.holds(type_):
        right = [name for name, each in ENCODINGS.items() if each.holds(type_)]
        raise InputError(f"OPTIONS ({option} ...): {column.name} is a {type_}, which is not written as "
                         f"{encoding.name}; there are {', '.join(right)}")  # fmt: skip


def _columns_option(options: Mapping[str, str]) -> dict[str, tuple[bytes, bytes, Encoding]]:
    found: dict[str, tuple[bytes, bytes, Encoding]] = {}
    for each in filter(None, (part.strip() for part in options.get("columns", "").split(","))):
        name, equals, place = (part.strip() for part in each.partition("="))
        family, colon, rest = place.partition(":")
        qualifier, second, last = rest.rpartition(":")
        if not (name and equals and family and colon and second):
            raise InputError(f"OPTIONS (columns ...): {each!r} is not NAME=FAMILY:QUALIFIER:ENCODING")
        encoding = encoding_of(last)
        if encoding is None or (encoding.width is not None and encoding.name not in ENCODINGS):
            raise InputError(f"OPTIONS (columns ...): {each!r}: there is no encoding {last!r}; there are "
                             f"{', '.join(ENCODINGS)}")  # fmt: skip
        if name.lower() in (other.lower() for other in found):
            raise InputError(f"OPTIONS (columns ...): {name} stands there twice")
        found[name] = _bytes(family), _bytes(qualifier), encoding
    return found


def _key_option(options: Mapping[str, str]) -> tuple[list[Encoding], bytes]:
    encodings = []
    for name in (part.strip() for part in options["key"].split(",")):
        encoding = encoding_of(name)
        if encoding is None:
            raise InputError(f"OPTIONS (key {options['key']!r}): there is no encoding {name!r}; there are "
                             f"{', '.join(ENCODINGS)}, text(n) and binary(n)")  # fmt: skip
        encodings.append(encoding)
    open_ = [each.name for each in encodings[:-1] if each.width is None]
    separator = _bytes(options.get("separator", ""))
    if open_ and not separator:
        raise InputError(f"OPTIONS (key {options['key']!r}): {open_[0]} is not the last and has no length: say "
                         f"{open_[0]}(n), n bytes, or what stands behind it, separator '...'")  # fmt: skip
    return encodings, separator


def _bytes(text: str) -> bytes:
    """What is written as in HBase's shell."""
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), text.encode())

"""Which cells a table's columns are, and what its rows' keys are made of: the options `key`, `columns` and `family`.

`columns` is a list of NAME=FAMILY:QUALIFIER:ENCODING; a column that is not in it is a text in `family`, under its own
name.  `key` is a list of encodings, one a column of the PRIMARY KEY, in its order: their bytes stand one behind the
other, with `separator` behind one that has no length of its own and is not the last.  Bytes are written as HBase's
shell has them: \\x00.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from viewkeeper.catalog.types import Type
from viewkeeper.changes.operations import TableForm
from viewkeeper.errors import InputError
from viewkeeper.stores.intake import TableIntake
from viewkeeper.stores.outside.hbase.encodings import ENCODINGS, Encoding, encoding_of, shown
from viewkeeper.stores.outside.hbase.row_keys import RowKeys

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


class CellMapping:
    """The cells and the keys of a table, by its options; raises InputError where they do not fit."""

    def __init__(self, intake: TableIntake, options: Mapping[str, str]) -> None:
        form = intake.form
        named = columns_option(options)
        families = {family for family, _, _ in named.values()}
        family = (
            shell_bytes(options["family"]) if "family" in options else min(families) if len(families) == 1 else None
        )
        self.places = _places(form, named, family)
        encodings, separator = key_option(options)
        if len(encodings) != len(form.key):
            raise InputError(f"OPTIONS (key {options['key']!r}): it has {len(encodings)} encodings, and the PRIMARY "
                             f"KEY {len(form.key)} columns")  # fmt: skip
        for i, encoding in zip(form.key, encodings, strict=True):
            require_holds("key", encoding, form.table.columns[i].name, form.types[i])
        self.keys = RowKeys(intake, encodings, separator)

    @property
    def families(self) -> list[bytes]:
        """Those in which columns are."""
        return sorted({place.family for place in self.places})


def require_readable(options: Mapping[str, str]) -> None:
    """Raises InputError, naming the option, where the mapping cannot be read, whatever the columns are."""
    named = columns_option(options)
    if not named and not options.get("family"):
        raise InputError("OPTIONS: hbase needs columns 'NAME=FAMILY:QUALIFIER:ENCODING, ...', or family '...' for "
                         "columns that are texts under their own names")  # fmt: skip
    if ":" in options.get("family", ""):
        raise InputError(f"OPTIONS (family {options['family']!r}): a family has no ':' in its name")
    key_option(options)


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
        require_holds("columns", encoding, name, form.types[i])
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


def require_holds(option: str, encoding: Encoding, name: str, type_: Type) -> None:
    """Raises InputError where values of a column cannot be written so."""
    if type_.is_nested:
        raise InputError(f"{name} is a {type_.name}, which no encoding of hbase holds")
    if option == "key" and type_.is_float:
        raise InputError(f"OPTIONS (key ...): {name} is a {type_}, whose numbers have several forms: it cannot "
                         "be in the key of a row")  # fmt: skip
    if not encoding.holds(type_):
        right = [other for other, each in ENCODINGS.items() if each.holds(type_)]
        raise InputError(f"OPTIONS ({option} ...): {name} is a {type_}, which is not written as "
                         f"{encoding.name}; there are {', '.join(right)}")  # fmt: skip


def columns_option(options: Mapping[str, str]) -> dict[str, tuple[bytes, bytes, Encoding]]:
    """The family, the qualifier and the encoding of each column that is named."""
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
        found[name] = shell_bytes(family), shell_bytes(qualifier), encoding
    return found


def key_option(options: Mapping[str, str]) -> tuple[list[Encoding], bytes]:
    """The encodings of the key's parts, and what stands behind one that has no length."""
    encodings = []
    for name in (part.strip() for part in options["key"].split(",")):
        encoding = encoding_of(name)
        if encoding is None:
            raise InputError(f"OPTIONS (key {options['key']!r}): there is no encoding {name!r}; there are "
                             f"{', '.join(ENCODINGS)}, text(n) and binary(n)")  # fmt: skip
        encodings.append(encoding)
    open_ = [each.name for each in encodings[:-1] if each.width is None]
    separator = shell_bytes(options.get("separator", ""))
    if open_ and not separator:
        raise InputError(f"OPTIONS (key {options['key']!r}): {open_[0]} is not the last and has no length: say "
                         f"{open_[0]}(n), n bytes, or what stands behind it, separator '...'")  # fmt: skip
    return encodings, separator


def shell_bytes(text: str) -> bytes:
    """What is written as in HBase's shell."""
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), text.encode())

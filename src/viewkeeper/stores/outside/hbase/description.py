"""How a table is declared in HBase, from the file in which HBase keeps that (`.tabledesc/.tableinfo.N.LENGTH`)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from viewkeeper.stores.outside.hbase.protobuf import fields

_MAGIC = b"PBUF"
_FOREVER = 2**31 - 1
_FAMILIES, _NAME, _ATTRIBUTES = 3, 1, 2


class Family(NamedTuple):
    """Of a cell so many versions are kept, for so many seconds, None for ever; `ordered`: deletions hide only what was
    written before them (NEW_VERSION_BEHAVIOR)."""

    versions: int
    seconds: int | None
    ordered: bool


def newest_description(folder: Path) -> Path:
    """The newest file in a table's `.tabledesc`; raises FileNotFoundError where there is none."""
    found = [each for each in folder.iterdir() if each.name.startswith(".tableinfo.")]
    if not found:
        raise FileNotFoundError(2, "No such file or directory", str(folder / ".tableinfo.*"))
    return max(found, key=lambda each: int(each.name.split(".")[2]))


def read_families(description: bytes) -> dict[bytes, Family]:
    """The families of a table by their names; raises ValueError where the file is none."""
    if description[: len(_MAGIC)] != _MAGIC:
        raise ValueError(f"it begins with {description[:4]!r}")
    found = {}
    for number, family in fields(description[len(_MAGIC) :]):
        if number == _FAMILIES and isinstance(family, bytes):
            said = list(fields(family))
            pairs = [dict(fields(value)) for field, value in said if field == _ATTRIBUTES and isinstance(value, bytes)]
            found[_bytes(dict(said).get(_NAME))] = _family({_bytes(pair.get(1)): _bytes(pair.get(2)) for pair in pairs})
    return found


def _family(attributes: dict[bytes, bytes]) -> Family:
    seconds = attributes.get(b"TTL", b"FOREVER")
    lasting = seconds == b"FOREVER" or int(seconds) == _FOREVER
    return Family(int(attributes.get(b"VERSIONS", b"1")), None if lasting else int(seconds),
                  attributes.get(b"NEW_VERSION_BEHAVIOR", b"false").lower() == b"true")  # fmt: skip


def _bytes(value: int | bytes | None) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a name that is none")
    return value

"""What is fixed when a database is made, and kept beside it in `database.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from viewkeeper.durable import link_new
from viewkeeper.errors import Error, InputError
from viewkeeper.permissions import make_root

FORMAT = 5
"""The layout of a database's folder; a database of another format is refused."""


@dataclass(frozen=True)
class Settings:
    """`nodes` of the embedded store; `zone`, the time zone in which TIMESTAMPs are read and shown; `store`, the kind of
    store that its tables are in (stores/kinds.py)."""

    nodes: int = 2
    zone: str = "UTC"
    store: str = "embedded"

    def __post_init__(self) -> None:
        if type(self.nodes) is not int or not 1 <= self.nodes <= 256:
            raise InputError(f"nodes={self.nodes!r}: a database has 1 to 256 nodes")
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
            raise InputError(f"zone={self.zone!r}: no such time zone; take a name such as 'Europe/Berlin'") from error


def found(root: Path, nodes: int | None, zone: str | None) -> Settings | None:
    """The settings of the database in `root`; None where the folder is absent or empty.

    Refused: another value of `nodes` or `zone` (None: any) than the database has, a folder that holds something else, a
    database of another format.
    """
    file = root / "database.json"
    if not file.exists():
        strangers = root.exists() and [e.name for e in root.iterdir() if not _is_ours(e.name)]
        if strangers and not file.exists():  # looked at again: another process may have just made it
            raise Error(f"{root} is not a viewkeeper database, and holds {strangers[0]!r}; name another folder")
        if not file.exists():
            return None
    kept = json.loads(file.read_text())
    if kept.pop("format") != FORMAT:
        raise Error(f"{root} was made by another version of viewkeeper, in a format that this one does not read")
    settings = Settings(**kept)
    for name, wanted in (("nodes", nodes), ("zone", zone)):
        if wanted is not None and wanted != getattr(settings, name):
            raise InputError(f"{root} was made with {name}={getattr(settings, name)!r}; {name}={wanted!r} is refused")
    return settings


def settle(root: Path, nodes: int | None, zone: str | None) -> Settings:
    """`found`, but a new database is made where the folder is absent or empty: None takes the default then."""
    settings = found(root, nodes, zone)
    if settings is None:
        _create(root, wanted(nodes, zone))
        settings = found(root, nodes, zone)  # another process may have been first
    if settings is None:
        raise Error(f"{root} was deleted while the database in it was made")
    return settings


def wanted(nodes: int | None, zone: str | None) -> Settings:
    """The settings of a database to be made; raises InputError."""
    return Settings(Settings.nodes if nodes is None else nodes, zone or Settings.zone)


def _create(root: Path, settings: Settings) -> None:
    # Several processes may make the same database at once: the first link wins, the others read what it wrote.
    make_root(root)
    link_new(f"{root}/database.json", json.dumps({"format": FORMAT, **asdict(settings)}).encode())


def _is_ours(name: str) -> bool:
    return name.startswith((".database.json", "database.json"))

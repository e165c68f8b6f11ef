"""What the tasks of a work run, and over which state: kept by each process, since most works differ little."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from viewkeeper.catalog.model import Catalog
from viewkeeper.maintenance import declare_tables
from viewkeeper.maintenance.zone_programs import ZonePrograms
from viewkeeper.pipeline.work import ZoneWork
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.disk import Disk
from viewkeeper.trace.snapshot import Snapshot


@lru_cache(maxsize=16)
def _storage(root: str, disk: Disk) -> Storage:
    return Storage(Path(root), disk)


def state_of(work: ZoneWork) -> tuple[Storage, Snapshot]:
    """The storage, and the snapshot of the work's base: nearly always the newest, one small step from the last one."""
    storage = _storage(work.root, work.disk)
    newest = storage.newest()
    return storage, newest if newest.ref == work.base else storage.at(*work.base)


def programs_without(catalog: Catalog, fill: frozenset[int] | None, left_out: frozenset[int]) -> ZonePrograms:
    """`zone_programs`, without the programs of the views and indexes `left_out`."""
    if left_out:  # seldom, and never the same again
        return ZonePrograms(declare_tables.stop(catalog, left_out, "left out"), fill)
    return zone_programs(catalog, fill)


_programs: list[tuple[Catalog, frozenset[int] | None, ZonePrograms]] = []
_PROGRAMS_KEPT = 4


def zone_programs(catalog: Catalog, fill: frozenset[int] | None) -> ZonePrograms:
    """The zone programs of a catalog; compared by identity, since a process decodes each stored catalog once."""
    for known, filled, program in _programs:
        if known is catalog and filled == fill:
            return program
    program = ZonePrograms(catalog, fill)
    _programs.insert(0, (catalog, fill, program))
    del _programs[_PROGRAMS_KEPT:]
    return program

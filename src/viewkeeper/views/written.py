"""What of a view is in the outside store that it is written to: reading it there, comparing it, having it mended."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import View
from viewkeeper.catalog.types import physical_type
from viewkeeper.errors import InputError, NotFound, Timeout
from viewkeeper.stores.outside.targets import (
    Deviation,
    LaterEpoch,
    Marker,
    RowForm,
    ViewTarget,
    Written,
    blocks,
    opened,
    shown,
)
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.lease import Lease, LeaseLost
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.snapshot import Snapshot
from viewkeeper.views.shape import Shape

TRIES, PAUSE_SECONDS = 20, 0.1
"""So often a target is looked at again that is being written meanwhile."""

SHOWN = 20
MEND_SECONDS = 600.0


@dataclass(frozen=True)
class Compared:
    """How a target compares with the view: as of `version`, None where that could not be said, for the reason
    `unjudged`.  `count` rows deviate, of which `deviations` are the first."""

    version: int | None
    count: int = 0
    deviations: list[Deviation] = field(default_factory=list)
    unjudged: str = ""


def target_of(view: View) -> ViewTarget:
    """The target of a view, open; raises InputError where it has none."""
    if view.target is None:
        raise InputError(f"{view.name} is written to no other store; leave out source, or declare it with USING")
    return opened(view.target)


def look_up(target: ViewTarget, shape: Shape, key: object) -> Any:
    """What `get` gives of a key, from the target."""
    assert isinstance(shape.of, View), "tables are written to no targets"
    values = shape.key_values(key)
    columns = [pa.array([value], physical_type(column.type)) for value, column in zip(values, shape.key, strict=True)]
    found = target.get(RowForm(shape.of, shape.zone), Rows(columns, np.ones(1, np.int64)))
    if shape.unique:
        return found[0] if found else None
    return found


def compared(storage: Storage, snapshot: Snapshot, view: View) -> Compared:
    """Compares the target of `view` with the version of it that it says is there."""
    why = "it is being written all the time"
    with closing(target_of(view)) as target:
        for _ in range(TRIES):
            marker = target.marker()
            if marker is None or marker.at.version < 0 or marker.database != snapshot.database:
                return Compared(None, unjudged="nothing has been written there yet; db.catch_up() waits for it")
            if marker.writing is None and (marker.view, marker.state) == (view.id, view.stored.state.id):
                found = _compared_at(storage, target, marker, view, snapshot.catalog.zone)
                if found is None:
                    why = f"version {marker.at.version}, which is there, is not kept here any more; db.catch_up() first"
                elif target.marker() == marker:
                    return found
            time.sleep(PAUSE_SECONDS)
    return Compared(None, unjudged=why)


def _compared_at(storage: Storage, target: ViewTarget, marker: Marker, view: View, zone: str) -> Compared | None:
    try:
        with ExitStack() as leases:
            newest, lease = Lease.on_newest(storage)
            leases.enter_context(lease)
            if newest.version == marker.at.version:
                now = newest
            else:
                leases.enter_context(Lease(storage, marker.at.manifest))
                now = storage.at(marker.at.manifest, marker.at.identity)
            rows = (shown(view, block) for block in blocks(now.trace(view.stored.state)))
            count, first = 0, list[Deviation]()
            for deviations, _ in target.deviations(RowForm(view, zone), rows):
                count += len(deviations)
                first += deviations[: SHOWN - len(first)]
            return Compared(marker.at.version, count, first)
    except (LeaseLost, NotFound):
        return None


def forget(snapshot: Snapshot, view: View) -> None:
    """Has the target say that nothing of the view is there, so that whoever maintains compares all of it, and mends
    it."""
    mine = Marker(snapshot.database, view.id, view.stored.state.id, Written(), snapshot.epoch)
    with closing(target_of(view)) as target:
        try:
            target.begin(mine)
        except LaterEpoch:
            target.begin(mine, force=True)
        target.complete(mine)


def wait_for_mending(view: View) -> None:
    """Returns when whoever maintains has written all of the view again; raises Timeout."""
    deadline = time.monotonic() + MEND_SECONDS
    with closing(target_of(view)) as target:
        while (marker := target.marker()) is None or marker.at.version < 0:
            if time.monotonic() > deadline:
                raise Timeout(f"{view.name} has not been written again within {MEND_SECONDS:g} s; see db.status()")
            time.sleep(PAUSE_SECONDS)

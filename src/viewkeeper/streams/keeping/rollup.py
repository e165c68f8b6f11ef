"""Roll-up: many small files of old parts become few large ones; no part changes (paper 003, section 4.1)."""

from __future__ import annotations

from collections.abc import Iterator

from viewkeeper.catalog.model import PartView
from viewkeeper.streams.keeping.stage import Stage, new_files
from viewkeeper.streams.part_files import PartWriter, read_part
from viewkeeper.streams.parts import Part
from viewkeeper.trace.naming import file_name

SMALL_FILES = 64
"""So many small files of one object, at least, are rolled up together."""

SMALL_ROWS = 100_000
"""Files with fewer rows than this are small."""

TARGET_ROWS = 2_000_000
"""Rows of the file that is made, at most."""

NEWEST_LEFT = 16
"""The newest parts are left: late rows come for them, and views read them."""


def roll_up(stage: Stage, epoch: int, attempt: int) -> None:
    """Rolls up what is worth it, one file an object."""
    grouped = {item.id: isinstance(item, PartView) and item.kind not in ("viewdf", "plain")
               for item in stage.catalog.parts()}  # fmt: skip
    for item in stage.catalog.parts():
        objects = [item.id, *(each.id for each in item.helpers)] if isinstance(item, PartView) else [item.id]
        for object_ in objects:
            parts = _worth_it(stage, object_, (stage.next(item.id) or 0) - NEWEST_LEFT)
            if parts:
                _write(stage, object_, parts, grouped[item.id], file_name(
                    stage.snapshot.version + 1, epoch, 0, 0, attempt, "merge", "parquet"))  # fmt: skip


def _worth_it(stage: Stage, object_: int, before: int) -> list[Part]:
    """Old parts whose files are all small, if there are enough of them."""
    rows_of = {run.file: run.rows for run in stage.snapshot.states.get(object_, ())}
    chosen: list[Part] = []
    files: set[str] = set()
    rows = 0
    for part in _old(stage, object_, before):
        names = {piece.file for piece in part.pieces}
        if any(rows_of.get(name, SMALL_ROWS) >= SMALL_ROWS for name in names):
            continue
        if rows + part.rows > TARGET_ROWS:
            break
        chosen.append(part)
        files |= names
        rows += part.rows
    return chosen if len(files) >= SMALL_FILES else []


def _old(stage: Stage, object_: int, before: int) -> Iterator[Part]:
    for part in stage.index(object_):
        if part.part < before and part.rows:
            yield part


def _write(stage: Stage, object_: int, parts: list[Part], grouped: bool, name: str) -> None:
    columns, zone = stage.columns[object_], stage.catalog.zone
    writer = PartWriter(stage.folder, name, columns, zone, grouped=grouped)
    for part in parts:
        writer.add(part.part, read_part(stage.folder, part.pieces, columns, zone, grouped=grouped))
    ref, pieces = writer.finish(stage.snapshot.storage.publish)
    for part in parts:
        stage.put(object_, part.part, (pieces[part.part],), updated=False)
    stage.files += new_files(object_, [] if ref is None else [ref], pieces.items())

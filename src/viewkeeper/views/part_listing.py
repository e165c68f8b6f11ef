"""SHOW STREAMS, and what SHOW VIEWS and DESCRIBE say of streams and views over streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from viewkeeper.catalog.model import PartView, Stream
from viewkeeper.streams.progress import StreamProgress
from viewkeeper.views.parts_at_version import Parts
from viewkeeper.views.version import Version

STREAM_COLUMNS = {
    "stream": pa.string(), "timestamp_by": pa.string(), "length": pa.int64(), "lateness": pa.int64(),
    "first": pa.int64(), "sealed": pa.int64(), "watermark": pa.string(), "rows": pa.int64(),
}  # fmt: skip
"""What SHOW STREAMS shows; `sealed` is the newest sealed part, `rows` counts sealed rows, lengths are in seconds."""


def streams(version: Version) -> list[dict[str, Any]]:
    """A row for each stream."""
    rows = []
    for stream in version.catalog.streams:
        parts = version.parts_of(stream)
        rows.append({"stream": stream.name, "timestamp_by": stream.columns[stream.time].name, "length": stream.length,
                     "lateness": stream.lateness, "first": parts.kept, "sealed": parts.newest,
                     "watermark": _watermark(parts), "rows": parts.count()})  # fmt: skip
    return rows


def views(version: Version) -> Iterator[PartView]:
    """The views over streams that users know of."""
    return (view for view in version.catalog.part_views if not view.hidden)


def note(of: Stream | PartView) -> str:
    """What DESCRIBE says beside the columns."""
    if isinstance(of, PartView):
        return f"view over streams ({of.plan.title}), in parts of {of.length} s"
    terms = [f"stream by {of.columns[of.time].name}, in parts of {of.length} s, LATENESS {of.lateness}"]
    for name, value in (("HORIZON", of.horizon), ("IDLE", of.idle), ("MAX AHEAD", of.ahead), ("EXPIRE", of.expire)):
        if value is not None:
            terms.append(f"{name} {value}")
    return ", ".join(terms)


def _watermark(parts: Parts) -> str | None:
    watermark = parts.progress.watermark if isinstance(parts.progress, StreamProgress) else None
    return None if watermark is None else parts.moment(watermark).isoformat()

"""Which parts exist, as a version says."""

from __future__ import annotations

from viewkeeper.catalog.model import Stream
from viewkeeper.streams.progress import StreamProgress
from viewkeeper.streams.view_progress import ViewProgress
from viewkeeper.trace.snapshot import Snapshot


class ExistingParts:
    """`declare.Known` of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def oldest(self, id_: int) -> int | None:
        """The first part that has not expired, None where there is no part."""
        progress = self._progress(id_)
        if progress.first is None or progress.next is None or progress.next <= progress.first:
            return None
        return progress.first if progress.kept is None else max(progress.first, progress.kept)

    def newest(self, id_: int) -> int | None:
        """The last part that is sealed or built, None where there is none."""
        progress = self._progress(id_)
        return progress.next - 1 if self.oldest(id_) is not None and progress.next is not None else None

    def _progress(self, id_: int) -> StreamProgress | ViewProgress:
        data = self._snapshot.progress.get(id_)
        is_stream = isinstance(self._snapshot.catalog.parts_by_id(id_), Stream)
        return StreamProgress.from_dict(data) if is_stream else ViewProgress.from_dict(data)

"""Which files the entries of a log name, remembered from one look to the next: a backlog is read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from viewkeeper.streams.intake.entries import ENTRY_KEY, header_of


class EnteredFiles:
    """The names of files that entries of a log name, as of the last look."""

    def __init__(self) -> None:
        self._ends: dict[int, int] = {}
        self._files: dict[int, dict[str, int]] = {}  # by stream: the sequence of the entry that names it, ascending

    def __contains__(self, name: str) -> bool:
        return any(name in files for files in self._files.values())

    def look(self, txn: Any, table: Any, streams: Iterable[int], name: Callable[[int, int], str]) -> None:
        """Learns what has come to the entries of `streams`, in the LMDB table `table`, and what was trimmed; `name`
        tells people which entry it is."""
        with txn.cursor(table) as cursor:
            for id_ in streams:
                self._forget_before(id_, self._first(cursor, id_))
                files, end = self._files.setdefault(id_, {}), self._ends.get(id_, 0)
                more = cursor.set_range(ENTRY_KEY.pack(id_, end + 1))
                while more and (key := ENTRY_KEY.unpack(cursor.key()))[0] == id_:
                    header = header_of(cursor.value(), name(*key))
                    files.update((file[0], key[1]) for file in header.get("files", ()))
                    if "rejects" in header:
                        files[header["rejects"]] = key[1]
                    self._ends[id_] = key[1]
                    more = cursor.next()

    def _first(self, cursor: Any, stream: int) -> int | None:
        """The sequence of a stream's first entry that is there; None where there is none."""
        if not cursor.set_range(ENTRY_KEY.pack(stream, 0)):
            return None
        found, sequence = ENTRY_KEY.unpack(cursor.key())
        return int(sequence) if found == stream else None

    def _forget_before(self, stream: int, first: int | None) -> None:
        """Forgets the files of a stream's entries before `first`, which were trimmed (None: all were)."""
        files = self._files.get(stream, {})
        while files and (first is None or next(iter(files.values())) < first):
            del files[next(iter(files))]

"""One node's LMDB environment and its tables."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NamedTuple

from viewkeeper.changes import entries
from viewkeeper.stores.lmdb_folders import OpenFile, open_environment, open_tables
from viewkeeper.stores.locks import WriterLock

SEQUENCE = struct.Struct(">Q")


class Tail(NamedTuple):
    """The end of a node's log: its last sequence (0 where it is empty), and the running hash of all of it."""

    sequence: int
    hash: bytes


class Node:
    """One environment and its tables."""

    def __init__(self, folder: Path, sync: bool, lock: WriterLock) -> None:
        self.environment = open_environment(folder, sync)
        self.file = OpenFile(folder)
        once_per_row = {"dupsort": True, "dupfixed": True}
        tables = {b"log": {}, b"rows": {}, b"equal": once_per_row, b"intent": {}, b"layout": {},
                  b"steps": {}}  # fmt: skip
        self.log, self.rows, self.equal, self.intent, self.layout, self.steps = open_tables(
            self.environment, lock, tables
        )

    def end(self, txn: Any) -> int:
        """The last sequence in the log; 0 where it is empty."""
        return self.tail(txn).sequence

    def tail(self, txn: Any) -> Tail:
        """Where the log ends, which the next entry follows."""
        cursor = txn.cursor(self.log)
        if not cursor.last():
            return Tail(0, entries.EMPTY_LOG)
        key, entry = cursor.item()
        counted = entries.count_and_stamp(entry)
        return Tail(int(SEQUENCE.unpack(key)[0]) + (counted[0] if counted else 1) - 1, entries.running_hash(entry))

    def greatest_stamp(self) -> int:
        """The stamp of the log's last entry that is sound; 0 where there is none."""
        with self.environment.begin() as txn:
            for entry in txn.cursor(self.log).iterprev(keys=False, values=True) if self.end(txn) else ():
                counted = entries.count_and_stamp(entry, checked=True)
                if counted:
                    return counted[1]
        return 0

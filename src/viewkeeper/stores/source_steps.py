"""Steps that a source of changes takes one after another, by their numbers: which was the last that was done.

In the table `steps` of node 0: under table id and source the number, 8 bytes big-endian.  It is written in the step's
own transaction there, which decides (`intents`): so node 0 takes part in each step, whatever node its rows are on.
"""

from __future__ import annotations

import struct
from typing import Any

from viewkeeper.errors import InputError
from viewkeeper.stores.contract import Numbered
from viewkeeper.stores.node import Node

DECIDING = 0
SOURCE_BYTES_MAX = 400
_NUMBER = struct.Struct(">Q")


def take_step(node: Node, txn: Any, table: bytes, step: Numbered) -> bool:
    """Marks a step on the table with the key prefix `table` as done, in a write transaction on node 0; whether it was
    not done before, nor a later one."""
    key = table + step.source.encode()
    if len(key) > len(table) + SOURCE_BYTES_MAX:
        raise InputError(f"the source {step.source!r} has a name of more than {SOURCE_BYTES_MAX} bytes")
    found = txn.get(key, db=node.steps)
    if found is not None and _NUMBER.unpack(found)[0] >= step.number:
        return False
    txn.put(key, _NUMBER.pack(step.number), db=node.steps)
    return True

"""What makes a call over several nodes whole: the first node's transaction holds what the others are to do.

A call holds the locks of all its nodes.  Its first commit decides: with it, the first node holds the *intent*, all
that the call does on its other nodes, and the shared words of all its nodes name the first one.  A call that dies
between its commits so leaves its intent and its words; whoever next gets the lock of one of these nodes finishes it.

In the table `intent` of the first node: under `head` which part begins where, under `table` the declaration, under node
and place the bodies of the log entries.  It stays until the next call with this first node, or until it is cleared.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viewkeeper.changes.entries import Body
from viewkeeper.stores.node import Node, Tail

_HEAD, _TABLE = b"head", b"table"
_PLACE = struct.Struct(">II")
_BODY = struct.Struct("<BBxxI")


@dataclass(frozen=True)
class NodePart:
    """What a call does on one node: it puts entries with `bodies` behind `tail`, and changes rows as they say."""

    tail: Tail
    bodies: Sequence[Body]


@dataclass(frozen=True)
class Intent:
    """A call with one `stamp` on the table whose stored declaration is `table`; `parts` by node, without its first one
    once it is stored."""

    table: bytes
    stamp: int
    parts: Mapping[int, NodePart]


def write(node: Node, txn: Any, intent: Intent) -> None:
    """Store `intent` on the first of its nodes, in place of the one before."""
    txn.drop(node.intent, delete=False)
    others = {number: part for number, part in intent.parts.items() if number != min(intent.parts)}
    head = {number: [part.tail.sequence, part.tail.hash.hex(), len(part.bodies)] for number, part in others.items()}
    txn.put(_HEAD, json.dumps({"stamp": intent.stamp, "parts": head}).encode(), db=node.intent)
    txn.put(_TABLE, intent.table, db=node.intent)
    for number, part in others.items():
        for place, body in enumerate(part.bodies):
            data = _BODY.pack(body.kind, body.flags, body.count) + body.data
            txn.put(_PLACE.pack(number, place), data, db=node.intent)


def tails(node: Node, txn: Any) -> dict[int, Tail]:
    """Where the logs of the other nodes ended before the call whose intent `node` holds; empty where it holds none."""
    head = txn.get(_HEAD, db=node.intent)
    if head is None:
        return {}
    parts = json.loads(bytes(head))["parts"]
    return {int(number): Tail(sequence, bytes.fromhex(hash_)) for number, (sequence, hash_, _) in parts.items()}


def read(node: Node, txn: Any) -> Intent | None:
    """The intent that `node` holds."""
    head = txn.get(_HEAD, db=node.intent)
    if head is None:
        return None
    found = json.loads(bytes(head))
    parts = {int(number): NodePart(Tail(sequence, bytes.fromhex(hash_)), _bodies(node, txn, int(number), count))
             for number, (sequence, hash_, count) in found["parts"].items()}  # fmt: skip
    return Intent(txn.get(_TABLE, db=node.intent), found["stamp"], parts)


def clear(node: Node, number: int, txns: Mapping[int, Any]) -> None:
    """Remove the intent of `node`, which is finished."""
    txns[number].drop(node.intent, delete=False)


def _bodies(node: Node, txn: Any, number: int, count: int) -> list[Body]:
    bodies = []
    for place in range(count):
        data = txn.get(_PLACE.pack(number, place), db=node.intent)
        kind, flags, operations = _BODY.unpack_from(data)
        bodies.append(Body(kind, flags, operations, data[_BODY.size :]))
    return bodies

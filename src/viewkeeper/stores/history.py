"""Is a node's log still the one that was read up to a position?  The running hash there tells (changes/entries.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from viewkeeper.changes import entries
from viewkeeper.changes.positions import Hashes, LogPlace, Positions
from viewkeeper.errors import StoreReplaced
from viewkeeper.stores.node import SEQUENCE, Node
from viewkeeper.stores.node_environments import Nodes


def hash_at(node: Node, txn: Any, position: int) -> str:
    """The running hash of a log up to `position`, the end of an entry, in hexadecimal digits; "" where it holds nothing
    that tells."""
    told = _told(node, txn, position)
    return told[0].hex() if isinstance(told, list) and told else ""


def compare(node: Node, txn: Any, position: int, hash_: str) -> LogPlace:
    """Whether the log up to `position` is the one that has `hash_` there; "": any that has an end of an entry there."""
    told = _told(node, txn, position)
    if isinstance(told, LogPlace):
        return told
    # The entry may have been changed by another program since, or the next one be another program's: one is enough.
    return LogPlace.SAME if not hash_ or not told or bytes.fromhex(hash_) in told else LogPlace.OTHER


def _told(node: Node, txn: Any, position: int) -> list[bytes] | LogPlace:
    """What the entry that ends at `position`, and the one that follows it, say of the running hash there; where no
    entry ends there, why."""
    cursor = txn.cursor(node.log)
    told: list[bytes] = []
    followed = cursor.set_range(SEQUENCE.pack(position + 1))
    if followed:
        begins = SEQUENCE.unpack(cursor.key())[0] == position + 1
        before = entries.hash_before(cursor.value())
        if not cursor.prev():
            return ([] if before is None else [before]) if begins else LogPlace.TRIMMED
        if not begins:
            return LogPlace.OTHER
        told = [] if before is None else [before]
        return [entries.running_hash(cursor.value()), *told]
    end, hash_ = node.tail(txn)
    if end == position:
        return [hash_] if position else []
    return LogPlace.BEYOND if end < position else LogPlace.OTHER


def replaced(nodes: Nodes, positions: Positions, hashes: Hashes) -> dict[int, str]:
    """The nodes whose logs are not those that were read up to `positions`, where they had `hashes`, and how that shows;
    none is the rule."""
    found = {}
    for number, node in enumerate(nodes.nodes):
        with nodes.reading(number, buffers=True) as txn:
            place = compare(node, txn, positions.get(number, 0), hashes.get(number, ""))
            if place is not LogPlace.SAME:
                found[number] = _reason(node, txn, number, positions.get(number, 0), place)
    return found


def require_same(nodes: Nodes, txns: Mapping[int, Any], positions: Positions, hashes: Hashes) -> None:
    """Raises StoreReplaced where the logs, as the transactions `txns` see them, are `replaced`."""
    reasons = []
    for number, txn in txns.items():
        node, position = nodes.nodes[number], positions.get(number, 0)
        place = compare(node, txn, position, hashes.get(number, ""))
        if place is not LogPlace.SAME:
            reasons.append(_reason(node, txn, number, position, place))
    if reasons:
        raise store_replaced(nodes, reasons)


def store_replaced(nodes: Nodes, reasons: list[str]) -> StoreReplaced:
    """The error for these reasons."""
    return StoreReplaced(
        f"{nodes.root}: the store's log is not the one that the views have read: {'; '.join(reasons)}. Nothing more is "
        "read until 'viewkeeper rebase', or db.rebase(), has made the views equal to the store"
    )


def _reason(node: Node, txn: Any, number: int, position: int, place: LogPlace) -> str:
    if place is LogPlace.BEYOND:
        return (f"the log of node {number} ends at {node.end(txn):,}, and the views hold it up to {position:,}, as if "
                "an older copy of the store had been put back")  # fmt: skip
    if place is LogPlace.TRIMMED:
        cursor = txn.cursor(node.log)
        cursor.first()
        first = SEQUENCE.unpack(cursor.key())[0]
        return (f"the log of node {number} begins at {first:,}, and the views hold it up to {position:,}, as if an "
                "older copy of the views had been put back: what lies between is not in the log any more")  # fmt: skip
    return (f"the log of node {number} is at {position:,} not the one that the views have read, as if an older copy of "
            "the store had been put back and written to")  # fmt: skip

"""Is the write of a token in the logs that a version has read?  Sequences alone come again where an older copy of the
store is put back and written to."""

from __future__ import annotations

from viewkeeper.changes.positions import LogPlace, Positions, Token
from viewkeeper.errors import StoreReplaced
from viewkeeper.stores.contract import Store
from viewkeeper.trace.snapshot import Snapshot

_ANOTHER = (LogPlace.OTHER, LogPlace.BEYOND)


def require_written(token: Token, snapshot: Snapshot, store: Store, rebased: Positions) -> None:
    """Raises StoreReplaced where the writes of `token` are neither in `snapshot` nor can come into a later one.

    `rebased` is that of the newest snapshot: sequences up to there may be of a log that was replaced.
    """
    place = snapshot.storage.root
    for node, sequence in token.positions.items():
        if not isinstance(node, int) or node >= store.nodes:
            continue  # of an outside store, whose log says of itself if it is another; or of another database
        hash_ = token.hashes.get(node)
        at = snapshot.positions.get(node, 0), snapshot.hashes.get(node, "")
        read, *others = store.compare(node, at, *(((sequence, hash_),) if hash_ else ()))
        (written,) = others or (LogPlace.TRIMMED,)
        if read in _ANOTHER or (read is LogPlace.TRIMMED and rebased.get(node) != snapshot.rebased.get(node)):
            raise StoreReplaced(
                f"{place}: the log of node {node} is not the one that version {snapshot.version} has read, as if an "
                "older copy of the store had been put back: see viewkeeper status, and viewkeeper rebase"
            )
        if written in _ANOTHER:
            raise StoreReplaced(
                f"{place}: the write of token {str(token)!r} is not in the log of node {node} any more, as if an older "
                "copy of the store had been put back: write it again"
            )
        if written is LogPlace.TRIMMED and sequence <= rebased.get(node, 0):
            raise StoreReplaced(
                f"{place}: token {str(token)!r} is from before the rebase of node {node}, and the log does not tell "
                "any more whether its write was lost then: look at the row itself, and read without the token"
            )

"""`Exchange`: how rows of a maintenance plan get from one zone to another."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.catalog.codec import stored
from viewkeeper.plans.expressions import Expression
from viewkeeper.plans.kept_calls import Running


@stored
@dataclass(frozen=True)
class Exchange:
    """Moves the stream of `source` to `zone` by the hash of the first `key` outputs (the member column goes first where
    the stream has one; it is part of the key, and not counted).  `outputs` cannot raise.

    With `partial` (the running sums wanted), rows are summed up by group before they are sent.
    """

    id: int
    source: int
    zone: int
    key: int
    outputs: tuple[Expression, ...]
    member: bool
    partial: tuple[Running, ...] | None = None

"""Aggregates over what a PRE-AGGREGATION keeps."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.catalog.codec import stored
from viewkeeper.catalog.types import Type
from viewkeeper.plans.expressions import TextPlace


@stored
@dataclass(frozen=True)
class KeptCall:
    """One aggregate: `function` over the PRE-AGGREGATION's `running[argument]` (None: count(*))."""

    function: str
    argument: int | None
    type: Type
    place: TextPlace | None

"""The columns in which a running sum is kept; what stands in them is `maintenance.exact`'s."""

from __future__ import annotations

from viewkeeper.catalog.types import BIGINT, BINARY, Type


def sum_columns(type_: Type) -> tuple[Type, ...]:
    """The types of the state columns of a running sum of values of `type_` (a number type)."""
    if type_.is_float:
        return (BINARY, BIGINT, BIGINT, BIGINT)
    return (BIGINT,) * limb_count(type_)


def limb_count(type_: Type) -> int:
    """How many limbs a sum of values of `type_` takes."""
    return 5 if type_.is_decimal and type_.precision > 18 else 2

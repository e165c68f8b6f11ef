"""Functions of Python's for every type that the generators draw: `turned_...` and `picky_...`.

`turned` gives NULL for a value, that value for NULL, and all else as it is; `picky` raises for that value.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from oracle.strategies import CORE_TYPES, domain
from viewkeeper.catalog.model import PythonFunction
from viewkeeper.catalog.types import Type, logical_type
from viewkeeper.spark.python_functions import python_function


def name_of(kind: str, type_: Type) -> str:
    """What the function of that kind over that type is called."""
    return f"{kind}_{str(type_).lower()}".replace("(", "_").replace(",", "_").replace(")", "")


def _made(type_: Type) -> dict[str, Callable[[pa.Array], pa.Array]]:
    value = pa.scalar(domain(type_)[0], logical_type(type_))

    def turned(column: pa.Array) -> pa.Array:
        others = pc.if_else(pc.equal(column, value), pa.scalar(None, value.type), column)
        return pc.if_else(pc.is_null(column), value, others)

    def picky(column: pa.Array) -> pa.Array:
        if pc.any(pc.equal(column, value)).as_py():
            raise ValueError("not this one")
        return column

    return {"turned": turned, "picky": picky}


FUNCTIONS: tuple[PythonFunction, ...] = tuple(
    python_function(name_of(kind, type_), f, type_, deterministic=True)
    for type_ in CORE_TYPES for kind, f in _made(type_).items()
)  # fmt: skip

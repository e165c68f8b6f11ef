"""What a function of Python's says of a single row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import logical_type, to_logical, to_physical
from viewkeeper.checker.value_rules import Raised
from viewkeeper.functions.python_calls import answered
from viewkeeper.plans.outside import PythonCall


def python_value(call: PythonCall, values: Sequence[Any], zone: str) -> Any:
    """What `call` gives for these values of its arguments; raises Raised."""
    types = [argument.type for argument in call.arguments]
    given = [to_physical(pa.array([value], logical_type(type_, zone)), type_)
             for value, type_ in zip(values, types, strict=True)]  # fmt: skip
    said, raised = answered(call.function, given, types, np.zeros(1, bool), zone)
    if raised:
        raise Raised("FUNCTION_RAISED", call.place)
    return to_logical(said, call.type, zone)[0].as_py()

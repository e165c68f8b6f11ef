"""Errors as data: one int64 says which error a row raised and where in the statement its expression stands.

0 is no error; else bits 48.. hold the code, bits 24..47 the line and bits 0..23 the column (1-based; 0: not known).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from viewkeeper.plans.expressions import TextPlace

ARITHMETIC_OVERFLOW = 1
NUMERIC_VALUE_OUT_OF_RANGE = 2
DIVIDE_BY_ZERO = 3
CAST_INVALID_INPUT = 4
REMAINDER_BY_ZERO = 5
SCALAR_SUBQUERY_TOO_MANY_ROWS = 6
CAST_OVERFLOW = 7
DATETIME_OVERFLOW = 8
DATETIME_FIELD_OUT_OF_BOUNDS = 9
NUMERIC_OUT_OF_SUPPORTED_RANGE = 10

ERROR_CODES = {
    ARITHMETIC_OVERFLOW: "ARITHMETIC_OVERFLOW",
    NUMERIC_VALUE_OUT_OF_RANGE: "NUMERIC_VALUE_OUT_OF_RANGE",
    DIVIDE_BY_ZERO: "DIVIDE_BY_ZERO",
    CAST_INVALID_INPUT: "CAST_INVALID_INPUT",
    REMAINDER_BY_ZERO: "REMAINDER_BY_ZERO",
    SCALAR_SUBQUERY_TOO_MANY_ROWS: "SCALAR_SUBQUERY_TOO_MANY_ROWS",
    CAST_OVERFLOW: "CAST_OVERFLOW",
    DATETIME_OVERFLOW: "DATETIME_OVERFLOW",
    DATETIME_FIELD_OUT_OF_BOUNDS: "DATETIME_FIELD_OUT_OF_BOUNDS",
    NUMERIC_OUT_OF_SUPPORTED_RANGE: "NUMERIC_OUT_OF_SUPPORTED_RANGE",
}

_OF_OTHER_FUNCTIONS = (
    "FUNCTION_RAISED", "BINARY_ARITHMETIC_OVERFLOW", "CANNOT_PARSE_INTERVAL", "CANNOT_PARSE_TIMESTAMP",
    "COLLECTION_SIZE_LIMIT_EXCEEDED", "CONVERSION_INVALID_INPUT", "DUPLICATED_MAP_KEY", "ILLEGAL_DAY_OF_WEEK",
    "INTERVAL_ARITHMETIC_OVERFLOW", "INVALID_ARRAY_INDEX", "INVALID_ARRAY_INDEX_IN_ELEMENT_AT",
    "INVALID_BITMAP_POSITION", "INVALID_FRACTION_OF_SECOND", "INVALID_INDEX_OF_ZERO", "INVALID_PARAMETER_VALUE",
    "INVALID_URL", "MALFORMED_CHARACTER_CODING", "MALFORMED_RECORD_IN_PARSING", "MALFORMED_VARIANT", "NULL_MAP_KEY",
    "UNRECOGNIZED_TIMEZONE", "UNSUPPORTED_TIME_PRECISION", "USER_RAISED_EXCEPTION",
    "INTERVAL_DIVIDED_BY_ZERO",
)  # fmt: skip
"""What functions raise that Spark computes; FUNCTION_RAISED stands for all else.  Codes are stored: only add at the
end."""

FUNCTION_RAISED = 1000
ERROR_CODES |= {FUNCTION_RAISED + i: name for i, name in enumerate(_OF_OTHER_FUNCTIONS)}

CODES = {name: code for code, name in ERROR_CODES.items()}

_PLACE_BITS = 24
CODE_BITS = 2 * _PLACE_BITS
"""An error shifted down by so many is its code."""

_PLACE_MAX = (1 << _PLACE_BITS) - 1


def pack_error(code: int, place: TextPlace | None) -> int:
    """The error `code` raised at `place`; lines and columns beyond 2^24 - 1 are given as that."""
    line, column = place or (0, 0)
    return code << CODE_BITS | min(line, _PLACE_MAX) << _PLACE_BITS | min(column, _PLACE_MAX)


def error_at(place: TextPlace | None) -> Callable[[np.ndarray], np.ndarray]:
    """What puts `place` into packed errors that say no place themselves."""
    bits, mask = np.int64(pack_error(0, place)), np.int64((1 << CODE_BITS) - 1)
    return lambda errors: np.where((errors != 0) & (errors & mask == 0), errors | bits, errors)


def unpack_error(error: int) -> tuple[int, TextPlace | None]:
    """The inverse of `pack_error`."""
    line, column = error >> _PLACE_BITS & _PLACE_MAX, error & _PLACE_MAX
    return error >> CODE_BITS, (line, column) if line else None


def format_error(error: int) -> str:
    """For people: `ARITHMETIC_OVERFLOW (line 1, column 8)`."""
    code, place = unpack_error(error)
    where = f" (line {place[0]}, column {place[1]})" if place else ""
    return ERROR_CODES[code] + where

"""Spark's type rules under ANSI mode: common types, decimal arithmetic, implicit conversions.

Sources: `AnsiTypeCoercion`, `DecimalPrecisionTypeCoercion`, `Cast.forceNullable` and `Cast.canNullSafeCastToDecimal`
of Spark 4; every rule is compared with Spark itself in `tests/compiler/test_compiler_against_spark.py`.
"""

from __future__ import annotations

from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER_BITS,
    INTERVALS,
    MAX_PRECISION,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Type,
    decimal,
)  # fmt: skip

INTERVAL_FIELDS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
INTEGER_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}  # the precision of Spark's DECIMAL for each
_MINIMUM_SCALE = 6


def common_type(left: Type, right: Type) -> Type | None:
    """The type to which both sides of a comparison, or two branches of CASE, COALESCE or IN, are converted."""
    if left == right or right == VOID:
        return left
    if left == VOID:
        return right
    if left.is_number and right.is_number:
        return _common_number(left, right)
    if left.is_nested or right.is_nested:
        return _common_nested(left, right)
    if STRING in (left, right):
        return _common_with_string(right if left == STRING else left)
    if left.is_interval and right.is_interval:
        return _common_interval(left, right)
    pair = {left, right}
    if pair == {DATE, TIMESTAMP_NTZ}:
        return TIMESTAMP_NTZ
    return TIMESTAMP if pair <= {DATE, TIMESTAMP, TIMESTAMP_NTZ} else None


def common_type_of_all(types: list[Type]) -> Type | None:
    """`common_type` over any number of types; strings come first, as in Spark's `findWiderCommonType`."""
    result: Type | None = VOID
    for type_ in sorted(types, key=lambda each: each != STRING):
        if result is not None:
            result = common_type(result, type_)
    return result


def _common_nested(left: Type, right: Type) -> Type | None:
    if not same_shape(left, right):
        return None
    parts = [common_type(a, b) for (_, a), (_, b) in zip(left.parts, right.parts, strict=True)]
    names = [name for name, _ in left.parts]
    if left.name == "STRUCT" and [name.lower() for name in names] != [name.lower() for name, _ in right.parts]:
        return None
    found = [part for part in parts if part is not None]
    return Type(left.name, parts=tuple(zip(names, found, strict=True))) if len(found) == len(parts) else None


def same_shape(left: Type, right: Type) -> bool:
    """Whether both are arrays, maps, or structs with as many fields."""
    return left.is_nested and left.name == right.name and len(left.parts) == len(right.parts)


def _common_with_string(other: Type) -> Type:
    if other.is_integer:
        return BIGINT
    return DOUBLE if other.is_number else other


def _common_interval(left: Type, right: Type) -> Type | None:
    """From the greater of the first fields to the smaller of the last ones."""
    if left.is_month_interval != right.is_month_interval:
        return None
    fields = [field for field in INTERVAL_FIELDS if field in f"{left} {right}".split()]
    return Type("INTERVAL " + " TO ".join(dict.fromkeys((fields[0], fields[-1]))))


def _common_number(left: Type, right: Type) -> Type:
    if left.is_integer and right.is_integer:
        return left if INTEGER_BITS[left.name] >= INTEGER_BITS[right.name] else right
    if left.is_float or right.is_float:
        return DOUBLE  # two FLOATs are one type already; FLOAT with an integer is DOUBLE in ANSI mode
    return wider_decimal(as_decimal(left), as_decimal(right))


def as_decimal(number: Type) -> Type:
    """The DECIMAL that holds every value of an integer type."""
    return decimal(INTEGER_DIGITS[number.name], 0) if number.is_integer else number


def wider_decimal(left: Type, right: Type) -> Type:
    """The DECIMAL that holds both, giving up scale before whole digits where 38 digits do not suffice."""
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale
    if precision <= MAX_PRECISION:
        return decimal(precision, scale)
    return decimal(MAX_PRECISION, max(0, scale - (precision - MAX_PRECISION)))


def decimal_result(operator: str, left: Type, right: Type) -> Type:
    """The type of `left operator right` for two DECIMALs (`operator` is + - * / or %)."""
    if operator == "*":
        return _adjusted(left.precision + right.precision + 1, left.scale + right.scale)
    if operator == "/":
        scale = max(_MINIMUM_SCALE, left.scale + right.precision + 1)
        return _adjusted(left.precision - left.scale + right.scale + scale, scale)
    scale = max(left.scale, right.scale)
    if operator == "%":
        return _adjusted(min(left.precision - left.scale, right.precision - right.scale) + scale, scale)
    return _adjusted(max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale)


def _adjusted(precision: int, scale: int) -> Type:
    # DecimalType.adjustPrecisionScale: keeps whole digits, but at least six digits of the fraction.
    if precision <= MAX_PRECISION:
        return decimal(precision, scale)
    return decimal(MAX_PRECISION, max(MAX_PRECISION - (precision - scale), min(scale, _MINIMUM_SCALE)))


def bounded_decimal(precision: int, scale: int) -> Type:
    """DECIMAL cut to 38 digits, as SUM and AVG do."""
    return decimal(min(precision, MAX_PRECISION), min(scale, MAX_PRECISION))


def cannot_fail(source: Type, target: Type) -> bool:
    """Whether every value of `source` becomes one of `target` (to DOUBLE: rounded), none of them lost."""
    if source in (VOID, target):
        return True
    if target.is_decimal:
        if not (source.is_integer or source.is_decimal):
            return False
        needed = as_decimal(source)
        return needed.scale <= target.scale and needed.precision - needed.scale <= target.precision - target.scale
    if target.is_integer:
        return source.is_integer and INTEGER_BITS[source.name] <= INTEGER_BITS[target.name]
    if target == DOUBLE:
        return source.is_number
    if target == TIMESTAMP:
        return source in (DATE, TIMESTAMP_NTZ)
    if target.is_interval and source.is_month_interval == target.is_month_interval:
        return source.is_interval and INTERVALS[source.name] % INTERVALS[target.name] == 0
    return (source, target) in ((DATE, TIMESTAMP_NTZ), (STRING, BINARY))


def has_cast(source: Type, target: Type) -> bool:
    """Whether Spark has CAST from `source` to `target` in ANSI mode (of arrays, structs and maps: may have)."""
    if source in (VOID, target):
        return True
    if STRING in (source, target) or source.is_nested or target.is_nested:
        return True
    if source.is_interval or target.is_interval:
        alike = source.is_interval and target.is_interval and source.is_month_interval == target.is_month_interval
        return alike or source.is_number or target.is_number
    if source == BOOLEAN or source.is_number:
        return target.is_number or (source.is_number and target in (BOOLEAN, TIMESTAMP))
    moments = (DATE, TIMESTAMP, TIMESTAMP_NTZ)
    return (source in moments and target in moments) or (source == TIMESTAMP and target.is_number)


def why_no_native_cast(source: Type, target: Type, stored: bool) -> str | None:
    """Why a cast that Spark has is none of ours, None where it is; `stored`: of a column as it stands in a table."""
    if source.is_nested or target.is_nested:
        return _why_no_nested_cast(source, target)
    if (source.is_interval or target.is_interval) and not cannot_fail(source, target):
        return "an interval may be cut, and its texts are Spark's"
    if source.is_float and (target == STRING or target.is_decimal):
        return "Java before version 19 prints other digits of some numbers than later ones"
    if source == TIMESTAMP and target.is_decimal:
        return "Spark goes by way of a DOUBLE's text, which is not the same in every version of Java"
    if source.is_decimal and target == TIMESTAMP:
        return "write CAST(CAST(... AS DOUBLE) AS TIMESTAMP)"
    if source == BINARY and target == STRING:
        return "the bytes may be no text"
    if source.is_decimal and target.is_integer and target != BIGINT and 15 < source.precision <= 18 and not stored:
        # Computed decimals of Spark's may be held in a way in which its cast goes by a DOUBLE.
        return "Spark's answer depends on how the number was computed; cast it to BIGINT first"
    return None


def _why_no_nested_cast(source: Type, target: Type) -> str | None:
    if not same_shape(source, target):
        return "what holds other values is Spark's"
    if source.name == "MAP" and not is_injective(source.parts[0][1], target.parts[0][1]):
        return "two keys may become one"
    for (_, old), (_, new) in zip(source.parts, target.parts, strict=True):
        reason = None if old in (new, VOID) else why_no_native_cast(old, new, True)
        if reason is not None or not has_cast(old, new):
            return reason or f"{old} cannot be cast to {new}"
    return None


def is_injective(source: Type, target: Type) -> bool:
    """Whether two different values of `source` are still different as `target`."""
    if source == target:
        return True
    if source.is_nested:
        pairs = zip(source.parts, target.parts, strict=True)
        return all(is_injective(old, new) for (_, old), (_, new) in pairs)
    if target == DOUBLE:
        return source.name in ("TINYINT", "SMALLINT", "INT", "FLOAT")
    # A zone's clock shows some hours twice, so two written times may be one moment.
    return cannot_fail(source, target) and (source, target) != (TIMESTAMP_NTZ, TIMESTAMP)


def may_become_null(source: Type, target: Type) -> bool:
    """Whether Spark's schema calls a conversion nullable even where its input is not."""
    if source in (VOID, target) or source.is_nested:
        return False
    if source == STRING:
        return target != BINARY
    if target.is_decimal:
        return not cannot_fail(source, target)
    return (source, target) == (DATE, TIMESTAMP_NTZ)


def is_boolean(type_: Type) -> bool:
    """Whether AND, OR and NOT take it."""
    return type_ in (BOOLEAN, VOID)

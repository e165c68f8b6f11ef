"""Integers wider than 64 bits, a whole array at once.

An array of n wide integers is an int64 array of shape (k, n): the value is the sum of `limbs[i] * 2**(32 * i)`.  In
canonical form all limbs but the last lie in [0, 2**32); the last is signed, so that k limbs hold 32k + 31 bits and a
sign.  Functions take and give canonical form unless they say otherwise.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

MASK = np.int64(0xFFFFFFFF)
_MASK_UNSIGNED = np.uint64(0xFFFFFFFF)
_CHUNK = 9  # decimal digits whose power fits in 30 bits, so that a limb times it fits in int64


def carry(limbs: np.ndarray) -> np.ndarray:
    """Brings `limbs` (any int64 values) to canonical form, in place."""
    for i in range(len(limbs) - 1):
        limbs[i + 1] += limbs[i] >> 32
        limbs[i] &= MASK
    return limbs


def from_int64(values: np.ndarray, count: int) -> np.ndarray:
    """int64 values as `count` >= 2 limbs."""
    limbs = np.empty((count, len(values)), np.int64)
    limbs[0] = values & MASK
    np.right_shift(values, 32, out=limbs[1])
    return extend(limbs, 2)


def from_decimal128(array: pa.Array, count: int) -> np.ndarray:
    """A decimal128 array's unscaled values as `count` >= 4 limbs; anything where it is NULL."""
    limbs = np.empty((count, len(array)), np.int64)
    if len(array):
        words = np.frombuffer(array.buffers()[1], np.uint32).reshape(-1, 4)
        words = words[array.offset : array.offset + len(array)]
        limbs[:3] = words[:, :3].T
        limbs[3] = words[:, 3].view(np.int32)
    return extend(limbs, 4)


def widen(limbs: np.ndarray, count: int) -> np.ndarray:
    """The same values in `count` limbs, or as they are if they have as many."""
    used = len(limbs)
    if used >= count:
        return limbs
    return carry(np.concatenate([limbs, np.zeros((count - used, limbs.shape[1]), np.int64)]))


def extend(limbs: np.ndarray, used: int) -> np.ndarray:
    """Fills the limbs from `used` on with the sign of limb `used - 1`, in place."""
    if used < len(limbs):
        limbs[used:] = limbs[used - 1] >> 63
        limbs[used - 1 : -1] &= MASK
    return limbs


def to_int64(limbs: np.ndarray) -> np.ndarray:
    """The values modulo 2**64."""
    return limbs[0] | limbs[1] << 32


def to_decimal128(limbs: np.ndarray, type_: pa.DataType, valid: np.ndarray | None = None) -> pa.Array:
    """The values as unscaled values of the decimal128 `type_`; NULL where they do not count (`valid` is False)."""
    words = np.zeros((limbs.shape[1], 2), np.int64)
    words[:, 0] = limbs[0] | limbs[1] << 32
    words[:, 1] = limbs[2] | limbs[3] << 32
    return decimals_of_words(words, type_, valid)


def decimals_of_words(words: np.ndarray, type_: pa.DataType, valid: np.ndarray | None = None) -> pa.Array:
    """A decimal128 array from its (low, high) int64 words, shape (n, 2); NULL where not `valid` (of length n or 1)."""
    bits = None if valid is None else pa.py_buffer(np.packbits(np.broadcast_to(valid, len(words)), bitorder="little"))
    return pa.Array.from_buffers(type_, len(words), [bits, pa.py_buffer(words)])


def negative(limbs: np.ndarray) -> np.ndarray:
    """Where the value is below zero."""
    return limbs[-1] < 0


def apply_sign(limbs: np.ndarray, minus: np.ndarray) -> np.ndarray:
    """The value times -1 where `minus`; for the absolute value `minus` is `negative(limbs)`."""
    return carry(np.where(minus, -limbs, limbs)) if minus.any() else limbs


def scale_up(limbs: np.ndarray, digits: int) -> np.ndarray:
    """Times 10**digits, in place; the caller knows that it fits."""
    while digits > 0:
        limbs *= np.int64(10 ** min(digits, _CHUNK))
        carry(limbs)
        digits -= _CHUNK
    return limbs


def divide(magnitude: np.ndarray, divisor: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
    """Quotient and remainder (int64) of values >= 0 by divisors in [1, 2**32]: schoolbook division by one digit."""
    divisor = np.asarray(divisor, np.uint64)
    quotient = np.empty_like(magnitude)
    remainder = np.zeros(magnitude.shape[1], np.uint64)
    for i in range(len(magnitude) - 1, -1, -1):
        part = (remainder << np.uint64(32)) | magnitude[i].astype(np.uint64)
        digit, remainder = np.divmod(part, divisor)
        quotient[i] = digit
    return quotient, remainder.astype(np.int64)


def round_off(limbs: np.ndarray, digits: int) -> np.ndarray:
    """The value divided by 10**digits, rounded HALF_UP (ties away from zero)."""
    if digits <= 0:
        return limbs
    minus = negative(limbs)
    magnitude = apply_sign(limbs, minus)
    cut = digits - 1  # HALF_UP looks at the first digit cut off alone
    while cut > 0:
        magnitude, _ = divide(magnitude, 10 ** min(cut, _CHUNK))
        cut -= _CHUNK
    magnitude, last = divide(magnitude, 10)
    magnitude[0] += last >= 5
    return apply_sign(carry(magnitude), minus)


def beyond(limbs: np.ndarray, bound: int) -> np.ndarray:
    """Where the absolute value is at least `bound` (an int > 0)."""
    magnitude = apply_sign(limbs, negative(limbs))
    last = len(magnitude) - 1
    result = np.ones(magnitude.shape[1], np.bool_)
    for i, limb in enumerate(magnitude):
        digit = np.int64(bound >> 32 * i if i == last else bound >> 32 * i & 0xFFFFFFFF)
        result = (limb > digit) | ((limb == digit) & result)
    return result


def multiply(left: np.ndarray, right: np.ndarray, count: int) -> np.ndarray:
    """The product as `count` limbs; the caller knows that it fits. Shapes (k, n) and (k, n or 1)."""
    minus = negative(left) ^ negative(right)
    left, right = apply_sign(left, negative(left)), apply_sign(right, negative(right))
    product = np.zeros((count + 1, len(minus)), np.uint64)
    for i, a in enumerate(left.astype(np.uint64)):
        for j, b in enumerate(right.astype(np.uint64)):
            if i + j < count:
                part = a * b
                product[i + j] += part & _MASK_UNSIGNED
                product[i + j + 1] += part >> np.uint64(32)
    return apply_sign(carry(product[:count].astype(np.int64)), minus)


def to_double(limbs: np.ndarray, exponent: np.ndarray | int) -> np.ndarray:
    """The double nearest to value * 2**exponent, ties to even.

    Right also for subnormal results if exponent >= -1074 (then they are exact), and infinite beyond the largest double.
    The top limb's magnitude must be below 2**32.
    """
    minus = negative(limbs)
    magnitude = apply_sign(limbs, minus).astype(np.uint64)
    count, length = magnitude.shape
    top = np.zeros(length, np.int64)  # index of the first limb that is not zero
    for i in range(1, count):
        top[magnitude[i] != 0] = i
    rows = np.arange(length)
    padded = np.concatenate([np.zeros((3, length), np.uint64), magnitude])
    digits = [padded[top + 3 - i, rows] for i in range(4)]
    sticky = np.zeros(length, np.bool_)
    for i in range(count - 4):
        sticky |= (magnitude[i] != 0) & (top - 3 > i)
    high = digits[0] << np.uint64(32) | digits[1]
    low = digits[2] << np.uint64(32) | digits[3]
    shift = (32 - np.frexp(digits[0].astype(np.float64))[1]).astype(np.uint64)
    shift[digits[0] == 0] = 0
    head = high << shift | np.where(shift == 0, np.uint64(0), low >> (np.uint64(64) - np.maximum(shift, np.uint64(1))))
    sticky |= (low << shift) != 0
    mantissa, rest = head >> np.uint64(11), head & np.uint64(0x7FF)
    mantissa += (rest > 1024) | ((rest == 1024) & (sticky | (mantissa & np.uint64(1) != 0)))
    with np.errstate(over="ignore"):
        power = exponent + 32 * (top - 1) - shift.astype(np.int64) + 11
        value = np.ldexp(mantissa.astype(np.float64), power)
    return np.where(minus, -value, value)

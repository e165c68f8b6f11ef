"""Protobuf messages as far as HBase's own files need them."""

from __future__ import annotations

from collections.abc import Iterator


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where it ends; raises IndexError where it is not whole."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The numbers of the fields of a message, and their values, numbers or bytes; those of fixed width are passed over.

    Raises ValueError where it is none.
    """
    at = 0
    try:
        while at < len(message):
            tag, at = varint(message, at)
            kind = tag & 7
            if kind == 0:
                value, at = varint(message, at)
                yield tag >> 3, value
            elif kind == 2:
                length, at = varint(message, at)
                if at + length > len(message):
                    break
                yield tag >> 3, message[at : at + length]
                at += length
            elif kind in (1, 5):
                at += 8 if kind == 1 else 4
            else:
                raise ValueError(f"a field of the unknown kind {kind}")
            if at > len(message):
                break
        else:
            return
    except IndexError:
        pass
    raise ValueError("it ends within a field")

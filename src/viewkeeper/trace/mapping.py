"""Files mapped into memory without a descriptor: Python's own `mmap` keeps one open for each map, and a process has
about a thousand."""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from pathlib import Path

import pyarrow as pa

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
)  # fmt: skip
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_FAILED = ctypes.c_void_p(-1).value


class _Mapping:
    """What the buffers of a mapped file hold on to; the memory goes with it."""


def mapped(path: Path) -> pa.Buffer:
    """The bytes of the file `path`; mapped for as long as anything made of them is there.  Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        if not size:
            return pa.py_buffer(b"")
        address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
        if address in (None, _FAILED):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(path))
    finally:
        os.close(descriptor)
    owner = _Mapping()
    weakref.finalize(owner, _libc.munmap, address, size).atexit = False
    return pa.foreign_buffer(address, size, owner)

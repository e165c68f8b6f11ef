"""Spark's messages are of no use to a person who watches: they go to a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def errors_to(file: Path) -> Iterator[None]:
    """What this process, and every process that it starts meanwhile, says on standard error is appended to `file`.

    The file descriptor itself is exchanged: the Java machine writes to it without asking Python, for as long as it
    lives.  If the block fails, what was said is shown after all.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with file.open("ab") as stream:
        os.dup2(stream.fileno(), 2)
    try:
        yield
    except Exception:
        os.write(kept, file.read_bytes())
        raise
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)

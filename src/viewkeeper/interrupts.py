"""Ctrl-C at a moment at which it would leave something half done."""

from __future__ import annotations

import signal
import threading
from importlib import import_module
from typing import Any

_quick: Any = import_module("_signal")
"""What `signal` wraps, without its conversions: these take ten times as long, and a put takes only 50 microseconds."""

_SIGINT = int(signal.SIGINT)
_shield: uninterrupted | None = None


class uninterrupted:  # noqa: N801 - used as a function is
    """`with uninterrupted():` Ctrl-C waits until the block ends, and is raised then; or within, at `let_through`.

    Other threads than the main one are never interrupted.  Costs about a microsecond.
    """

    def __enter__(self) -> None:
        global _shield
        self._came: list[int] = []
        self._before: Any = None
        self._around = _shield
        if threading.get_ident() == threading.main_thread().ident:
            if _quick.getsignal(_SIGINT) is None:
                return  # It is not Python's, and could not be put back.
            self._before = _quick.signal(_SIGINT, self._note)
            _shield = self

    def __exit__(self, *_: object) -> None:
        global _shield
        if self._before is not None:
            _shield = self._around
            _quick.signal(_SIGINT, self._before)
            if self._came:
                signal.raise_signal(signal.SIGINT)

    def _note(self, number: int, _: object) -> None:
        self._came.append(number)

    def raise_now(self) -> None:
        if self._came and callable(self._before):
            self._came.clear()
            self._before(signal.SIGINT, None)


def let_through() -> None:
    """Raises a Ctrl-C that has come within `uninterrupted`: for a wait at which nothing is half done."""
    if _shield is not None and threading.get_ident() == threading.main_thread().ident:
        _shield.raise_now()

"""Ctrl-C, or another signal whose handler raises, at a moment at which it would leave something half done."""

from __future__ import annotations

import signal
from importlib import import_module
from threading import get_ident, main_thread
from typing import Any

_quick: Any = import_module("_signal")
_handler_of, _handle_by = _quick.getsignal, _quick.signal
"""What `signal` wraps, without its conversions: these take ten times as long, and a put takes only 50 microseconds."""

_SHIELDED = tuple(map(int, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)))
"""Those whose handlers may raise: Ctrl-C, a service that is told to end, a timeout by alarm."""

_shield: uninterrupted | None = None


class uninterrupted:  # noqa: N801 - used as a function is
    """`with uninterrupted():` signals that Python code handles wait until the block ends, and are handled then; or
    within, at `let_through`.

    Other threads than the main one are never interrupted.  Costs about two microseconds.
    """

    def __enter__(self) -> None:
        global _shield
        self._came: list[int] = []
        self._before: list[tuple[int, Any]] = []
        self._around = _shield
        if get_ident() != main_thread().ident:
            return
        note = self._note
        try:
            for number in _SHIELDED:
                handler = _handler_of(number)
                if callable(handler):
                    self._before.append((number, handler))
                    _handle_by(number, note)
        except BaseException:  # raised by a handler that was not put aside yet
            self._put_back()
            raise
        _shield = self

    def __exit__(self, *_: object) -> None:
        global _shield
        if self._before:
            _shield = self._around
            self._put_back()
            if self._came:
                self._raise_again(list(dict.fromkeys(self._came)))

    def _raise_again(self, numbers: list[int]) -> None:
        """One that raises keeps no other from its handler: a SIGTERM is not lost behind a timeout."""
        try:
            while numbers:
                signal.raise_signal(numbers.pop(0))
        finally:
            if numbers:
                self._raise_again(numbers)

    def _put_back(self) -> None:
        """Handlers that are there again may raise at once: the others are put back all the same."""
        try:
            while self._before:
                _handle_by(*self._before[-1])
                self._before.pop()
        finally:
            if self._before:
                self._put_back()

    def _note(self, number: int, _: object) -> None:
        self._came.append(number)

    def raise_now(self) -> None:
        handlers = dict(self._before)
        while self._came:
            number = self._came.pop(0)
            handlers[number](number, None)


def let_through() -> None:
    """Handles what has come within `uninterrupted`: for a wait at which nothing is half done."""
    if _shield is not None and get_ident() == main_thread().ident:
        _shield.raise_now()

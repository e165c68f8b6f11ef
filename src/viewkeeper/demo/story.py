"""How a demo is told: what is done, step by step, with how long it took; and what is left when it ends."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from rich.console import Console

from viewkeeper.errors import Error

LOG_WIDTH = 120
"""Columns of the output where there is no terminal."""


class Told(Protocol):
    """What a demo did."""

    @property
    def total_seconds(self) -> float: ...

    @property
    def ok(self) -> bool: ...

    def to_json(self) -> str: ...


T = TypeVar("T", bound=Told)


class Story:
    """One run: the database at `root`, files that go in `temporary`."""

    def __init__(self, console: Console, root: Path, temporary: Path) -> None:
        self.console, self.root, self.temporary = console, root, temporary
        self._begin = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._begin

    @contextmanager
    def step(self, what: str) -> Iterator[Callable[[str], None]]:
        """Shows what is done, then that it is done and how long it took; the block may add a note."""
        notes: list[str] = []
        begin = time.monotonic()
        with self.console.status(f"{what} ..."):
            yield notes.append
        self.said(what, "".join(notes), time.monotonic() - begin)

    def said(self, what: str, note: str, seconds: float) -> None:
        """One line of the story."""
        self.console.print(f"  {what:<36} {note:<26} {seconds:5.1f} s")


def tell(
    play: Callable[[Story], T], show: Callable[[Console, T], None], *, name: str, example: str, folder: Path | None,
    as_json: bool,
) -> bool:  # fmt: skip
    """Plays a demo; whether all was well.

    The database stays in `folder`/`name`, where `example` can be asked; without a folder nothing stays.  With `as_json`
    one line of JSON goes to standard output, and the story to standard error.
    """
    console = Console(stderr=as_json, highlight=False)
    if not console.is_terminal:
        console.width = LOG_WIDTH
    place = _place(folder, name)
    left = _left(place, example)
    try:
        with tempfile.TemporaryDirectory(prefix="viewkeeper-demo-") as temporary:
            done = play(Story(console, place or Path(temporary) / name, Path(temporary)))
    except KeyboardInterrupt:
        console.print(f"\nStopped. {left}", soft_wrap=True)
        raise SystemExit(128 + signal.SIGINT) from None
    if as_json:
        print(done.to_json())
    else:
        show(console, done)
    console.print(f"{done.total_seconds:.0f} s in all. {left}", soft_wrap=True)
    return done.ok


def _place(folder: Path | None, name: str) -> Path | None:
    place = None if folder is None else folder.absolute() / name
    if place is not None and place.exists():
        raise Error(f"{place} is there already; name another folder, or delete it")
    return place


def _left(place: Path | None, example: str) -> str:
    if place is None:
        return "Nothing is left behind; with --db FOLDER the database stays."
    return f"The database stays: viewkeeper sql --db {place} '{example}'"

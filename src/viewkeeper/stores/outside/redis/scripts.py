"""The Lua scripts, as texts, and what the one that writes is given."""

from __future__ import annotations

from pathlib import Path

FORMAT = b"1"
"""That of what `rows.lua` writes."""

WRITTEN_AT_ONCE, ARGUMENTS_AT_ONCE = 1_000, 100_000
"""So many operations are one step of the server's, or what comes first, so many words of them."""


def rows_script() -> str:
    """What writes rows and their log; `viewkeeper script redis` prints it for other programs."""
    return _text("rows.lua")


def block_script() -> str:
    """What reads a block of rows."""
    return _text("block.lua")


def _text(name: str) -> str:
    return (Path(__file__).parent / name).read_text()

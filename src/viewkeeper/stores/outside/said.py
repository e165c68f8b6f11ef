"""Messages of tables in outside stores that say which table they are of, whoever hands them on as text."""

from __future__ import annotations

import re

_SAID = re.compile(r"\(table ([0-9]+) in an outside store\)")
_BEGINNING = re.compile(r"^.*?" + _SAID.pattern + ": ", re.DOTALL)


def said_of(table: int, name: str, message: str) -> str:
    """A message that `told_of` finds the table in."""
    return f"{name} (table {table} in an outside store): {message}"


def told_of(message: str) -> int | None:
    """The id of the table that a message of `said_of` is of."""
    found = _SAID.search(message)
    return None if found is None else int(found.group(1))


def untagged(message: str) -> str:
    """What a message of `said_of` says of its table, for who has named it already; another one as it is."""
    return _BEGINNING.sub("", message, count=1)

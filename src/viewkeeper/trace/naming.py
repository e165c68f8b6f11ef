"""Names of state files: who wrote it, when, and for what, so that garbage can be told from work in progress."""

from __future__ import annotations

import re
import secrets
from typing import NamedTuple


class FileName(NamedTuple):
    """What a state file's name says.

    `version` is the one it was written for, `epoch` its driver's term of office, `kind` "batch", "merge", "fill" or
    "rebase".  `attempt` numbers the driver's batches, merges and fills; no two of an epoch have the same.
    """

    version: int
    epoch: int
    zone: int
    server: int
    attempt: int
    kind: str


_PATTERN = re.compile(r"(\d{12,})-e(\d+)-z(\d+)-s(\d+)-a(\d+)-([a-z]+)-[0-9a-f]{8}\.(?:zone|parquet|arrow)")


def file_name(version: int, epoch: int, zone: int, server: int, attempt: int, kind: str, suffix: str = "zone") -> str:
    """A new name, different at each call: a task that Spark repeats must not write into its first try's file."""
    return f"{version:012d}-e{epoch}-z{zone}-s{server}-a{attempt}-{kind}-{secrets.token_hex(4)}.{suffix}"


def parse_file_name(name: str) -> FileName | None:
    """What `file_name` was given; None if it did not make this name."""
    match = _PATTERN.fullmatch(name)
    if match is None:
        return None
    version, epoch, zone, server, attempt = map(int, match.groups()[:5])
    return FileName(version, epoch, zone, server, attempt, kind=match[6])

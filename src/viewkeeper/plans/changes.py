"""What a statement that changes rows of a table does: relations whose rows say what is to be done."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.catalog.model import Table
from viewkeeper.plans.relations import Relation

NOTHING, UPDATE, DELETE, INSERT = range(4)
"""What is done with a row."""

TARGET_ID = -1
"""The id by which a relation scans the table that is changed: its columns, then its row id where it has no key."""

ANSWER_ID = -2
"""That by which it scans what Spark answers to the first query of a statement; below it are those of further ones."""


@dataclass(frozen=True)
class ChangedRows:
    """The rows of `relation` have, in this order: what is done (INT); `of_table`: which row of the table it is done
    with, by its key or row id; `written`: all columns that the row gets.

    `once`: no row of the table may come twice.  `reads`: where Spark gives the rows, a relation that reads the same of
    the table as its query.
    """

    relation: Relation
    of_table: bool
    written: bool
    once: bool = False
    reads: Relation | None = None


@dataclass(frozen=True)
class BoundChange:
    """A statement that changes rows of `table`, all of `rows` at once."""

    table: Table
    rows: tuple[ChangedRows, ...]

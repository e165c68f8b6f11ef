"""The statements of the SQL interface as plain values, names not yet looked up."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.catalog.types import Type
from viewkeeper.compiler.source import Place, QueryText


@dataclass(frozen=True)
class Identifier:
    """A name as written, and its place in the script."""

    name: str
    place: Place

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Statement:
    """`text` is the statement without its semicolon, `place` its (line, column) in the script."""

    text: str
    place: Place


@dataclass(frozen=True)
class ColumnDeclaration:
    name: Identifier
    type: Type
    nullable: bool


@dataclass(frozen=True)
class CreateTable(Statement):
    name: Identifier
    columns: tuple[ColumnDeclaration, ...]
    key: tuple[Identifier, ...]


@dataclass(frozen=True)
class CreateView(Statement):
    """`columns` is the list of names before AS, empty where there is none."""

    name: Identifier
    columns: tuple[Identifier, ...]
    query: QueryText


@dataclass(frozen=True)
class CreateIndex(Statement):
    name: Identifier
    on: Identifier
    columns: tuple[Identifier, ...]


@dataclass(frozen=True)
class Drop(Statement):
    """`kind` is TABLE, VIEW or INDEX."""

    kind: str
    name: Identifier
    if_exists: bool


@dataclass(frozen=True)
class Show(Statement):
    """`kind` is TABLES or VIEWS."""

    kind: str


@dataclass(frozen=True)
class Describe(Statement):
    name: Identifier


@dataclass(frozen=True)
class ExplainView(Statement):
    """EXPLAIN VIEW name."""

    name: Identifier


@dataclass(frozen=True)
class ExplainCreateView(Statement):
    """EXPLAIN CREATE VIEW ...: the plan that the view would get."""

    view: CreateView


@dataclass(frozen=True)
class Select(Statement):
    query: QueryText

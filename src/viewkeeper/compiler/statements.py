"""The statements of the SQL interface as plain values, names not yet looked up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from viewkeeper.catalog.outside_store import Target
from viewkeeper.catalog.types import Type
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.compiler.written_anew import WrittenAnew
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.plans.expressions import TextPlace
from viewkeeper.plans.references import PartQuery


@dataclass(frozen=True)
class Identifier:
    """A name as written, and its place in the script."""

    name: str
    place: TextPlace

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Statement:
    """`text` is the statement without its semicolon, `place` its (line, column) in the script."""

    text: str
    place: TextPlace


@dataclass(frozen=True)
class ColumnDeclaration:
    """`default` is a SELECT of the constant, without FROM; `declared` is as in `catalog.model.Column`."""

    name: Identifier
    type: Type
    nullable: bool
    default: QueryText | None = None
    comment: str | None = None
    declared: Type | None = None


@dataclass(frozen=True)
class CreateTable(Statement):
    """`using` is the kind of the outside store that the table is in, None: the embedded one; `options` are its OPTIONS,
    names in small letters.  Where its columns are left out, which are then those of the store, `unnamed` is where in
    `text` they would stand."""

    name: Identifier
    columns: tuple[ColumnDeclaration, ...]
    key: tuple[Identifier, ...]
    comment: str | None = None
    using: Identifier | None = None
    options: tuple[tuple[str, str], ...] = ()
    unnamed: int | None = None


def column_names(view: Identifier, given: Sequence[Identifier], outputs: Sequence[str]) -> tuple[str, ...]:
    """The names of a view's columns: those that it is declared with, else those of its query's outputs.

    Raises DeclarationError where they are of another number.
    """
    if given and len(given) != len(outputs):
        raise DeclarationError(f"{view} names {len(given)} columns, and its query has {len(outputs)} outputs",
                               *given[0].place)  # fmt: skip
    return tuple(column.name for column in given) if given else tuple(outputs)


@dataclass(frozen=True)
class CreateView(Statement):
    """`columns` is the list of names before AS, empty where there is none; only a view over a stream may expire.

    `refused` is what in the query viewkeeper's own operators do not know: a view over a stream may be left to Spark.
    `forgets`: FORGET EXPIRED stands behind it.  `target` is what USING and OPTIONS say, and `using` where.
    """

    name: Identifier
    columns: tuple[Identifier, ...]
    query: QueryText
    expire: int | None = None
    refused: NotSupported | None = None
    forgets: bool = False
    target: Target | None = None
    using: Identifier | None = None


@dataclass(frozen=True)
class CreateIndex(Statement):
    name: Identifier
    on: Identifier
    columns: tuple[Identifier, ...]


@dataclass(frozen=True)
class Drop(Statement):
    """`kind` is TABLE, VIEW, INDEX, STREAM or FUNCTION; with `cascade` what uses it goes along."""

    kind: str
    name: Identifier
    if_exists: bool
    cascade: bool = False


@dataclass(frozen=True)
class CreateIfAbsent(Statement):
    """CREATE ... IF NOT EXISTS: `create` is done where nothing is called `name`."""

    name: Identifier
    create: Statement


@dataclass(frozen=True)
class Show(Statement):
    """`kind` is TABLES, VIEWS, STREAMS or FUNCTIONS."""

    kind: str


@dataclass(frozen=True)
class Describe(Statement):
    name: Identifier


@dataclass(frozen=True)
class ExplainView(Statement):
    """EXPLAIN VIEW name; `format` is TEXT, JSON or MERMAID."""

    name: Identifier
    format: str = "TEXT"


@dataclass(frozen=True)
class ExplainCreateView(Statement):
    """EXPLAIN CREATE VIEW ...: the plan that the view would get; `format` as of EXPLAIN VIEW."""

    view: CreateView | CreateViewDF | CreatePatternView | CreateWindowView | CreateMatchView
    format: str = "TEXT"


@dataclass(frozen=True)
class SelectStatement(Statement):
    """`query` is a SELECT; `parts` its text with part references, where it has any."""

    query: QueryText
    parts: PartQuery | None = None


@dataclass(frozen=True)
class ExplainQuery(Statement):
    """EXPLAIN SELECT ...: what the query reads."""

    query: SelectStatement


@dataclass(frozen=True)
class CreateStream(Statement):
    """CREATE STREAM: see `catalog.model.Stream`; lengths are in seconds."""

    name: Identifier
    columns: tuple[ColumnDeclaration, ...]
    time: Identifier
    length: int
    lateness: int
    horizon: int | None
    idle: int | None
    ahead: int
    expire: int | None
    using: Identifier | None = None
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class CreateViewDF(Statement):
    """CREATE VIEW name AS INITIALIZE name[i] AS query UPDATE name[j] AS query PARTITION LENGTH n (paper 003, 4.1).

    `starts` says where in the script the two queries begin.
    """

    name: Identifier
    initialize: PartQuery
    update: PartQuery
    length: int
    backfill: bool
    expire: int | None
    starts: tuple[TextPlace, TextPlace] = ((1, 1), (1, 1))


@dataclass(frozen=True)
class CreatePatternView(Statement):
    """CREATE VIEW name AS SELECT ... FROM s PATTERN [a, b+] WHERE ... GROUP BY ... (paper 003, 5.1).

    `query` is the SELECT without its PATTERN; `variables` are (name, whether it has a +); `limit` is that of LIMIT n
    PARTIAL MATCHES.
    """

    name: Identifier
    columns: tuple[Identifier, ...]
    query: QueryText
    variables: tuple[tuple[Identifier, bool], ...]
    limit: int | None
    expire: int | None


@dataclass(frozen=True)
class CreateWindowView(Statement):
    """CREATE VIEW name AS SELECT ... FROM s [WINDOW 60 MINUTES] GROUP BY ... (paper 003, 5.2); `query` is the SELECT
    without its WINDOW, `window` in seconds; `at` is where WINDOW stands."""

    name: Identifier
    columns: tuple[Identifier, ...]
    query: QueryText
    window: int
    at: TextPlace
    expire: int | None


@dataclass(frozen=True)
class CreateMatchView(Statement):
    """CREATE VIEW name AS SELECT ... FROM s MATCH_RECOGNIZE (...)."""

    name: Identifier
    columns: tuple[Identifier, ...]
    query: QueryText
    expire: int | None


@dataclass(frozen=True)
class AlterView(Statement):
    """ALTER VIEW name [FROM i] AS ...: `view` is the new definition, which holds from part `since` on (None: from the
    next one)."""

    view: CreateView | CreateViewDF | CreatePatternView | CreateWindowView | CreateMatchView
    since: int | None


@dataclass(frozen=True)
class Rename(Statement):
    """ALTER TABLE | VIEW name RENAME TO to; `kind` is TABLE or VIEW."""

    kind: str
    name: Identifier
    to: Identifier


@dataclass(frozen=True)
class AddColumns(Statement):
    """ALTER TABLE table ADD COLUMN[S] [IF NOT EXISTS] ..."""

    table: Identifier
    columns: tuple[ColumnDeclaration, ...]
    if_absent: bool


@dataclass(frozen=True)
class DropColumns(Statement):
    """ALTER TABLE table DROP COLUMN[S] [IF EXISTS] ..."""

    table: Identifier
    columns: tuple[Identifier, ...]
    if_exists: bool


@dataclass(frozen=True)
class RenameColumn(Statement):
    """ALTER TABLE table RENAME COLUMN column TO to."""

    table: Identifier
    column: Identifier
    to: Identifier


@dataclass(frozen=True)
class SetDefault(Statement):
    """ALTER TABLE table ALTER COLUMN column SET DEFAULT default; None: DROP DEFAULT."""

    table: Identifier
    column: Identifier
    default: QueryText | None


@dataclass(frozen=True)
class SetComment(Statement):
    """COMMENT ON TABLE | VIEW name, or COLUMN name.column, IS comment; None: there is none."""

    name: Identifier
    column: Identifier | None
    comment: str | None


@dataclass(frozen=True)
class ReplaceView(Statement):
    """CREATE OR REPLACE VIEW ...: `view` takes the place of what is called so, if anything is."""

    view: CreateView | CreateViewDF | CreatePatternView | CreateWindowView | CreateMatchView


@dataclass(frozen=True)
class RebuildView(Statement):
    """ALTER VIEW name REBUILD FROM i: parts from `since` on are computed anew, with the dimension tables of now."""

    name: Identifier
    since: int


@dataclass(frozen=True)
class Insert(Statement):
    """INSERT INTO table [(columns) | BY NAME] query; without `columns` all are meant, in their order.  In VALUES the
    name `parse_changes.DEFAULT` stands for the column's default.  `refused` is what in the query our own operators do
    not know."""

    table: Identifier
    query: QueryText
    columns: tuple[Identifier, ...]
    by_name: bool
    refused: NotSupported | None = None


@dataclass(frozen=True)
class Update(Statement):
    """UPDATE table SET ... WHERE ...: `query` is a SELECT of the values of the columns `assigned`, from the table as
    `parse_changes.TARGET`.  What is called `parse_changes.DEFAULT` is the column's default.  `anew` is the same for
    Spark."""

    table: Identifier
    query: QueryText
    anew: WrittenAnew
    assigned: tuple[Identifier, ...]


@dataclass(frozen=True)
class Delete(Statement):
    """DELETE FROM table WHERE ...: `query` is a SELECT of something from the rows that go, `anew` that for Spark."""

    table: Identifier
    query: QueryText
    anew: WrittenAnew


@dataclass(frozen=True)
class MergeClause:
    """WHEN ... THEN of MERGE.  `kind` is MATCHED, NOT MATCHED or NOT MATCHED BY SOURCE, `action` UPDATE, DELETE or
    INSERT; `columns` are those that get values, None: all, each from the source's column of its name."""

    kind: str
    conditional: bool
    action: str
    columns: tuple[Identifier, ...] | None
    place: TextPlace


@dataclass(frozen=True)
class MergeRows:
    """The clauses of one kind: `query` is a SELECT, from the rows of that kind, of each clause's condition, if it has
    one, and values; `anew` is the same for Spark."""

    kind: str
    query: QueryText
    anew: WrittenAnew
    clauses: tuple[MergeClause, ...]


@dataclass(frozen=True)
class Merge(Statement):
    """MERGE INTO table USING ... ON ... WHEN ..."""

    table: Identifier
    rows: tuple[MergeRows, ...]


RowStatement = Insert | Update | Delete | Merge
"""The statements that change rows."""

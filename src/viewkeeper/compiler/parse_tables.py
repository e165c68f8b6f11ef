"""CREATE TABLE and ALTER TABLE, token by token."""

from __future__ import annotations

from dataclasses import replace

from sqlglot.tokens import TokenType

from viewkeeper.compiler.parse_changes import ChangeReader
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.compiler.statements import (
    AddColumns,
    ColumnDeclaration,
    CreateTable,
    DropColumns,
    Identifier,
    Rename,
    RenameColumn,
    SetComment,
    SetDefault,
    Statement,
)
from viewkeeper.plans.expressions import TextPlace

T = TokenType

_BEHIND_COLUMNS = ("COMMENT", "USING", "OPTIONS")


class TableReader(ChangeReader):
    """Reads what declares and changes base tables."""

    def _create_table(self) -> CreateTable:
        name = self._new_name("a table")
        if self._peek() == "AS":
            raise self._refusal("CREATE TABLE ... AS is not supported; create the table, then put its rows")
        named, key = self._tokens[self._next - 1], tuple[Identifier, ...]()
        columns, behind = tuple[ColumnDeclaration, ...](), named.end + 1
        if self._peek() not in _BEHIND_COLUMNS:
            behind = self._tokens[min(self._next, len(self._tokens) - 1)].end + 1
            columns, key = self._column_list()
        at = None if columns else behind - self._tokens[0].start
        table = CreateTable(*self._whole(), name, columns, key, unnamed=at)
        while (word := self._peek()) in _BEHIND_COLUMNS:
            self._next += 1
            if word == "COMMENT" and table.comment is None:
                table = replace(table, comment=self._text())
            elif word == "USING" and table.using is None:
                table = replace(table, using=self._identifier("a kind of store"))
            elif word == "OPTIONS" and not table.options:
                table = replace(table, options=self._store_options())
            else:
                raise self._failure(f"{word} stands twice", expected=False)
        if table.options and table.using is None:
            raise self._failure("USING and the kind of store that OPTIONS are for")
        if not columns and table.using is None:
            raise self._source.error("a table needs columns", named.start)
        return self._ended(table, "CREATE TABLE")

    def _column_list(self) -> tuple[tuple[ColumnDeclaration, ...], tuple[Identifier, ...]]:
        """`(column type ..., PRIMARY KEY (column, ...))`: the columns, and which are the key."""
        columns: list[ColumnDeclaration] = []
        key: tuple[Identifier, ...] | None = None
        self._expect("(")
        while True:
            if self._peek() in ("PRIMARY KEY", "CONSTRAINT"):
                if self._take("CONSTRAINT"):
                    self._identifier("a constraint")
                self._begin_key(key)
                key = self._identifiers("a key column")
            else:
                columns.append(self._table_column())
                if self._peek() == "PRIMARY KEY":
                    self._begin_key(key)
                    key = (columns[-1].name,)
                    columns[-1] = self._options(columns[-1])
            if not self._take(","):
                break
        self._expect(")")
        return tuple(columns), key or ()

    def _begin_key(self, key: tuple[Identifier, ...] | None) -> None:
        if key is not None:
            raise self._failure("a table has one PRIMARY KEY", expected=False)
        self._expect("PRIMARY KEY")

    def _table_column(self) -> ColumnDeclaration:
        name = self._identifier("a column")
        type_, declared = self._declared_type()
        return self._options(ColumnDeclaration(name, type_, True, declared=declared))

    def _options(self, column: ColumnDeclaration) -> ColumnDeclaration:
        """What stands behind a column's type, in any order."""
        while self._peek() not in ("", ",", ")", "PRIMARY KEY"):
            if self._take("NOT"):
                self._expect("NULL")
                column = replace(column, nullable=False)
            elif self._peek() == "DEFAULT" and column.default is None:
                self._next += 1
                column = replace(column, default=self._default())
            elif self._peek() == "COMMENT" and column.comment is None:
                self._next += 1
                column = replace(column, comment=self._text())
            else:
                raise self._refusal(f"{self._peek()} is not supported here; a column may have NOT NULL, DEFAULT, "
                                    "COMMENT and PRIMARY KEY, each once")  # fmt: skip
        return column

    def _text(self) -> str:
        """A text in quotes."""
        token = self._tokens[self._next] if self._next < len(self._tokens) else None
        if token is None or token.token_type != T.STRING:
            raise self._failure("a text in quotes")
        self._next += 1
        return token.text

    def _comment(self) -> SetComment:
        self._expect("COMMENT")
        self._expect("ON")
        kind = self._one_of("TABLE", "VIEW", "COLUMN")
        column = None
        if kind == "COLUMN":
            dot = self._next + 1
            if dot < len(self._tokens) and self._tokens[dot].token_type != T.DOT:
                self._next = dot
                raise self._failure(". and the column")
            self._tokens = [*self._tokens[:dot], *self._tokens[dot + 1 :]]  # A name alone has no dot behind it.
            name, column = self._identifier("a table"), self._identifier("a column")
        else:
            name = self._identifier(f"a {kind.lower()}")
        self._expect("IS")
        comment = None if self._take("NULL") else self._text()
        return self._ended(SetComment(*self._whole(), name, column, comment))

    def _default(self) -> QueryText:
        """The constant behind DEFAULT, as the SELECT of it."""
        first, depth = self._next, 0
        while self._next < len(self._tokens) and (depth or not self._ends_default(first)):
            kind = self._tokens[self._next].token_type
            depth += (kind == T.L_PAREN) - (kind == T.R_PAREN)
            self._next += 1
        tokens = self._tokens[first : self._next]
        if not tokens:
            raise self._failure("a constant")
        tree = self._admitted_tree(self._source, [self._unwritten(T.SELECT, "SELECT", tokens[0]), *tokens])
        return QueryText(tree, self._source, tokens[0].start, tokens[-1].end + 1)

    def _ends_default(self, first: int) -> bool:
        word = self._peek()
        if word == "NOT":  # NULL behind it, and no IS before it: the column is NOT NULL
            is_null = self._tokens[self._next + 1 : self._next + 2]
            before = self._tokens[self._next - 1].text.upper() if self._next > first else ""
            return bool(is_null) and is_null[0].token_type == T.NULL and before != "IS"
        return word in (",", ")", "PRIMARY KEY", "DEFAULT", "COMMENT")

    def _alter_table(self, name: Identifier) -> Statement:
        text, place = self._whole()
        if self._take("RENAME"):
            if self._take("TO"):
                return self._ended(Rename(text, place, "TABLE", name, self._identifier("the new name")))
            self._expect("COLUMN")
            column = self._identifier("a column")
            self._expect("TO")
            return self._ended(RenameColumn(text, place, name, column, self._identifier("the new name")))
        if self._take("ADD"):
            return self._add_columns(text, place, name)
        if self._take("DROP"):
            return self._drop_columns(text, place, name)
        if self._take("ALTER"):
            self._take("COLUMN")
            column = self._identifier("a column")
            if self._take("COMMENT"):
                return self._ended(SetComment(text, place, name, column, self._text()))
            if self._take("DROP"):
                self._expect("DEFAULT")
                return self._ended(SetDefault(text, place, name, column, None))
            self._expect("SET")
            self._expect("DEFAULT")
            return self._ended(SetDefault(text, place, name, column, self._default()))
        raise self._refusal(f"ALTER TABLE ... {self._peek()} is not supported; there are ADD, DROP, RENAME and ALTER "
                            "COLUMN, and RENAME TO")  # fmt: skip

    def _add_columns(self, text: str, place: TextPlace, table: Identifier) -> AddColumns:
        if not self._take("COLUMN"):
            self._take("COLUMNS")
        if_absent = self._take("IF")
        if if_absent:
            self._expect("NOT")
            self._expect("EXISTS")
        listed, columns = self._take("("), list[ColumnDeclaration]()
        while not columns or (listed and self._take(",")):
            columns.append(self._table_column())
            if self._peek() == "PRIMARY KEY":
                raise self._refusal("a key is declared with the table; make another table, and INSERT INTO it")
        if listed:
            self._expect(")")
        return self._ended(AddColumns(text, place, table, tuple(columns), if_absent))

    def _drop_columns(self, text: str, place: TextPlace, table: Identifier) -> DropColumns:
        if not self._take("COLUMN"):
            self._expect("COLUMNS")
        if_exists = self._take("IF")
        if if_exists:
            self._expect("EXISTS")
        columns = self._identifiers("a column") if self._peek() == "(" else (self._identifier("a column"),)
        return self._ended(DropColumns(text, place, table, columns, if_exists))

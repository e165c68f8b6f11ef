"""INSERT, UPDATE, DELETE and MERGE to relations that say what is to be done with which row."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from viewkeeper.catalog.model import Catalog, Column, Scannable, Table, kind_of
from viewkeeper.catalog.types import BIGINT, BOOLEAN, INT, VOID
from viewkeeper.compiler import literals
from viewkeeper.compiler.bind_select import SelectBinder, unwrapped
from viewkeeper.compiler.calls import GeneratorCall
from viewkeeper.compiler.column_defaults import python_value
from viewkeeper.compiler.conversion import Refused, can_be_stored, converted
from viewkeeper.compiler.namespace import Beside, Derived
from viewkeeper.compiler.nested_values import refuse_nested
from viewkeeper.compiler.parse_changes import DEFAULT, MATCHED, NOT_MATCHED, TARGET
from viewkeeper.compiler.scope import did_you_mean
from viewkeeper.compiler.source_text import QueryText, offset_of
from viewkeeper.compiler.statements import (
    Delete,
    Identifier,
    Insert,
    Merge,
    MergeClause,
    MergeRows,
    RowStatement,
    Update,
)
from viewkeeper.compiler.written_anew import NULL_VALUE, UNWRITTEN, MadeText, Snippet, WrittenAnew, joined
from viewkeeper.errors import DeclarationError
from viewkeeper.plans.changes import DELETE, INSERT, NOTHING, TARGET_ID, UPDATE, BoundChange, ChangedRows
from viewkeeper.plans.expressions import Case, ColumnRef, Expression, Literal, TextPlace, reference_to
from viewkeeper.plans.relations import Constants, GroupBy, Project, Relation, Scan, UnionAll
from viewkeeper.plans.rewriting import identity
from viewkeeper.plans.subqueries import made_from

ROW_ID = f"{UNWRITTEN}row id"
"""The hidden column of a table without a key that is changed."""

_MORE_GENERATORS = ("json_tuple", "variant_explode", "variant_explode_outer")
"""Those that only Spark knows."""

_ACTIONS = {"UPDATE": UPDATE, "DELETE": DELETE, "INSERT": INSERT}


def bind_change(catalog: Catalog, statement: RowStatement, answers: Sequence[Scan] = ()) -> BoundChange:
    """Looks up and checks a statement that changes rows; `answers` are the rows of its queries, where somebody else
    answers these: the columns of `answered_columns`, then those of the query.

    Raises DeclarationError or NotSupported, with the place.
    """
    table = table_changed(catalog, statement)
    binder = _Binder(catalog, table)
    rows: tuple[ChangedRows, ...]
    if isinstance(statement, Insert):
        rows = (binder.inserted(statement, *answers),)
    elif isinstance(statement, Update):
        rows = (binder.updated(statement, *answers),)
    elif isinstance(statement, Delete):
        rows = (binder.deleted(statement, *answers),)
    else:
        rows = binder.merged(statement, answers or [None] * len(statement.rows))
    for each in rows:
        refuse_nested(made_from(each.relation))
    return BoundChange(table, rows)


def target_columns(table: Table) -> tuple[Column, ...]:
    """The columns of the table that is changed, and, where it has no key, its row id."""
    return table.columns if table.key else (*table.columns, Column(ROW_ID, BIGINT, False))


def table_changed(catalog: Catalog, statement: RowStatement) -> Table:
    """The table whose rows `statement` changes; raises DeclarationError where there is none."""
    name = statement.table
    found = catalog.find(name.name)
    if isinstance(found, Table):
        return found
    if found is None:
        known = did_you_mean(name.name, [table.name for table in catalog.tables])
        raise DeclarationError(f"there is no table {name}" + known, *name.place)
    advice = "rows are appended to streams" if kind_of(found) == "stream" else "change the tables that it reads"
    raise DeclarationError(f"{found.name} is a {kind_of(found)}, whose rows are not changed; {advice}", *name.place)


def defaults_written(catalog: Catalog, statement: Insert) -> MadeText | None:
    """The query of `statement` with constants in place of each DEFAULT in its VALUES; None where there is none."""
    query, tree = statement.query, unwrapped(statement.query.tree)
    if not isinstance(tree, exp.Values):
        return None
    found = list(_Binder(catalog, table_changed(catalog, statement)).defaults_in(statement, tree))
    made, done = list[Snippet](), query.start
    for node, constant in found:
        at = offset_of(node)
        assert at is not None, "the word DEFAULT has a place"
        made += [(query.source.text[done:at], done), (constant, at)]
        done = at + len("DEFAULT")
    return joined(query.source, [*made, (query.source.text[done : query.end], done)]) if found else None


class _Names(Beside):
    """A catalog, beside the table that is changed."""

    def __init__(self, catalog: Catalog, table: Table) -> None:
        super().__init__(catalog)
        columns = target_columns(table)
        self.target = Derived(TARGET_ID, table.name, columns, hidden=len(columns) - len(table.columns))

    def scannable(self, name: str) -> Scannable | None:
        return self.target if name == TARGET else super().scannable(name)


class _Binder:
    """Binds one statement that changes `table`."""

    def __init__(self, catalog: Catalog, table: Table) -> None:
        self._names, self._table, self._zone = _Names(catalog, table), table, catalog.zone
        self._positions = {column.name.lower(): i for i, column in enumerate(table.columns)}

    def inserted(self, statement: Insert, answer: Scan | None = None) -> ChangedRows:
        query, tree = statement.query, unwrapped(statement.query.tree)
        binder, marks = SelectBinder(query, self._names), dict[int, Sequence[bool]]()
        rows: Relation
        if answer is not None:
            rows = _shown(answer)
        elif statement.refused is not None:
            raise statement.refused
        elif isinstance(tree, exp.Values):
            marks = _default_marks(tree)
            rows = binder.values(tree, typed=False)
        else:
            rows = binder.of_view(tree)
        columns = rows.columns if answer is None else answer.columns
        values: dict[int, Expression] = {}
        for at, i in enumerate(self._places(statement, [c.name.removeprefix(NULL_VALUE) for c in columns])):
            values[i] = self._stored(query, i, self._answered(columns[at], at, (1, 1)))
            if at in marks:
                rows, is_default = _beside(rows, marks[at])
                values[i] = _chosen([is_default, None], [self._default(i), values[i]])
        outputs = [self._literal(INSERT), *self._row(values)]
        return ChangedRows(_project(rows, outputs), of_table=False, written=True)

    def _places(self, statement: Insert, names: Sequence[str]) -> list[int]:
        """The columns of the table that the query's outputs, which have these names, are for."""
        if statement.by_name:
            places = [self._position(Identifier(name, statement.place)) for name in names]
        elif statement.columns:
            places = self._positions_of(statement.columns)
        else:
            places = list(range(len(self._table.columns)))
        if len(places) != len(names):
            message = f"{self._table.name} is to get {len(places)} columns, and there are {len(names)} values"
            raise DeclarationError(message, *statement.place)
        return places

    def updated(self, statement: Update, answer: Scan | None = None) -> ChangedRows:
        input_, values = self._selected(statement.query, statement.anew, "SET", answer)
        assigned = self._assigned(statement.query, statement.assigned, values)
        outputs = [self._literal(UPDATE), *self._identity(), *self._row(assigned, self._old())]
        reads = self._reads(statement.anew, answer)
        return ChangedRows(_project(input_, outputs), of_table=True, written=True, reads=reads)

    def deleted(self, statement: Delete, answer: Scan | None = None) -> ChangedRows:
        input_, _ = self._selected(statement.query, statement.anew, "DELETE", answer)
        relation = _project(input_, [self._literal(DELETE), *self._identity()])
        return ChangedRows(relation, of_table=True, written=False, reads=self._reads(statement.anew, answer))

    def merged(self, statement: Merge, answers: Sequence[Scan | None]) -> tuple[ChangedRows, ...]:
        return tuple(map(self._merged, statement.rows, answers))

    def _merged(self, rows: MergeRows, answer: Scan | None) -> ChangedRows:
        of_table = rows.kind != NOT_MATCHED
        input_, given = self._selected(rows.query, rows.anew, "MERGE", answer, of_table)
        stars = sum(clause.columns is None for clause in rows.clauses)
        named = sum(clause.conditional + len(clause.columns or ()) for clause in rows.clauses)
        of_star = (len(given) - named) // stars if stars else 0
        conditions: list[Expression | None] = []
        actions: list[Expression] = []
        written: list[list[Expression]] = []
        for clause in rows.clauses:
            conditions.append(self._condition(rows.query, given.pop(0)[1]) if clause.conditional else None)
            count = of_star if clause.columns is None else len(clause.columns)
            values, given = given[:count], given[count:]
            assigned = self._by_clause(rows.query, clause, values)
            actions.append(self._literal(_ACTIONS[clause.action]))
            written.append(self._row(assigned, self._old() if clause.kind != NOT_MATCHED else None))
        columns = [_chosen(conditions, [row[i] for row in written]) for i in range(len(self._table.columns))]
        outputs = [_chosen(conditions, actions, self._literal(NOTHING)), *(self._identity() if of_table else ())]
        only_delete = [clause.action for clause in rows.clauses] == ["DELETE"] and conditions == [None]
        relation = _project(input_, [*outputs, *columns])
        once = rows.kind == MATCHED and not only_delete
        return ChangedRows(relation, of_table, written=True, once=once, reads=self._reads(rows.anew, answer))

    def _by_clause(
        self, query: QueryText, clause: MergeClause, values: Sequence[tuple[str, Expression]]
    ) -> dict[int, Expression]:  # fmt: skip
        if clause.columns is not None:
            return self._assigned(query, clause.columns, values)
        named = {name.lower(): value for name, value in values}
        found: dict[int, Expression] = {}
        for i, column in enumerate(self._table.columns):
            if column.name.lower() not in named:
                message = f"the source has no column {column.name}, which * needs; name the columns"
                raise DeclarationError(message, *clause.place)
            found[i] = self._stored(query, i, named[column.name.lower()], clause.place)
        return found

    def _selected(
        self, query: QueryText, anew: WrittenAnew, what: str, answer: Scan | None, of_table: bool = True
    ) -> tuple[Relation, list[tuple[str, Expression]]]:
        """The rows that a statement's query reads, and its outputs with their names; in Spark's `answer` these stand
        behind the columns of the table, where the rows are `of_table`."""
        self._refuse_rows_together(query, what)
        if answer is not None:
            first = len(target_columns(self._table)) if of_table else 0
            given = list(enumerate(answer.columns))[first:]
            return _shown(answer), [(c.name.removeprefix(NULL_VALUE), self._answered(c, i)) for i, c in given]
        if anew.refused is not None:
            raise anew.refused
        relation = SelectBinder(query, self._names).query(query.tree).relation
        assert isinstance(relation, Project), "it has neither DISTINCT nor set operations"
        if isinstance(relation.input, GroupBy):
            raise query.error(f"an aggregate cannot stand in {what}; put it into a subquery", query.tree)
        return relation.input, list(zip(relation.names, relation.outputs, strict=True))

    def _refuse_rows_together(self, query: QueryText, what: str) -> None:
        """SQL does not say over which rows these are."""
        for node in query.tree.find_all(exp.Window, GeneratorCall, exp.Anonymous):
            if node.parent_select is not query.tree:
                continue
            if isinstance(node, exp.Anonymous) and node.name.lower() not in _MORE_GENERATORS:
                continue
            what_kind = "window function" if isinstance(node, exp.Window) else "generator"
            message = f"a {what_kind} cannot stand in {what}; put it into a subquery, or the source of a MERGE"
            raise query.error(message, node)

    def _reads(self, anew: WrittenAnew, answer: Scan | None) -> Relation | None:
        """What is read of the table where Spark gives the rows: by its key, where our own operators see that."""
        if answer is None:
            return None
        if anew.rows is not None:
            tree = anew.rows.tree.copy()
            tree.set("expressions", [exp.Null()])
            with contextlib.suppress(DeclarationError):
                return SelectBinder(replace(anew.rows, tree=tree), self._names).query(tree).relation
        return Scan(TARGET_ID, self._table.name, self._names.target.columns)

    def _answered(self, column: Column, i: int, place: TextPlace | None = None) -> Expression:
        """Column `i` of what Spark answers; of one that is NULL in every row it does not say the type."""
        if column.name.startswith(NULL_VALUE):
            return Literal(VOID, True, place, None)
        return reference_to(column, i, place)

    def defaults_in(self, statement: Insert, values: exp.Values) -> Iterator[tuple[exp.Expr, str]]:
        """Each DEFAULT in VALUES, and the constant that it is."""
        places = self._positions_of(statement.columns) if statement.columns else range(len(self._table.columns))
        for row in values.expressions:
            for i, value in zip(places, row.expressions, strict=False):
                if isinstance(value, exp.Column) and value.name == DEFAULT:
                    default = self._default(i)
                    yield value, f"CAST({literals.written(default.type, default.value)} AS {default.type})"

    def _assigned(
        self, query: QueryText, columns: Sequence[Identifier], values: Sequence[tuple[str, Expression]]
    ) -> dict[int, Expression]:  # fmt: skip
        places = self._positions_of(columns)
        return {i: self._default(i) if name == DEFAULT else self._stored(query, i, value, column.place)
                for i, column, (name, value) in zip(places, columns, values, strict=True)}  # fmt: skip

    def _positions_of(self, columns: Sequence[Identifier]) -> list[int]:
        places: list[int] = []
        for name in columns:
            places.append(self._position(name))
            if places.index(places[-1]) < len(places) - 1:
                raise DeclarationError(f"the column {name} stands twice", *name.place)
        return places

    def _position(self, name: Identifier) -> int:
        found = self._positions.get(name.name.lower())
        if found is None:
            known = did_you_mean(name.name, [column.name for column in self._table.columns])
            raise DeclarationError(f"{self._table.name} has no column {name}" + known, *name.place)
        return found

    def _stored(self, query: QueryText, i: int, value: Expression, near: TextPlace | None = None) -> Expression:
        """`value` as one of column `i`: converted as Spark's ANSI store assignment does, which raises where it does not
        fit, and refuses what only CAST does; `near` is what to point at in the source where it has no place."""
        column = self._table.columns[i]
        try:
            if not can_be_stored(value.type, column.type):
                raise Refused(f"{value.type} is not stored as {column.type}; write CAST(... AS {column.type})")
            return converted(value, column.type, self._zone)
        except Refused as refused:
            message = f"the column {column.name} of {self._table.name}: {refused}"
            error = query.error_at(message, value.place)
            place = near if value.place is None and near is not None else (error.line, error.column)
            raise refused.kind(message, *place) from None

    def _condition(self, query: QueryText, condition: Expression) -> Expression:
        if condition.type != BOOLEAN:
            message = f"WHEN needs a condition, not a value of type {condition.type}"
            raise query.error_at(message, condition.place)
        return condition

    def _old(self) -> list[Expression]:
        """The columns of a row as it is: the table stands first in FROM."""
        columns = enumerate(self._table.columns)
        return [reference_to(column, i) for i, column in columns]

    def _identity(self) -> list[Expression]:
        """What tells a row of the table: its key, or its row id."""
        if not self._table.key:
            return [ColumnRef(BIGINT, False, None, len(self._table.columns), "row id")]
        old = self._old()
        return [old[i] for i in self._table.key]

    def _row(self, values: Mapping[int, Expression], old: Sequence[Expression] | None = None) -> list[Expression]:
        """All columns of a row: those of `values`, the others as they are in `old`, or their defaults."""
        return [values[i] if i in values else old[i] if old else self._default(i)
                for i in range(len(self._table.columns))]  # fmt: skip

    def _default(self, i: int) -> Literal:
        column, default = self._table.columns[i], self._table.defaults[i]
        value = None if default is None else python_value(default, column.type)
        return Literal(column.type, value is None, None, value)

    def _literal(self, action: int) -> Expression:
        return Literal(INT, False, None, action)


def _shown(answer: Scan) -> Scan:
    """What Spark answers, with names for people."""
    return replace(answer, columns=tuple(replace(c, name=c.name.replace(UNWRITTEN, "")) for c in answer.columns))


def _default_marks(tree: exp.Values) -> dict[int, Sequence[bool]]:
    """By the number of a column of VALUES in which there is any: which of its rows say DEFAULT, which NULL takes the
    place of."""
    marks: dict[int, list[bool]] = {}
    for at, row in enumerate(tree.expressions):
        for i, value in enumerate(row.expressions):
            if isinstance(value, exp.Column) and value.name == DEFAULT:
                value.replace(exp.Null())
                marks.setdefault(i, [False] * len(tree.expressions))[at] = True
    return dict(marks)


def _beside(rows: Relation, marks: Sequence[bool]) -> tuple[Relation, ColumnRef]:
    """The rows of VALUES with one more column, which says `marks`; and that column."""
    literals = [Literal(BOOLEAN, False, None, mark) for mark in marks]
    name, width = f"mark {len(rows.columns)}", len(rows.columns)
    if isinstance(rows, Constants):
        made = tuple((*row, mark) for row, mark in zip(rows.rows, literals, strict=True))
        marked: Relation = Constants(made, (*rows.columns, Column(name, BOOLEAN, False)))
    else:
        each = [Project(row.input, (*row.outputs, mark), (*row.names, name))
                for row, mark in zip(_single(rows), literals, strict=True)]  # fmt: skip
        marked = each[0] if len(each) == 1 else UnionAll(tuple(each))
    return marked, ColumnRef(BOOLEAN, False, None, width, name)


def _single(rows: Relation) -> list[Project]:
    parts = rows.inputs if isinstance(rows, UnionAll) else (rows,)
    return [part for part in parts if isinstance(part, Project)]


def _chosen(
    conditions: Sequence[Expression | None], values: Sequence[Expression], otherwise: Expression | None = None
) -> Expression:  # fmt: skip
    """The value of the first condition that is TRUE; None is TRUE, and comes last."""
    type_ = values[0].type
    rest = otherwise or Literal(type_, True, None, None)
    branches = []
    for condition, value in zip(conditions, values, strict=True):
        if condition is None:
            rest = value
        else:
            branches.append((condition, value))
    if not branches or all(identity(value) == identity(rest) for _, value in branches):
        return rest
    nullable = rest.nullable or any(value.nullable for _, value in branches)
    return Case(type_, nullable, None, tuple(branches), rest)


def _project(input_: Relation, outputs: Sequence[Expression]) -> Project:
    return Project(input_, tuple(outputs), tuple(f"c{i}" for i in range(len(outputs))))

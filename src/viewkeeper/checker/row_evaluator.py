"""A query's answer, row by row, in plain Python: slow, simple, and sharing nothing with what maintains the views.

It follows the query as it is written: joins, then WHERE, then grouping and output.  A row at which Spark would raise
gives an `ErrorRow` and no row; what is not reached (behind a decided AND, OR, CASE, COALESCE) does not raise; both
sides of every other operator are computed, the left one first.  An error row of a subquery or of a lower view is one of
the query, whatever it is joined with.  The keys of a join are computed once for each row of their own side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Any

from viewkeeper.catalog.types import BOOLEAN
from viewkeeper.checker.aggregates import aggregate
from viewkeeper.checker.casts import cast
from viewkeeper.checker.functions import called
from viewkeeper.checker.functions_of_nested import closed, opened
from viewkeeper.checker.over import in_order, with_windows
from viewkeeper.checker.python_value import python_value
from viewkeeper.checker.tables import Row
from viewkeeper.checker.value_rules import (
    Raised,
    arithmetic,
    canonical,
    compare,
    negate,
)
from viewkeeper.plans.expressions import (
    And,
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    ColumnRef,
    Compare,
    Expression,
    FunctionCall,
    In,
    IsNull,
    Literal,
    Negate,
    Not,
    OnlyRow,
    Or,
    OuterColumn,
    Several,
)
from viewkeeper.plans.outside import PythonCall
from viewkeeper.plans.relations import (
    AggregateCall,
    Constants,
    Explode,
    Filter,
    GroupBy,
    InnerJoin,
    Limit,
    OuterJoin,
    Project,
    Query,
    Relation,
    Repeat,
    Scan,
    SetOperation,
    UnionAll,
    Windows,
    expressions_of,
    inputs_of,
)
from viewkeeper.plans.rewriting import walk
from viewkeeper.plans.subqueries import Exists, InSubquery, ScalarSubquery, Subquery, scans_in, subqueries_in

_TRUE = Literal(BOOLEAN, False, None, True)
TOO_MANY = "SCALAR_SUBQUERY_TOO_MANY_ROWS"


@dataclass(frozen=True)
class ErrorRow:
    """A row, or a group, at which the query raises: Spark's error class, "line:column" in the view's text, the row."""

    code: str
    place: str
    row: str


@dataclass
class Answer:
    """What a query says: its rows (a bag), and where it raises."""

    rows: list[Row]
    errors: list[ErrorRow] = field(default_factory=list)


def evaluate(relation: Relation, inputs: Mapping[int, Answer], zone: str = "UTC") -> Answer:
    """The answer of `relation` over `inputs`: what each table or view that is scanned holds, by its id."""
    return _Evaluator(inputs, zone, ()).whole(relation)


def evaluate_query(query: Query, inputs: Mapping[int, Answer], zone: str = "UTC") -> Answer:
    """The same for a SELECT with ORDER BY and LIMIT; rows that ORDER BY leaves tied come in any order."""
    answer = evaluate(query.relation, inputs, zone)

    def by_order(left: Row, right: Row) -> int:
        return in_order(left, right, query.order)

    rows = sorted(answer.rows, key=cmp_to_key(by_order))
    end = None if query.limit is None else query.offset + query.limit
    return Answer([row[: query.visible] for row in rows[query.offset : end]], answer.errors)


class _Evaluator:
    """`outer` are the values that the query around hands in, where there is one."""

    def __init__(self, inputs: Mapping[int, Answer], zone: str, outer: Row) -> None:
        self._inputs, self._zone, self._outer = inputs, zone, outer
        self._asked: dict[tuple[int, Row], Answer] = {}

    def whole(self, relation: Relation) -> Answer:
        """The answer, with the error rows of the subqueries that were asked, or are handed nothing; and those of the
        views that the others read, asked or not."""
        answer = self.answer(relation)
        below: list[ErrorRow] = []
        for subquery in _subqueries(relation):
            if not subquery.outer:
                self._ask(subquery, (), _group_of_all(subquery)[1])
            below += [error for scan in scans_in(subquery.query) for error in self._inputs[scan.object].errors]
        return Answer(answer.rows, answer.errors + [e for asked in self._asked.values() for e in asked.errors] + below)

    def answer(self, relation: Relation) -> Answer:
        match relation:
            case Scan():
                return self._inputs[relation.object]
            case Filter():
                return self._filter(relation)
            case Project():
                return self._project(relation)
            case InnerJoin():
                return self._join(relation)
            case OuterJoin():
                return self._outer_join(relation)
            case GroupBy():
                return self._aggregate(relation)
            case Constants():
                return Answer([tuple(literal.value for literal in row) for row in relation.rows])
            case UnionAll():
                answers = [self.answer(each) for each in relation.inputs]
                return Answer([r for each in answers for r in each.rows], [e for each in answers for e in each.errors])
            case SetOperation():
                return self._set_operation(relation)
            case Repeat():
                return self._repeat(relation)
            case Explode():
                return self._explode(relation)
            case Limit():
                return self._limit(relation)
            case Windows():
                return self._windows(relation)
        raise TypeError(f"no such relation: {type(relation).__name__}")

    def _filter(self, relation: Filter) -> Answer:
        source = self.answer(relation.input)
        out = Answer([], list(source.errors))
        for row, (keep,) in self._each(source.rows, (relation.predicate,), out):
            if keep is True:
                out.rows.append(row)
        return out

    def _project(self, relation: Project) -> Answer:
        source = self.answer(relation.input)
        out = Answer([], list(source.errors))
        out.rows.extend(values for _, values in self._each(source.rows, relation.outputs, out))
        return out

    def _join(self, relation: InnerJoin) -> Answer:
        left, right = self.answer(relation.left), self.answer(relation.right)
        out = Answer([], left.errors + right.errors)
        partners: dict[Row, list[Row]] = defaultdict(list)
        for row, key in self._each(right.rows, relation.right_keys, out):
            partners[_key(key)].append(row)
        pairs = [left_row + right_row
                 for left_row, key in self._each(left.rows, relation.left_keys, out) if None not in key
                 for right_row in partners.get(_key(key), ())]  # fmt: skip
        if relation.residual is None:
            out.rows = pairs
            return out
        out.rows = [row for row, (keep,) in self._each(pairs, (relation.residual,), out) if keep is True]
        return out

    def _outer_join(self, relation: OuterJoin) -> Answer:
        """Every row of one side tried with every row of the other; a pair at which the condition raises is an error
        row, and no match."""
        left, right = self.answer(relation.left), self.answer(relation.right)
        out = Answer([], left.errors + right.errors)
        rights = [(row, _key(key)) for row, key in self._each(right.rows, relation.right_keys, out)]
        met: set[int] = set()
        pairs: list[Row] = []
        matched: list[Row] = []
        unmatched: list[Row] = []
        for left_row, key in self._each(left.rows, relation.left_keys, out):
            found = False
            for n, (right_row, right_key) in enumerate(rights):
                if None in key or _key(key) != right_key:
                    continue
                for pair, (keep,) in self._each([left_row + right_row], (relation.condition or _TRUE,), out):
                    if keep is True:
                        found = True
                        met.add(n)
                        pairs.append(pair)
            (matched if found else unmatched).append(left_row)
        if relation.kind in ("SEMI", "ANTI"):
            out.rows = matched if relation.kind == "SEMI" else unmatched
            return out
        out.rows = pairs
        if relation.kind in ("LEFT", "FULL"):
            out.rows += [row + (None,) * len(relation.right.columns) for row in unmatched]
        if relation.kind in ("RIGHT", "FULL"):
            alone = [row for n, (row, _) in enumerate(rights) if n not in met]
            out.rows += [(None,) * len(relation.left.columns) + row for row in alone]
        return out

    def _set_operation(self, relation: SetOperation) -> Answer:
        """Takes the rows of the left one by one, and for each an equal one of the right that is still there."""
        left, right = self.answer(relation.left), self.answer(relation.right)
        there = [_key(row) for row in right.rows]
        seen: set[Row] = set()
        out = Answer([], left.errors + right.errors)
        for row in left.rows:
            key = _key(row)
            found = key in there
            if relation.all and found:
                there.remove(key)
            if found == (relation.kind == "INTERSECT") and (relation.all or key not in seen):
                out.rows.append(row)
            seen.add(key)
        return out

    def _repeat(self, relation: Repeat) -> Answer:
        source = self.answer(relation.input)
        out = Answer([], list(source.errors))
        out.rows.extend(row for row, (n,) in self._each(source.rows, (relation.times,), out) for _ in range(n or 0))
        return out

    def _explode(self, relation: Explode) -> Answer:
        source, of = self.answer(relation.input), relation.input.columns[relation.index].type
        out, element = Answer([], list(source.errors)), relation.columns[-1].type
        for row in source.rows:
            held = opened(row[relation.index], of) or []
            entries = [dict(zip(("key", "value"), each, strict=True)) for each in held] if of.name == "MAP" else held
            out.rows.extend((*row, place, closed(each, element)) for place, each in enumerate(entries))
            if relation.outer and not held:
                out.rows.append((*row, None, None))
        return out

    def _limit(self, relation: Limit) -> Answer:
        source = self.answer(relation.input)

        def by_order(left: Row, right: Row) -> int:
            return in_order(left, right, relation.order)

        rows = sorted(source.rows, key=cmp_to_key(by_order))
        end = None if relation.limit is None else relation.offset + relation.limit
        return Answer(rows[relation.offset : end], list(source.errors))

    def _windows(self, relation: Windows) -> Answer:
        source = self.answer(relation.input)
        out = Answer([], list(source.errors))
        for row, values in with_windows(relation, source.rows):
            if isinstance(values, Raised):
                out.errors.append(_error_row(values, row))
            else:
                out.rows.append(row + values)
        return out

    def _aggregate(self, relation: GroupBy) -> Answer:
        source = self.answer(relation.input)
        out = Answer([], list(source.errors))
        wanted = relation.keys + tuple(call.argument for call in relation.calls if call.argument is not None)
        groups: dict[Row, list[Row]] = {} if relation.keys else {(): []}
        for _, values in self._each(source.rows, wanted, out):
            groups.setdefault(_key(values[: len(relation.keys)]), []).append(values[len(relation.keys) :])
        for key, members in groups.items():
            try:
                out.rows.append(key + _aggregates(relation.calls, members))
            except Raised as raised:
                out.errors.append(_error_row(raised, key))
        return out

    def _each(self, rows: Iterable[Row], expressions: Sequence[Expression], out: Answer) -> Iterable[tuple[Row, Row]]:
        """Each row with the values of `expressions` for it; a row at which one raises goes to `out.errors`."""
        for row in rows:
            try:
                values = tuple(self._value(expression, row) for expression in expressions)
            except Raised as raised:
                out.errors.append(_error_row(raised, row))
            else:
                yield row, values

    def _value(self, e: Expression, row: Row) -> Any:
        match e:
            case ColumnRef():
                return row[e.index]
            case Literal():
                return e.value
            case Compare():
                return compare(e.operator, self._value(e.left, row), self._value(e.right, row))
            case IsNull():
                return self._value(e.argument, row) is None
            case Not():
                value = self._value(e.argument, row)
                return None if value is None else not value
            case And():
                return self._connect(e.arguments, row, decided_by=False)
            case Or():
                return self._connect(e.arguments, row, decided_by=True)
            case In():
                return _contains(self._value(e.argument, row), [self._value(option, row) for option in e.options])
            case Case():
                for condition, value in e.branches:
                    if self._value(condition, row) is True:
                        return self._value(value, row)
                return self._value(e.otherwise, row)
            case Coalesce():
                return next((v for v in (self._value(a, row) for a in e.arguments) if v is not None), None)
            case Negate():
                value = self._value(e.argument, row)
                return None if value is None else negate(value, e.type, e.place)
            case Arithmetic():
                left, right = self._value(e.left, row), self._value(e.right, row)
                return None if left is None or right is None else arithmetic(e.operator, left, right, e.type, e.place)
            case FunctionCall():
                values = tuple(self._value(argument, row) for argument in e.arguments)
                return called(values, e, self._zone)
            case PythonCall():
                return python_value(e, [self._value(argument, row) for argument in e.arguments], self._zone)
            case Several():
                values = tuple(self._value(argument, row) for argument in e.arguments)
                return None if None in values else values
            case Cast():
                value = self._value(e.argument, row)
                return cast(value, e.argument.type, e.type, self._zone, e.place, e.tried)
            case OuterColumn():
                return self._outer[e.index]
            case ScalarSubquery():
                rows = self._rows_for(e, row)
                if len(rows) > 1:
                    raise Raised(TOO_MANY, e.place)
                return rows[0][0] if rows else None
            case Exists():
                return bool(self._rows_for(e, row))
            case InSubquery():
                values = tuple(self._value(argument, row) for argument in e.arguments)
                return _any(_all_equal(values, other) for other in self._rows_for(e, row))
            case OnlyRow():
                if (self._value(e.rows, row) or 0) > 1:
                    raise Raised(TOO_MANY, e.place)
                return self._value(e.argument, row)
        raise TypeError(f"no such expression: {type(e).__name__}")

    def _rows_for(self, subquery: Subquery, row: Row) -> list[Row]:
        """The rows of the subquery for `row`.  What is computed of a group of all rows raises at the row that asks."""
        chain, group = _group_of_all(subquery)
        if group is None:
            return self._ask(subquery, row).rows
        answer = self._ask(subquery, row, group)
        if not answer.rows and not _is_handed(group):
            code, place = answer.errors[-1].code, answer.errors[-1].place
            raise Raised(code, tuple(map(int, place.split(":"))) if place else None)  # type: ignore[arg-type]
        found = answer.rows[0] if answer.rows else tuple(None if call.nullable else 0 for call in group.calls)
        inside = _Evaluator(self._inputs, self._zone, tuple(self._value(each, row) for each in subquery.outer))
        for each in reversed(chain):
            if isinstance(each, Project):
                found = tuple(inside._value(output, found) for output in each.outputs)
            elif inside._value(each.predicate, found) is not True:
                return []
        return [found]

    def _ask(self, subquery: Subquery, row: Row, query: Relation | None = None) -> Answer:
        """What the subquery (or `query`, a part of it) says for `row`."""
        values = tuple(self._value(each, row) for each in subquery.outer)
        asked = (id(subquery), _key(values))
        if asked not in self._asked:
            self._asked[asked] = _Evaluator(self._inputs, self._zone, values).whole(query or subquery.query)
        return self._asked[asked]

    def _connect(self, arguments: Sequence[Expression], row: Row, decided_by: bool) -> bool | None:
        unknown = False
        for argument in arguments:
            value = self._value(argument, row)
            if value is decided_by:
                return decided_by
            unknown = unknown or value is None
        return None if unknown else not decided_by


def _subqueries(relation: Relation) -> Iterator[Subquery]:
    """Those in the expressions of `relation` and of all that it is made from."""
    for expression in expressions_of(relation):
        yield from subqueries_in(expression)
    for below in inputs_of(relation):
        yield from _subqueries(below)


def _group_of_all(subquery: Subquery) -> tuple[list[Filter | Project], GroupBy | None]:
    """The group of all rows that the subquery is one row of, with what is computed of it, from the outside in; None
    where it is no such group, or is a list that is the same for all rows."""
    chain: list[Filter | Project] = []
    query = subquery.query
    while isinstance(query, (Filter, Project)):
        chain.append(query)
        query = query.input
    alone = isinstance(query, GroupBy) and not query.keys
    return (chain, query) if alone and (subquery.outer or isinstance(subquery, ScalarSubquery)) else ([], None)  # type: ignore[return-value]


def _is_handed(relation: Relation) -> bool:
    """Whether `relation` uses what the query around hands in."""
    own = (node for expression in expressions_of(relation) for node in walk(expression))
    return any(isinstance(node, OuterColumn) for node in own) or any(map(_is_handed, inputs_of(relation)))


def _contains(value: Any, options: Sequence[Any]) -> bool | None:
    return _any(compare("=", value, option) for option in options)


def _any(tests: Iterable[bool | None]) -> bool | None:
    found = list(tests)
    return True if True in found else None if None in found else False


def _all_equal(left: Row, right: Row) -> bool | None:
    found = [compare("=", a, b) for a, b in zip(left, right, strict=True)]
    return False if False in found else None if None in found else True


def _key(values: Row) -> Row:
    return tuple(canonical(value) for value in values)


def _error_row(raised: Raised, row: Row) -> ErrorRow:
    return ErrorRow(raised.code, place_text(raised.place), ", ".join(map(str, row)))


def place_text(place: tuple[int, int] | None) -> str:
    """How a place in a view's text is written in error rows."""
    return "" if place is None else f"{place[0]}:{place[1]}"


def _aggregates(calls: Sequence[AggregateCall], members: Sequence[Row]) -> Row:
    """One value a call; `members` hold, for each row of the group, the calls' arguments (COUNT(*) has none)."""
    out: list[Any] = []
    position = 0
    for call in calls:
        if call.argument is None:
            out.append(len(members))
            continue
        values = [row[position] for row in members if row[position] is not None]
        position += 1
        out.append(aggregate(call, call.argument, values))
    return tuple(out)

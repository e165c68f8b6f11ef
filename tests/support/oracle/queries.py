"""Hypothesis strategy for view queries: SQL texts of every class the core admits, and nothing it refuses.

Selection; projections that keep the key, that drop it, that compute; COUNT, SUM, MIN, MAX, AVG with and without GROUP
BY and HAVING; DISTINCT; joins of two or three of every kind, by equalities or without any, self joins included;
subqueries in FROM; WITH; set operations; VALUES; subqueries in conditions and as values; and their compositions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from oracle.functions import scalar_calls
from oracle.nested import laterals, nested_values
from oracle.picking import pick
from viewkeeper.catalog.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    INTEGER_BITS,
    STRING,
    TINYINT,
    Type,
    array_of,
    decimal,
)

Columns = tuple[tuple[str, Type], ...]

_LITERALS = {
    "BOOLEAN": ["TRUE", "FALSE"],
    "integer": ["0", "1", "2", "-1"],
    "DECIMAL": ["0.5", "1.00", "2", "-2.0"],
    "float": ["0e0", "5e-1", "2", "1.5"],
    "STRING": ["''", "'a'", "'b'", "'ä'"],
    "DATE": ["DATE '2024-02-29'", "DATE '2000-01-01'"],
    "TIMESTAMP": ["TIMESTAMP '2024-03-31 00:00:00'", "TIMESTAMP '2000-01-01 12:00:00'"],
    "TIMESTAMP_NTZ": ["TIMESTAMP_NTZ '2024-03-31 00:00:00'"],
    "INTERVAL DAY": ["INTERVAL '1' DAY", "INTERVAL '-3' DAY"],
    "INTERVAL DAY TO SECOND": ["INTERVAL '1' DAY", "INTERVAL '1' SECOND"],
    "INTERVAL YEAR TO MONTH": ["INTERVAL '1' YEAR", "INTERVAL '14' MONTH"],
}


@dataclass(frozen=True)
class Source:
    """Something that can stand in FROM (a table, a view), or the columns in scope (names as they are written)."""

    name: str
    columns: Columns


OUTER_JOINS = ("LEFT JOIN", "RIGHT OUTER JOIN", "FULL JOIN", "LEFT SEMI JOIN", "ANTI JOIN")


def _kind(type_: Type) -> str:
    return "integer" if type_.is_integer else "float" if type_.is_float else type_.name


def _comparable(left: Type, right: Type) -> bool:
    """Whether the two have a common type that holds all values of both."""
    if left.is_nested or right.is_nested:
        return False
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return _kind(left) == _kind(right) and whole + max(left.scale, right.scale) <= 38


def _literals(type_: Type) -> list[str]:
    """Literals that a value of this type can be compared with."""
    known = _LITERALS.get(_kind(type_), [])
    return known if _comparable(type_, decimal(2, 2)) or not type_.is_decimal else ["2", "-1"]


@st.composite
def view_queries(
    draw: st.DrawFn, scope: Sequence[Source], depth: int = 2, joins: Sequence[str] = (), plain: bool = False
) -> tuple[str, Columns]:
    """A SELECT over some of `scope`, and its outputs' names and types (of the right kind, if not always width).

    With `joins`, it joins by one of these.  `plain`: a SELECT that joins by equalities; subqueries in FROM only.
    """
    plain = plain or bool(joins)
    match pick(draw, ["select"] * 6 + ["with", "sets"]) if depth and not plain else "select":
        case "with":
            query, columns = draw(view_queries(scope, depth - 1))
            name = f"w{depth}"  # of its own: what stands further in sees this one too
            text, out = draw(view_queries([Source(name, columns), *scope[:1]], depth - 1))
            nested = text.startswith("WITH")
            return f"WITH {name} AS ({query}) {f'SELECT * FROM ({text}) AS y' if nested else text}", out
        case "sets":
            return draw(_sets(scope, depth))
    text, columns = draw(_from_clauses(scope, depth, joins, plain))
    if not plain and pick(draw, [True] + [False] * 7):
        lateral, more = draw(laterals(columns))
        text, columns = f"{text} {lateral}", columns + more
    terms = [draw(_predicates(columns))] if pick(draw, [True, False, False]) else []
    if not plain and pick(draw, [True, False, False]):
        terms.insert(draw(st.integers(0, len(terms))), draw(_subquery_terms(columns, scope)))
    where = " WHERE " + " AND ".join(terms) if terms else ""
    if pick(draw, ["rows", "groups"]) == "groups":
        return draw(_grouped(text + where, columns, plain))
    if " JOIN " not in text and pick(draw, [True, False, False]):
        return f"SELECT * FROM {text}{where}", tuple((name.split(".")[-1], type_) for name, type_ in columns)
    outputs = [draw(_outputs(columns)) for _ in range(draw(st.integers(1, 4)))]
    if not plain and pick(draw, [True, False, False, False]):
        outputs.append(draw(_subquery_values(columns, scope)))
    ordered = tuple(column for column in columns if not column[1].is_nested)
    if ordered and not plain and draw(st.sampled_from([True, True, False, False, False])):
        windows = [draw(_windows(ordered)) for _ in range(draw(st.integers(1, 2)))]
        outputs += windows
        if windows[0][1] == INT and windows[0][0].startswith(("row_number", "rank")):
            where += draw(st.sampled_from(["", f" QUALIFY {windows[0][0]} <= 2"]))
    query, out = _select(outputs, text + where)
    if pick(draw, [True, False, False, False]) and not any(type_.has_map for _, type_ in out):
        query = query.replace("SELECT", "SELECT DISTINCT", 1)
    return query, out


@st.composite
def _sets(draw: st.DrawFn, scope: Sequence[Source], depth: int) -> tuple[str, Columns]:
    """Two queries by a set operation: of the second one the columns that are like those of the first, or NULL."""
    left, columns = draw(view_queries(scope, depth - 1))
    right, others = draw(view_queries(scope, depth - 1))
    chosen = [draw(_alike(others, type_)) for _, type_ in columns]
    operation = pick(draw, ["UNION ALL", "UNION", "INTERSECT", "INTERSECT ALL", "EXCEPT", "MINUS ALL"])
    listed = ", ".join(f"{text} AS {name}" for text, (name, _) in zip(chosen, columns, strict=True))
    return f"({left}) {operation} SELECT {listed} FROM ({right}) AS z", columns


@st.composite
def _inner(draw: st.DrawFn, columns: Columns, scope: Sequence[Source]) -> tuple[str, Columns]:
    """FROM and WHERE of a subquery over one of `scope`, called i, and its columns; mostly tied to the query around."""
    source = pick(draw, list(scope))
    inside = tuple((f"i.{name}", type_) for name, type_ in source.columns)
    pairs = [(a, b) for a, ta in inside for b, tb in columns if _comparable(ta, tb)]
    terms = [" = ".join(pick(draw, pairs))] if pairs and pick(draw, [True, True, False]) else []
    if draw(st.booleans()):
        terms.append(draw(_predicates(inside, 1)))
    return f"{source.name} AS i" + (" WHERE " + " AND ".join(terms) if terms else ""), inside


@st.composite
def _subquery_terms(draw: st.DrawFn, columns: Columns, scope: Sequence[Source]) -> str:
    """A condition with a subquery."""
    text, inside = draw(_inner(columns, scope))
    pairs = [(a, b) for a, ta in columns for b, tb in inside if _comparable(ta, tb)]
    kind = pick(draw, ["EXISTS", "IN", "IN", "compare"])
    negated = pick(draw, ["", "NOT "])
    if kind == "EXISTS" or not pairs:
        more = " AND " if " WHERE " in text else " WHERE "
        if pairs and draw(st.booleans()):
            text += more + pick(draw, [" < ", " <> ", " <=> "]).join(pick(draw, pairs))
        return f"{negated}EXISTS (SELECT * FROM {text})"
    value, other = pick(draw, pairs)
    if kind == "IN":
        term = f"{value} {negated}IN (SELECT {other} FROM {text})"
        return term if draw(st.booleans()) else f"({term} OR {draw(_predicates(columns, 1))})"
    function = pick(draw, ["min", "max"])
    return f"{value} {pick(draw, ['=', '<', '>='])} (SELECT {function}({other}) FROM {text})"


@st.composite
def _subquery_values(draw: st.DrawFn, columns: Columns, scope: Sequence[Source]) -> tuple[str, Type]:
    """A subquery as a value."""
    text, inside = draw(_inner(columns, scope))
    if pick(draw, [True, False, False]):
        name, type_ = pick(draw, inside)
        return f"(SELECT {name} FROM {text})", type_
    call, type_ = draw(_calls(inside))
    return f"(SELECT {call} FROM {text})", type_


@st.composite
def _windows(draw: st.DrawFn, columns: Columns) -> tuple[str, Type]:
    """A window function; its order may leave rows tied."""
    names = [name for name, _ in columns]
    partition = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    terms = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
    order = ", ".join(term + draw(st.sampled_from(["", " DESC", " NULLS LAST"])) for term in terms)
    by = f"PARTITION BY {', '.join(partition)} " if partition else ""
    name, type_ = draw(st.sampled_from(columns))
    kind = draw(st.sampled_from(["rank", "rank", "shift", "value", "aggregate", "aggregate"]))
    if kind == "rank":
        call = draw(st.sampled_from(["row_number()", "row_number()", "rank()", "dense_rank()", "ntile(2)"]))
        return f"{call} OVER ({by}ORDER BY {order})", INT
    nulls = draw(st.sampled_from(["", " IGNORE NULLS"]))
    if kind == "shift":
        call = draw(st.sampled_from(["lag", "lead"]))
        return f"{call}({name}, {draw(st.integers(1, 2))}){nulls} OVER ({by}ORDER BY {order})", type_
    start = draw(st.sampled_from(["UNBOUNDED PRECEDING", "CURRENT ROW", "1 PRECEDING"]))
    end = draw(st.sampled_from(["UNBOUNDED FOLLOWING", "CURRENT ROW", "1 FOLLOWING"]))
    counted = len(terms) == 1 and dict(columns)[terms[0]].is_integer
    unit = "ROWS" if "1" in start + end and not counted else draw(st.sampled_from(["ROWS", "RANGE", "RANGE"]))
    over = f"OVER ({by}ORDER BY {order} {unit} BETWEEN {start} AND {end})"
    if kind == "value":
        call = draw(st.sampled_from([f"first_value({name})", f"last_value({name})", f"nth_value({name}, 2)"]))
        return f"{call}{nulls} {over}", type_
    call, type_ = draw(_calls(columns, further=False).filter(lambda each: "DISTINCT" not in each[0]))
    numbers = [name for name, type_ in columns if type_.is_number]
    if numbers and draw(st.sampled_from([True, False, False, False])):
        call, type_ = f"{draw(st.sampled_from(['stddev', 'var_pop']))}({draw(st.sampled_from(numbers))})", DOUBLE
    return f"{call} {draw(st.sampled_from([over, f'OVER ({by})']))}".replace(" )", ")"), type_


def _select(outputs: Sequence[tuple[str, Type]], rest: str) -> tuple[str, Columns]:
    listed = ", ".join(f"{text} AS o{i}" for i, (text, _) in enumerate(outputs))
    return f"SELECT {listed} FROM {rest}", tuple((f"o{i}", type_) for i, (_, type_) in enumerate(outputs))


@st.composite
def _from_clauses(
    draw: st.DrawFn, scope: Sequence[Source], depth: int, joins: Sequence[str], plain: bool
) -> tuple[str, Columns]:
    """The text behind FROM, and the columns in scope as they are to be written."""
    text, columns = draw(_from_items(scope, depth, "a0", plain))
    for i in range(1, pick(draw, [2, 2, 3] if joins else [1, 1, 1, 2, 2, 3])):
        item, more = draw(_from_items(scope, depth, f"a{i}", plain))
        pairs = [(a, b) for a, ta in columns for b, tb in more if _comparable(ta, tb)]
        if not pairs:
            break
        left, right = pick(draw, pairs)
        if not plain and i == 1 and pick(draw, [True, False, False, False, False]):
            columns += more
            text += f" CROSS JOIN {item}"
            continue
        if not plain and dict(columns)[left].is_number and pick(draw, [True] + [False] * 7):
            left = f"- {left}"
        operator = "=" if plain else pick(draw, ["="] * 6 + ["<=>", "<"])
        condition = f"{left} {operator} {right}" if draw(st.booleans()) else f"{right} {operator} {left}"
        if pick(draw, [True, False, False]):
            condition += f" AND {draw(_predicates(columns + more))}"
        join = pick(draw, joins or ["JOIN", "JOIN", "JOIN", *OUTER_JOINS])
        columns += () if join in ("LEFT SEMI JOIN", "ANTI JOIN") else more
        text += f" {join} {item} ON {condition}"
    return text, columns


@st.composite
def _from_items(draw: st.DrawFn, scope: Sequence[Source], depth: int, alias: str, plain: bool) -> tuple[str, Columns]:
    if depth and pick(draw, [True, False, False, False]):
        query, columns = draw(view_queries(scope, depth - 1, plain=plain))
        text = f"({query}) AS {alias}"
    elif not plain and pick(draw, [True] + [False] * 9):
        return f"(VALUES (1, 'a'), (2, NULL), (1, 'a')) AS {alias}(n, s)", ((f"{alias}.n", INT), (f"{alias}.s", STRING))
    else:
        source = pick(draw, list(scope))
        text, columns = f"{source.name} AS {alias}", source.columns
    return text, tuple((f"{alias}.{name}", type_) for name, type_ in columns)


@st.composite
def _grouped(draw: st.DrawFn, rest: str, columns: Columns, plain: bool) -> tuple[str, Columns]:
    told = [column for column in columns if not column[1].has_map]
    keys = draw(st.lists(st.sampled_from(told), max_size=2, unique_by=lambda column: column[0])) if told else []
    if keys and keys[0][1].is_integer and pick(draw, [True, False, False, False]):
        keys[0] = (f"{keys[0][0]} * 2", keys[0][1])
    calls = draw(st.lists(_calls(columns), min_size=0 if keys else 1, max_size=3))
    shown = keys + calls if pick(draw, [True, True, True, False]) else calls or keys
    listed, keys_alone = ", ".join(key for key, _ in keys), keys
    if keys and not plain and pick(draw, [True, False, False, False]):
        last, first = keys[-1][0], keys[0][0]
        sets = [f"ROLLUP ({listed})", f"CUBE ({listed})", f"GROUPING SETS (({listed}), {last})",
                f"{listed}, ROLLUP ({first})"]  # fmt: skip
        marks = [("grouping_id()", BIGINT), (f"grouping({first})", TINYINT)]
        shown = [*shown, *marks[: pick(draw, [0, 1, 2])]]
        listed, keys_alone = pick(draw, sets), []
    text, out = _select(draw(st.permutations(shown)), rest)
    if keys:
        text += f" GROUP BY {listed}"
    if pick(draw, [True, False, False]):
        text += f" HAVING {draw(_having(keys_alone, columns))}"
    return text, out


@st.composite
def _having(draw: st.DrawFn, keys: Sequence[tuple[str, Type]], columns: Columns) -> str:
    call, type_ = draw(_calls(columns))
    if not _literals(type_):
        call, type_ = "count(*)", BIGINT
    terms = [f"{call} {pick(draw, ['>', '<=', '<>'])} {pick(draw, _literals(type_))}"]
    if keys and draw(st.booleans()):
        terms.append(f"{pick(draw, keys)[0]} IS NOT NULL")
    return pick(draw, [" AND ", " OR "]).join(terms)


@st.composite
def _calls(draw: st.DrawFn, columns: Columns, further: bool = True) -> tuple[str, Type]:
    function = pick(draw, ["count(*)", "count", "sum", "sum", "avg", "min", "max", *["further"] * further])
    if function == "further":
        return draw(_further_calls(columns))
    numbers = [column for column in columns if column[1].is_number]
    if function == "count(*)" or (function in ("sum", "avg") and not numbers):
        return "count(*)", BIGINT
    distinct = pick(draw, ["", "", "", "DISTINCT "])
    if function in ("sum", "avg"):
        argument, type_ = draw(_numbers(tuple(numbers)))
        return f"{function}({distinct}{argument})", _sum_type(type_) if function == "sum" else _average_type(type_)
    argument, type_ = draw(_outputs(columns))
    if type_.is_nested:
        return f"count({'' if type_.has_map else distinct}{argument})", BIGINT
    return f"{function}({distinct}{argument})", BIGINT if function == "count" else type_


@st.composite
def _calls_of_all_values(draw: st.DrawFn, columns: Columns) -> tuple[str, Type]:
    """An aggregate that is computed by key."""
    numbers = [name for name, type_ in columns if type_.is_number]
    integers = [column for column in columns if column[1].is_integer]
    exact = [column for column in columns if not (column[1].is_float or column[1].is_nested)]
    function = pick(draw, ["median", "percentile", "mode", "bits", "list", "list", "joined", "by", "by"])
    plain = [column for column in columns if not column[1].is_nested]
    held = [column for column in plain if not column[1].is_interval]  # those are Spark's within structs
    if function == "by" and held:
        name, type_ = pick(draw, held)
        where = f" FILTER (WHERE {pick(draw, columns)[0]} IS NOT NULL)" if draw(st.booleans()) else ""
        return f"{pick(draw, ['min', 'max'])}_by({name}, {pick(draw, held)[0]}){where}", type_
    if function == "list" and plain:
        name, type_ = pick(draw, plain)
        listing = pick(draw, ["collect_list(", "collect_list(DISTINCT ", "collect_set("])
        order = pick(draw, ["", ", false"])
        return f"sort_array({listing}{name}){order})", array_of(type_)
    texts = [name for name, type_ in columns if type_ == STRING]
    if function == "joined" and texts:
        name = pick(draw, texts)
        return f"listagg({name}, ', ') WITHIN GROUP (ORDER BY {name}{pick(draw, ['', ' DESC'])})", STRING
    if function == "bits" and integers:
        name, type_ = pick(draw, integers)
        return f"bit_{pick(draw, ['and', 'or', 'xor'])}({name})", type_
    if function == "mode" and exact:
        name, type_ = pick(draw, exact)
        return f"mode({name}, true)", type_
    if not numbers:
        return "count(*)", BIGINT
    if function == "median":
        return f"median({pick(draw, ['', 'DISTINCT '])}{pick(draw, numbers)})", DOUBLE
    return f"percentile({pick(draw, numbers)}, {pick(draw, ['0', '0.25', '0.9'])})", DOUBLE


@st.composite
def _further_calls(draw: st.DrawFn, columns: Columns) -> tuple[str, Type]:
    """An aggregate beside COUNT, SUM, AVG, MIN and MAX."""
    one, two = pick(draw, columns)[0], pick(draw, columns)[0]
    numbers = [column for column in columns if column[1].is_number]
    made = ["count_if", "every", "some", "count", "try_sum", "mean", "regr_avgx"]
    function = pick(draw, [*made, "values", "values", "moments"])
    if function == "values" or (function == "moments" and not numbers):
        return draw(_calls_of_all_values(columns))
    if function == "moments":
        x, y = pick(draw, numbers)[0], pick(draw, numbers)[0]
        call = pick(draw, ["stddev(", "var_pop(DISTINCT ", f"corr({y}, ", f"regr_slope({y}, ", f"covar_samp({y}, "])
        return f"{call}{x})", DOUBLE
    if function in ("try_sum", "mean", "regr_avgx") and numbers:
        argument, type_ = draw(_numbers(tuple(numbers)))
        if function == "regr_avgx":
            return f"regr_avgx({pick(draw, numbers)[0]}, {argument})", _average_type(type_)
        return f"{function}({argument})", _sum_type(type_) if function == "try_sum" else _average_type(type_)
    if function in ("every", "some", "count_if"):
        distinct = pick(draw, ["", "", "DISTINCT "])
        type_ = BIGINT if function == "count_if" else BOOLEAN
        return f"{function}({distinct}{draw(_predicates(columns, 1))})", type_
    return f"count({one}, {two})", BIGINT


def _sum_type(type_: Type) -> Type:
    if type_.is_decimal:
        return decimal(min(type_.precision + 10, 38), type_.scale)
    return BIGINT if type_.is_integer else DOUBLE


def _average_type(type_: Type) -> Type:
    return decimal(min(type_.precision + 4, 38), min(type_.scale + 4, 38)) if type_.is_decimal else DOUBLE


@st.composite
def _outputs(draw: st.DrawFn, columns: Columns) -> tuple[str, Type]:
    """A column, most of the time; else something computed."""
    name, type_ = pick(draw, columns)
    match pick(draw, ["column"] * 3 + ["number"] * 2 + ["function"] * 2 + ["case", "coalesce", "nested"]):
        case "nested":
            return draw(nested_values(columns))
        case "function":
            return draw(scalar_calls(columns)) or (name, type_)
        case "number" if type_.is_number:
            return draw(_numbers(columns))
        case "case":
            other = draw(_alike(columns, type_))
            return f"CASE WHEN {draw(_predicates(columns, 1))} THEN {name} ELSE {other} END", type_
        case "coalesce":
            return f"COALESCE({name}, {draw(_alike(columns, type_))})", type_
    return name, type_


@st.composite
def _alike(draw: st.DrawFn, columns: Columns, type_: Type) -> str:
    """A column of exactly this type, or NULL."""
    return pick(draw, [name for name, other in columns if other == type_] + ["NULL"])


@st.composite
def _numbers(draw: st.DrawFn, columns: Columns) -> tuple[str, Type]:
    """A number: a column, or + - * and unary minus over columns and literals of one kind."""
    numbers = [column for column in columns if column[1].is_number]
    name, type_ = pick(draw, numbers)
    literal = pick(draw, ["1", "2", "3"])
    alike = [column for column in numbers if _kind(column[1]) == _kind(type_)]
    match pick(draw, ["column", "column", "minus", "literal", "columns"]):
        case "minus":
            return f"(-{name})", type_
        case "literal":
            operator = pick(draw, "+-*")
            return f"({name} {operator} {literal})", _wider(operator, type_, decimal(1, 0))
        case "columns":
            other, other_type = pick(draw, alike)
            operator = pick(draw, "+-*")
            return f"({name} {operator} {other})", _wider(operator, type_, other_type)
    return name, type_


def _wider(operator: str, left: Type, right: Type) -> Type:
    """The result's type, as far as the rest of the query depends on it."""
    if left.is_decimal:
        scale = left.scale + right.scale if operator == "*" else max(left.scale, right.scale)
        whole = max(left.precision - left.scale, right.precision - right.scale) + 1
        precision = left.precision + right.precision + 1 if operator == "*" else whole + scale
        return decimal(min(precision, 38), scale if precision <= 38 else max(38 - precision + scale, min(scale, 6)))
    if left.is_integer:
        return max(left, right, key=lambda type_: INTEGER_BITS.get(type_.name, 32))
    return DOUBLE


@st.composite
def _predicates(draw: st.DrawFn, columns: Columns, depth: int = 2) -> str:
    connect = pick(draw, ["plain", "plain", "plain", "OR", "AND", "NOT", "shared"]) if depth else "plain"
    if connect == "shared":
        shared, *rest = (draw(_predicates(columns, depth - 1)) for _ in range(3))
        return f"(({shared} AND {rest[0]}) OR ({rest[1]} AND {shared}))"
    if connect == "NOT":
        return f"NOT ({draw(_predicates(columns, depth - 1))})"
    if connect in ("AND", "OR"):
        return f"({draw(_predicates(columns, depth - 1))} {connect} {draw(_predicates(columns, depth - 1))})"
    name, type_ = pick(draw, columns)
    others = [other for other, other_type in columns if _comparable(other_type, type_)]
    literals = _literals(type_)
    match pick(draw, ["compare", "compare", "compare", "columns", "null", "in", "between", "bare"]):
        case "bare" if type_.name == "BOOLEAN":
            return name
        case "compare" if literals:
            operator = pick(draw, ["<=", ">=", "<>", "=", "<", ">", "<=>"])
            literal = pick(draw, literals)
            if type_.is_integer and draw(st.booleans()):
                literal = f"({literal} + {pick(draw, literals)})"  # a constant, which may raise
            return f"{name} {operator} {literal}"
        case "in" if literals:
            options = draw(st.lists(st.sampled_from([*literals, "NULL"]), min_size=1, max_size=3))
            return f"{name} {pick(draw, ['', 'NOT '])}IN ({', '.join(options)})"
        case "between" if literals:
            return f"{name} BETWEEN {pick(draw, literals)} AND {pick(draw, literals)}"
        case "columns" if others:
            operator = pick(draw, ["<=", "<>", "=", ">", "<=>"])
            return f"{name} {operator} {pick(draw, others)}"
    return f"{name} IS {pick(draw, ['NOT ', 'NOT ', ''])}NULL"

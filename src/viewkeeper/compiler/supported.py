"""What is admitted in a query, as one list; all else is refused by name, place and what to do instead.

sqlglot accepts far more than is kept incrementally, and keeps most of it as optional parts of its nodes.  So every
node and every part that is set must be listed here before the binder looks at a query at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches

from sqlglot import exp

from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    MAX_PRECISION,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Type,
    array_of,
    decimal,
    map_of,
    struct_of,
)  # fmt: skip
from viewkeeper.compiler.calls import OPERATORS, SCALARS, ScalarCall, has_unit
from viewkeeper.compiler.source_text import QueryText, raw_text, written_name
from viewkeeper.errors import DeclarationError, NotSupported

ADMITTED: dict[type[exp.Expr], frozenset[str]] = {
    kind: frozenset(parts.split())
    for kind, parts in {
        exp.Select: "expressions from_ joins where group having order limit offset",
        exp.From: "this", exp.Join: "this on kind", exp.Where: "this", exp.Having: "this", exp.Group: "expressions",
        exp.Order: "expressions", exp.Ordered: "this desc nulls_first", exp.Limit: "expression",
        exp.Offset: "expression", exp.Subquery: "this alias", exp.Table: "this alias",
        exp.TableAlias: "this columns", exp.Alias: "this alias", exp.Column: "this table",
        exp.Identifier: "this quoted", exp.Star: "", exp.Paren: "this", exp.Literal: "this is_string",
        exp.HexString: "this", exp.RawString: "this", exp.Null: "", exp.Boolean: "this", exp.Neg: "this",
        exp.Not: "this", exp.And: "this expression", exp.Or: "this expression", exp.EQ: "this expression",
        exp.NEQ: "this expression", exp.LT: "this expression", exp.LTE: "this expression",
        exp.GT: "this expression", exp.GTE: "this expression", exp.NullSafeEQ: "this expression",
        exp.Is: "this expression", exp.In: "this expressions", exp.Between: "this low high",
        exp.Case: "this ifs default", exp.If: "this true", exp.Coalesce: "this expressions",
        exp.Add: "this expression", exp.Sub: "this expression", exp.Mul: "this expression",
        exp.Div: "this expression typed safe", exp.Mod: "this expression",
        exp.Count: "this big_int", exp.Sum: "this", exp.Avg: "this", exp.Min: "this", exp.Max: "this",
        exp.Cast: "this to", exp.TryCast: "this to safe", exp.DataType: "this expressions", exp.DataTypeParam: "this",
        exp.Concat: "expressions safe coalesce", ScalarCall: "this expressions", exp.Escape: "this expression",
        exp.Interval: "this unit", exp.Var: "this", exp.Placeholder: "this",
    }.items()
} | dict.fromkeys(OPERATORS, frozenset(("this", "expression", "safe", "negate")))  # fmt: skip

FUNCTIONS: dict[type[exp.Expr], str] = {exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min",
                                        exp.Max: "max", exp.Coalesce: "coalesce"}  # fmt: skip

TYPED_LITERALS = {"DATE": "DATE", "TIMESTAMP": "TIMESTAMP", "TIMESTAMPTZ": "TIMESTAMP", "TIMESTAMPLTZ": "TIMESTAMP",
                  "TIMESTAMPNTZ": "TIMESTAMP_NTZ"}  # fmt: skip
"""sqlglot's names of the types of DATE '...' and its kin, and Spark's."""

NOT_DETERMINISTIC = frozenset(
    (
        "rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "now", "current_timestamp", "current_date",
        "current_time", "curdate", "localtimestamp", "unix_timestamp", "monotonically_increasing_id", "version",
        "spark_partition_id", "input_file_name", "current_user", "user", "session_user", "current_timezone",
        "current_database", "current_schema", "current_catalog",
    )
)  # fmt: skip

_GROUPINGS = "{0} is not supported like this; write GROUP BY {0} (...)"
RESERVED = frozenset(
    (
        "ALL", "AND", "AS", "BETWEEN", "BY", "CASE", "CROSS", "DISTINCT", "ELSE", "EXCEPT", "FROM", "FULL", "GROUP",
        "HAVING", "IN", "INNER", "INTERSECT", "IS", "JOIN", "LEFT", "LIMIT", "NATURAL", "NOT", "NULL", "OFFSET", "ON",
        "OR", "ORDER", "OUTER", "RIGHT", "SELECT", "THEN", "UNION", "USING", "WHEN", "WHERE", "WITH",
    )
)  # fmt: skip
"""Words that Spark takes as names in some places, and sqlglot in others: as names they must stand in backticks."""

_DISTINCT = "DISTINCT in an aggregate is not supported yet; group a subquery in FROM by it first"
_JOIN = "only inner joins are kept so far"
_PARTS: dict[tuple[type[exp.Expr], str], str] = {
    (exp.Select, "distinct"): "SELECT DISTINCT is not supported yet; GROUP BY the same columns instead",
    (exp.Distinct, "expressions"): _DISTINCT,
    (exp.Distinct, "on"): "DISTINCT ON is not SQL here; GROUP BY the columns, with MIN or MAX of the others",
    (exp.Select, "with_"): "WITH is not supported here; write it as a subquery in FROM, or as a view of its own",
    (exp.Select, "hint"): "a hint has no meaning here; leave it out",
    (exp.Select, "laterals"): "LATERAL VIEW is not supported yet",
    (exp.Select, "windows"): "window functions are not supported yet",
    (exp.Select, "qualify"): "QUALIFY is not supported yet",
    (exp.Select, "sort"): "SORT BY has no meaning here; use ORDER BY in the query that reads",
    (exp.Select, "cluster"): "CLUSTER BY has no meaning here; leave it out",
    (exp.Select, "distribute"): "DISTRIBUTE BY has no meaning here; leave it out",
    (exp.Join, "using"): "JOIN ... USING is not supported yet; write ON a.x = b.x",
    (exp.Join, "method"): "NATURAL JOIN is not supported yet; write INNER JOIN ... ON",
    (exp.Join, "side"): f"an outer, semi or anti join is not supported yet; {_JOIN}",
    (exp.Group, "all"): "GROUP BY ALL is not supported yet; name the columns",
    (exp.Group, "rollup"): _GROUPINGS.format("ROLLUP"),
    (exp.Group, "cube"): _GROUPINGS.format("CUBE"),
    (exp.Group, "grouping_sets"): _GROUPINGS.format("GROUPING SETS"),
    (exp.Table, "db"): "a name has one part only; leave out what stands before the dot",
    (exp.Table, "sample"): "TABLESAMPLE is not deterministic: no view can be kept by it",
    (exp.Subquery, "sample"): "TABLESAMPLE is not deterministic: no view can be kept by it",
    (exp.Table, "pivots"): "PIVOT is not supported yet; write one CASE for each column",
    (exp.Subquery, "pivots"): "PIVOT is not supported yet; write one CASE for each column",
    (exp.Table, "version"): "reading a table at an older version is not supported; use db.snapshot()",
    (exp.Table, "joins"): "a join in parentheses is not supported yet; leave out the parentheses",
    (exp.Star, "except_"): "* EXCEPT is not supported yet; name the columns",
    (exp.In, "query"): "a subquery is admitted in FROM only; write a join",
    (exp.Column, "db"): "fields of structs are not supported yet, and a column's name has at most two parts",
    (exp.Count, "expressions"): "COUNT of several arguments is not supported yet",
    (exp.Max, "expressions"): "MAX takes one argument",
    (exp.Min, "expressions"): "MIN takes one argument",
    (exp.Between, "symmetric"): "BETWEEN SYMMETRIC is not supported; write both comparisons",
    (exp.In, "field"): "IN needs a list of values in parentheses",
    (exp.Union, "by_name"): "Spark SQL has no UNION BY NAME; put the columns of both sides into one order",
    (exp.With, "recursive"): "WITH RECURSIVE is not supported: it cannot be kept by what changes",
    (exp.Select, "locks"): "FOR UPDATE has no meaning here; leave it out",
}  # fmt: skip

_NODES: dict[type[exp.Expr], str] = {
    exp.SetOperation: "UNION, INTERSECT and EXCEPT are not supported yet",
    exp.GroupingSets: _GROUPINGS.format("GROUPING SETS"),
    exp.Rollup: _GROUPINGS.format("ROLLUP"),
    exp.Cube: _GROUPINGS.format("CUBE"),
    exp.Values: "VALUES in FROM is not supported; put the rows into a table",
    exp.Lateral: "LATERAL is not supported yet",
    exp.Window: "window functions are not supported yet",
    exp.Filter: "FILTER (WHERE ...) is not supported yet; put a CASE into the aggregate",
    exp.Distinct: _DISTINCT,
    exp.Exists: "a subquery is admitted in FROM only; write a join",
    exp.Any: "ANY is not supported; use IN",
    exp.All: "ALL is not supported",
    exp.NullSafeNEQ: "IS DISTINCT FROM is not supported; write NOT (a <=> b)",
    exp.Bracket: "arrays and maps are not supported yet",
    exp.Array: "arrays are not supported yet",
    exp.Map: "maps are not supported yet",
    exp.Struct: "structs are not supported yet",
    exp.Dot: "fields of structs are not supported yet",
    exp.Tuple: "rows of several values are not supported yet; compare each value",
    exp.Lambda: "lambda functions are not supported yet",
    exp.Parameter: "a parameter is written :name",
    exp.Aliases: "several names for one column are not supported",
    exp.Fetch: "FETCH is not supported; use LIMIT in the query that reads",
}  # fmt: skip


Check = Callable[[QueryText, exp.Expr], None]


def refuse_unsupported(
    query: QueryText, more: Mapping[type[exp.Expr], frozenset[str]] | None = None,
    checks: Mapping[type[exp.Expr], Check] | None = None,
) -> None:  # fmt: skip
    """Raises NotSupported at the first node or part of the query that is not admitted; `more` is admitted besides, and
    checked by `checks`."""
    more, checks = more or {}, checks or {}
    root = query.tree.unnest() if isinstance(query.tree, exp.Subquery) else query.tree
    if not isinstance(root, (exp.Select, exp.SetOperation, exp.Values)):
        raise query.error("this is not SQL: a query begins with SELECT", query.tree)
    for node in query.tree.dfs(prune=lambda each: isinstance(each, exp.Hint) and exp.Hint in more):
        kind = type(node)
        admitted = more[kind] if kind in more else ADMITTED.get(kind)
        if admitted is None:
            raise query.error(_reason(query, node), node, NotSupported)
        for name, value in node.args.items():
            if name not in admitted and value:
                raise query.error(_PARTS.get((kind, name)) or _part(kind, name), _first(value, node), NotSupported)
        check = checks.get(kind) or _CHECKS.get(kind)
        if check is not None:
            check(query, node)


def _reason(query: QueryText, node: exp.Expr) -> str:
    for kind, reason in _NODES.items():
        if isinstance(node, kind):
            return reason
    if isinstance(node, exp.Func):
        written = node.name if isinstance(node, exp.Anonymous) else written_name(query, node) or node.sql_name()
        return function_refused(written)
    return f"{node.key.upper()} is not supported here"


def function_refused(name: str) -> str:
    """Why the function `name` is not admitted."""
    if name.lower() in NOT_DETERMINISTIC:
        return f"{name} gives another value each time, so no view can be kept by it; store the value instead"
    meant = get_close_matches(name.lower(), [*FUNCTIONS.values(), *SCALARS], n=1)
    advice = f"did you mean {meant[0]}?" if meant else "docs/sql.md lists those that there are"
    return f"the function {name} is not supported yet; {advice}"


def _part(kind: type[exp.Expr], name: str) -> str:
    return f"{name.strip('_').replace('_', ' ').upper()} is not supported in {kind.key.upper()}"


def _first(value: object, node: exp.Expr) -> exp.Expr:
    if isinstance(value, list):
        value = value[0]
    return value if isinstance(value, exp.Expr) else node


def _check_join(query: QueryText, node: exp.Expr) -> None:
    kind = node.args.get("kind") or "INNER"
    if kind not in ("INNER", "CROSS"):
        raise query.error(f"{kind} JOIN is not supported yet; {_JOIN}", node, NotSupported)


def _check_function(query: QueryText, node: exp.Expr) -> None:
    # sqlglot reads several names as one function (NVL as COALESCE, MEAN as AVG).
    written = written_name(query, node)
    if written.lower() != FUNCTIONS[type(node)]:
        raise query.error(function_refused(written), node, NotSupported)
    if node.this is None:
        raise query.error(f"{written} needs an argument", node)


def _check_subquery(query: QueryText, node: exp.Expr) -> None:
    if not isinstance(node.parent, (exp.From, exp.Join, exp.Subquery)) and node is not query.tree:
        raise query.error("a subquery is admitted in FROM only; write a join", node, NotSupported)
    if not isinstance(node.this, (exp.Select, exp.Subquery, exp.SetOperation)):
        raise query.error(_PARTS[exp.Table, "joins"], node, NotSupported)


def _check_name(query: QueryText, node: exp.Expr) -> None:
    written = raw_text(query.source, node)
    quoted = written.startswith("`")
    if not quoted and (not written.replace("_", "a").isalnum() or written[0].isdigit()):
        raise query.error("a name begins with a letter or stands in backticks", node)
    if written.upper() in RESERVED:
        raise query.error(f"{written} is a word of SQL; as a name it stands in backticks", node)


def _check_column(query: QueryText, node: exp.Expr) -> None:
    if not isinstance(node.this, (exp.Identifier, exp.Star)):
        raise query.error("this is not SQL: a column's name is expected behind the dot", node)


def _check_alias(query: QueryText, node: exp.Expr) -> None:
    of_field = isinstance(node.parent, ScalarCall) and node.parent.name == "struct"
    if not (of_field or isinstance(node.parent, exp.Select)):
        of_rows = node.find_ancestor(exp.Values, exp.Select)  # VALUES 1, 2 AS v is read as if 2 were called v
        kind = NotSupported if isinstance(of_rows, exp.Values) else DeclarationError
        raise query.error("an alias can stand behind a whole output only", node, kind)
    if isinstance(node.args["alias"], exp.Placeholder):
        raise query.error("a parameter is a value, and no name", node)


def _check_query(query: QueryText, node: exp.Expr) -> None:
    if node is not query.tree and not isinstance(node.parent, exp.Subquery):
        raise query.error("a subquery stands in parentheses, and in FROM only", node, NotSupported)


def _check_from(query: QueryText, node: exp.Expr) -> None:
    if not isinstance(node.this, (exp.Table, exp.Subquery, *_NODES)):
        raise query.error("this is not SQL: a table, view or subquery is expected behind FROM", node)


def is_all(term: exp.Expr) -> bool:
    """Whether a term of ORDER BY is the word ALL: all outputs, from left to right."""
    return isinstance(term.this, exp.Var) and term.this.name.upper() == "ALL"


def _check_list(query: QueryText, node: exp.Expr) -> None:
    if isinstance(node, exp.Order) and any(map(is_all, node.expressions)):
        raise query.error("ORDER BY ALL is not supported here; name the outputs", node, NotSupported)
    if not node.expressions or not isinstance(node.parent, (exp.Select, exp.SetOperation, exp.Values)):
        raise query.error("this is not SQL: GROUP BY and ORDER BY name what they order or group by", node)


def _check_operands(query: QueryText, node: exp.Expr) -> None:
    # In Spark comparisons bind from left to right, then comes one IS, IN or BETWEEN, and NOT stands in front of it all;
    # sqlglot has levels of its own.  They agree where comparisons nest to the left only, and on parentheses.
    left = () if isinstance(node, _ARITHMETIC) else _COMPARISONS
    for part in ("this", "expression", "low", "high"):
        operand = node.args.get(part)
        if isinstance(operand, _PREDICATES) and not (part == "this" and isinstance(operand, left)):
            what = f"next to {_written(node)} it is not plain what belongs together"
            raise query.error(f"{what}; put the condition into parentheses", operand, NotSupported)


def _check_bits(query: QueryText, node: exp.Expr) -> None:
    # In Spark || stands beside + and -, and <<, &, ^ and | each below the one before; in sqlglot all are one level.
    _check_operands(query, node)
    for operand in (node.this, node.expression):
        same = type(operand) is type(node) and operand is node.this
        if isinstance(operand, _BITS) and not same:
            message = f"next to {_written(node)} it is not plain what belongs together; write parentheses"
            raise query.error(message, operand, NotSupported)
        if isinstance(node, exp.DPipe) and isinstance(operand, (exp.Add, exp.Sub)):
            raise query.error(
                "next to || it is not plain what + and - belong to; write parentheses", operand, NotSupported
            )


def _check_parameter(query: QueryText, node: exp.Expr) -> None:
    name = node.name
    if name.strip("?") and not name.isidentifier():
        raise query.error("a parameter is written :name", node)
    if name not in query.source.parameters:
        raise query.error(no_value(name), node)


def no_value(name: str) -> str:
    """What is said of a parameter, :name or `?`, without a value."""
    written, given = ("?", "[..., ...]") if name in ("", "?") else (f":{name}", f"{name}=...")
    return f"there is no value for the parameter {written}: db.sql(..., {given})"


_BITS = (exp.DPipe, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseLeftShift, exp.BitwiseRightShift)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.IntDiv, exp.BitwiseNot, *_BITS)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
_LIKES = (exp.Like, exp.ILike, exp.RegexpLike, exp.Escape)
_PREDICATES = (*_COMPARISONS, *_LIKES, exp.Is, exp.In, exp.Between, exp.Not)
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>",
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.Neg: "-", exp.IntDiv: "DIV",
    exp.Like: "LIKE", exp.ILike: "ILIKE", exp.RegexpLike: "RLIKE", exp.BitwiseNot: "~",
}  # fmt: skip
_BIT_OPERATORS: dict[type[exp.Expr], str] = {
    exp.DPipe: "||", exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^", exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
}  # fmt: skip


def _written(node: exp.Expr) -> str:
    return _OPERATORS.get(type(node)) or _BIT_OPERATORS.get(type(node)) or node.key.upper()


def _check_is(query: QueryText, node: exp.Expr) -> None:
    _check_operands(query, node)
    if not isinstance(node.expression, (exp.Null, exp.Boolean)) and not is_unknown(node):
        message = "only IS [NOT] NULL, TRUE, FALSE and UNKNOWN are supported; compare with <=> instead"
        raise query.error(message, node, NotSupported)


def is_unknown(node: exp.Expr) -> bool:
    """Whether it is IS UNKNOWN, the word being a name to sqlglot."""
    word = node.expression
    return isinstance(word, exp.Column) and word.name.upper() == "UNKNOWN" and not word.args.get("table")


def typed_literal(node: exp.Expr) -> str | None:
    """The type's name if `node` is DATE '...', TIMESTAMP '...' or TIMESTAMP_NTZ '...', else None."""
    # CAST(... AS DATE) and '...'::DATE are TryCasts in Spark's dialect; DATE(...) has a place of its own.
    literal = node.this
    if type(node) is not exp.Cast or node._meta or not isinstance(literal, exp.Literal) or not literal.is_string:
        return None
    return TYPED_LITERALS.get(node.args["to"].this.value)


def cast_type(node: exp.Expr) -> Type | None:
    """The type that CAST names; None where it is none of those that tables have, or an INTERVAL."""
    if isinstance(node.this, exp.Interval):
        return None
    name, parameters = node.this.value, [part.name for part in node.expressions]
    if name == "DECIMAL" and len(parameters) <= 2 and all(part.isdigit() for part in parameters):
        precision, scale = ([int(part) for part in parameters] + [10, 0][len(parameters) :])[:2]
        return decimal(precision, scale) if 0 < precision <= MAX_PRECISION and scale <= precision else None
    if node.args.get("nested"):
        return _nested_type(name, node.expressions)
    return None if parameters else _CAST_TYPES.get(name)


def _nested_type(name: str, given: list[exp.Expr]) -> Type | None:
    types = [cast_type(part.args["kind"] if isinstance(part, exp.ColumnDef) else part) for part in given]
    parts = [type_ for type_ in types if type_ is not None]
    if len(parts) != len(given) or len(parts) != {"ARRAY": 1, "MAP": 2}.get(name, len(parts) or 1):
        return None
    if name == "STRUCT":
        fields = [(field.name, part) for field, part in zip(given, parts, strict=True)]
        return struct_of(fields) if len({each.lower() for each, _ in fields}) == len(fields) else None
    if name == "ARRAY":
        return array_of(*parts)
    return map_of(*parts) if name == "MAP" and not parts[0].has_map else None


_CAST_TYPES = {"BIGINT": BIGINT, "BINARY": BINARY, "BOOLEAN": BOOLEAN, "DATE": DATE, "DOUBLE": DOUBLE, "FLOAT": FLOAT,
               "INT": INT, "SMALLINT": SMALLINT, "TEXT": STRING, "TIMESTAMP": TIMESTAMP, "TIMESTAMPTZ": TIMESTAMP,
               "TIMESTAMPLTZ": TIMESTAMP, "TIMESTAMPNTZ": TIMESTAMP_NTZ, "TINYINT": TINYINT}  # fmt: skip
"""sqlglot's names of the types."""


def number_suffix(query: QueryText, node: exp.Expr) -> str | None:
    """L, S, Y, D, F or BD if `node` (a cast to sqlglot) is a number with a suffix, else None."""
    literal = node.this
    if type(node) is not exp.TryCast or not isinstance(literal, exp.Literal):
        return None
    if isinstance(node.args["to"].this, exp.Interval):
        return None
    suffix = _SUFFIXES.get(node.args["to"].this.value)
    written = raw_text(query.source, literal)
    if suffix is None or (written and not (written[0] in "0123456789." and written.upper().endswith(suffix))):
        return None
    return suffix


_SUFFIXES = {"BIGINT": "L", "SMALLINT": "S", "TINYINT": "Y", "DOUBLE": "D", "FLOAT": "F", "DECIMAL": "BD"}


def _check_table(query: QueryText, node: exp.Expr) -> None:
    if isinstance(node.this, exp.Func):
        raise query.error(f"{node.this.name}(...) in FROM is not supported yet", node, NotSupported)


def _check_call(query: QueryText, node: exp.Expr) -> None:
    if has_unit(node):
        raise query.error(f"{node.name} of a unit is not supported yet", node, NotSupported)


_CHECKS: dict[type[exp.Expr], Callable[[QueryText, exp.Expr], None]] = {
    exp.Join: _check_join, exp.Subquery: _check_subquery, exp.Is: _check_is, exp.Identifier: _check_name,
    exp.Column: _check_column,
    exp.Alias: _check_alias, exp.Select: _check_query, exp.From: _check_from, exp.Group: _check_list,
    exp.Order: _check_list, exp.In: _check_operands, exp.Between: _check_operands,
    **dict.fromkeys(_OPERATORS, _check_operands), **dict.fromkeys(_BIT_OPERATORS, _check_bits),
    ScalarCall: _check_call, exp.Table: _check_table, exp.Placeholder: _check_parameter,
    **dict.fromkeys(FUNCTIONS, _check_function),
}  # fmt: skip

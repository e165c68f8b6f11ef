"""Whether the result of a query is certainly empty, from which of its references are: so that a run of empty parts
costs no query.

A query is compiled once to a monotone boolean formula over the names of its references.  What is not understood is
never certainly empty.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass

from sqlglot import exp

from viewkeeper.compiler.source_text import Script
from viewkeeper.compiler.syntax import syntax_tree, tokenize
from viewkeeper.plans.references import PartQuery

Form = frozenset[frozenset[str]]
"""Any of these sets of names, all of it empty: a formula in its disjunctive normal form, without supersets."""

NEVER: Form = frozenset()
ALWAYS: Form = frozenset([frozenset()])
_GREATEST = 64
"""Sets of names; a formula that needs more is cut, and so takes fewer results for empty."""


@dataclass(frozen=True)
class Emptiness:
    """`form` says which references must be empty; call it with the names of those that are."""

    form: Form

    @staticmethod
    def of(query: PartQuery) -> Emptiness:
        """The formula of `query`, whose references have the names that stand in `query.sql`."""
        source = Script(query.sql)
        tree = syntax_tree(source, tokenize(source), faithful=True)
        names = {reference.name.lower(): reference.name for reference in query.references}
        return Emptiness(_query(tree, {name: frozenset([frozenset([own])]) for name, own in names.items()}))

    def __call__(self, empty: Set[str]) -> bool:
        """Whether the result certainly has no row when the references `empty` have none."""
        return any(names <= empty for names in self.form)


_Names = Mapping[str, Form]
"""For each name that can stand in FROM (in small letters), when it is empty."""


def _query(tree: exp.Expr, names: _Names) -> Form:
    names = _with(tree, names)
    if _is_never_more(tree):
        return ALWAYS
    if isinstance(tree, exp.Subquery):
        return _item(tree, names)
    if isinstance(tree, exp.Union):
        return _all(_query(tree.this, names), _query(tree.expression, names))
    if isinstance(tree, exp.Intersect):
        return _any(_query(tree.this, names), _query(tree.expression, names))
    if isinstance(tree, exp.Except):
        return _query(tree.this, names)
    return _select(tree, names) if isinstance(tree, exp.Select) else NEVER


def _with(tree: exp.Expr, names: _Names) -> _Names:
    with_ = tree.args.get("with_")
    if with_ is None:
        return names
    if with_.args.get("recursive"):
        return {**names, **dict.fromkeys((each.alias.lower() for each in with_.expressions), NEVER)}
    for each in with_.expressions:
        names = {**names, each.alias.lower(): _query(each.this, names)}
    return names


def _is_never_more(tree: exp.Expr) -> bool:
    limit = tree.args.get("limit")
    value = limit.args.get("expression") if isinstance(limit, exp.Limit) else None
    return isinstance(value, exp.Literal) and not value.is_string and value.name == "0"


def _select(select: exp.Select, names: _Names) -> Form:
    from_ = select.args.get("from_")
    if from_ is None:
        return NEVER
    rows = _joined(_item(from_.this, names), select.args.get("joins") or (), names)
    where = select.args.get("where")
    if where is not None and _is_false(where.this):
        rows = ALWAYS
    group = select.args.get("group")
    if group is not None:
        return rows if _groups_rows(group) else NEVER
    order = select.args.get("order")
    outputs = [*select.expressions, *(order.expressions if order is not None else ())]
    if select.args.get("having") is not None or any(map(_aggregates, outputs)):
        return NEVER  # one row, whatever there is
    return rows


def _groups_rows(group: exp.Expr) -> bool:
    """Whether no rows give no group: so it is unless there is a grouping by nothing."""
    plain = not any(value for name, value in group.args.items() if name != "expressions")
    sets = (exp.Tuple, exp.Cube, exp.Rollup, exp.GroupingSets)
    return plain and bool(group.expressions) and not any(isinstance(each, sets) for each in group.expressions)


def _aggregates(node: exp.Expr) -> bool:
    """Whether an output has an aggregate of the whole result, or a function that may be one."""
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if isinstance(here, exp.Query):
            continue  # a subquery's aggregates are its own
        if isinstance(here, exp.Func) and not isinstance(here, _ROW_BY_ROW):
            return True
        waiting += here.iter_expressions()
    return False


_ROW_BY_ROW = (
    exp.And, exp.Or, exp.Case, exp.If, exp.Cast, exp.TryCast, exp.Coalesce, exp.Nullif, exp.Abs, exp.Round, exp.Ceil,
    exp.Floor, exp.Sqrt, exp.Pow, exp.Ln, exp.Log, exp.Exp, exp.Sign, exp.Greatest, exp.Least, exp.Concat,
    exp.ConcatWs, exp.Upper, exp.Lower, exp.Trim, exp.Length, exp.Substring, exp.Replace, exp.RegexpExtract,
    exp.RegexpReplace, exp.RegexpLike, exp.Split, exp.Extract, exp.Year, exp.Month, exp.Day, exp.Hour, exp.Minute,
    exp.Second, exp.DateAdd, exp.DateSub, exp.DateDiff, exp.TimestampTrunc, exp.DateTrunc, exp.TsOrDsToDate,
    exp.UnixToTime, exp.TimeToUnix, exp.StrToTime, exp.TimeToStr, exp.Array, exp.Struct, exp.MD5, exp.SHA, exp.SHA2,
)  # fmt: skip
"""Functions that surely are no aggregates.  Of others it is not certain, and an aggregate taken for none would lose its
row; so this list may lack some, and what it lacks only costs a query."""


def _joined(rows: Form, joins: Collection[exp.Join], names: _Names) -> Form:
    for join in joins:
        right = NEVER if isinstance(join.this, exp.Lateral | exp.Unnest) else _item(join.this, names)
        if join.side == "RIGHT":
            rows = right
        elif join.side == "FULL":
            rows = _all(rows, right)
        elif join.kind == "SEMI" or (join.side != "LEFT" and join.kind != "ANTI"):
            rows = _any(rows, right)
    return rows


def _item(node: exp.Expr, names: _Names) -> Form:
    """One item of FROM: a name, a subquery, or joins in parentheses."""
    if isinstance(node, exp.Table):
        rows = names.get(node.name.lower(), NEVER) if isinstance(node.this, exp.Identifier) else NEVER
    elif isinstance(node, exp.Subquery):
        rows = _query(node.this, names) if isinstance(node.this, exp.Query) else _item(node.this, names)
        if _is_never_more(node):
            return ALWAYS
    else:
        return NEVER
    if node.args.get("pivots"):
        return NEVER
    return _joined(rows, node.args.get("joins") or (), names)


def _is_false(node: exp.Expr) -> bool:
    return isinstance(node, exp.Boolean) and not node.this


def _any(left: Form, right: Form) -> Form:
    return _reduced(left | right)


def _all(left: Form, right: Form) -> Form:
    return _reduced(frozenset(one | other for one in left for other in right))


def _reduced(form: Form) -> Form:
    """Without sets that another one makes needless, the smallest ones first where there are too many."""
    kept: list[frozenset[str]] = []
    for names in sorted(form, key=lambda each: (len(each), sorted(each))):
        if not any(known <= names for known in kept):
            kept.append(names)
    return frozenset(kept[:_GREATEST])

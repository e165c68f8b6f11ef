"""Whether the rows of a query's tables settle its answer where it depends on an order: rows that the order finds equal
(ties) stand in any order, so it must tell rows apart wherever it matters which comes first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from viewkeeper.streams.analyst import Keys
from viewkeeper.streams.spark.collations import is_collated
from viewkeeper.streams.spark.plans import Changing, PlanNode

_SAME = {"SubqueryAlias", "View", "Filter", "Sort", "LocalLimit", "GlobalLimit", "Offset", "Distinct", "Deduplicate",
         "ResolvedHint", "WithCTE", "RepartitionByExpression", "Repartition"}  # fmt: skip
_OF_RANK = {"Rank", "DenseRank", "PercentRank", "CumeDist"}
"""What treats equal rows alike."""

_BY_PLACE = {"First", "Last", "AnyValue", "CollectList", "CollectSet", "CollectUnion", "ListAgg"}
"""Aggregates in whose answer it shows how the rows of a frame stand, though the order finds them equal."""

_TIED = "{} depends on the order of rows that ORDER BY finds equal; add columns to it by which rows can be told apart{}"


def undetermined(analysed: PlanNode, keys: Keys) -> Changing | None:
    """Where the answer depends on the order of rows that an ORDER BY finds equal; if the query's own orders are not
    settled yet, only of those WITHIN GROUP."""
    for node, _ in analysed.walk():
        if node.name in ("Aggregate", "Window") and (listed := _tied_list(node, keys)) is not None:
            return listed
        if not keys.settled:
            continue
        if node.name in ("GlobalLimit", "Offset"):
            sort = _sort_below(node)
            if sort is not None and not _tells_apart(_attributes(sort.inside), sort.children[0], keys):
                name = "LIMIT" if node.name == "GlobalLimit" else "OFFSET"
                return Changing((name.lower(),), _TIED.format(name, _advice(sort.children[0], keys)))
        if node.name == "Window":
            found = _tied_window(node, keys)
            if found is not None:
                return found
    return None


def _sort_below(limit: PlanNode) -> PlanNode | None:
    node = limit
    while node.children and node.name in ("GlobalLimit", "LocalLimit", "Offset", "Project", "SubqueryAlias"):
        node = node.children[-1]
    return node if node.name == "Sort" else None


def _tied_list(node: PlanNode, keys: Keys) -> Changing | None:
    """listagg(...) WITHIN GROUP in an order that finds different texts equal."""
    for call in (each for top in node.inside for each, _ in top.walk() if each.name == "ListAgg"):
        value, terms = call.children[0], [each for each in call.children if each.name == "SortOrder"]
        ordered = _attributes(terms)
        if not terms or value in [term.children[0] for term in terms]:
            continue
        if not _within(value) <= ordered and not _tells_apart(ordered, node.children[0], keys):
            names = ("listagg", "string_agg")
            what = "depends on the order of texts that its ORDER BY finds equal; add the text itself to it"
            return Changing(names, what, named=True)
    return None


def _within(value: PlanNode) -> set[int]:
    """The columns of which a value is made."""
    return {_id(node) for node, _ in value.walk() if node.name == "AttributeReference"}


def _tied_window(window: PlanNode, keys: Keys) -> Changing | None:
    for expression in (each for top in window.inside for each, _ in top.walk() if each.name == "WindowExpression"):
        function, spec = expression.children
        ordered = [each for each in spec.children if each.name == "SortOrder"]
        name = function.name if function.name != "AggregateExpression" else function.children[0].name
        if not ordered or name in _OF_RANK or (function.name == "AggregateExpression" and not _by_rows(spec)
                                               and name not in _BY_PLACE):  # fmt: skip
            continue
        if name == "ListAgg" and any(each.name == "SortOrder" for each in function.children[0].children):
            continue  # it has an order of its own
        if not _tells_apart(_attributes(spec.children), window.children[0], keys):
            return Changing(("over",), _TIED.format(f"{_in_sql(name)} OVER (...)", _advice(window.children[0], keys)))
    return None


def _in_sql(name: str) -> str:
    """What a function is called whose class is called `name`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().replace("list_agg", "listagg")


def _by_rows(spec: PlanNode) -> bool:
    """Whether the window's frame counts rows, and not values, on a side that is not open."""
    frame = next((each for each in spec.children if each.name == "SpecifiedWindowFrame"), None)
    if frame is None or "RowFrame" not in str(frame.fields["frameType"]):
        return False
    return any(end.name not in ("UnboundedPreceding", "UnboundedFollowing") for end in frame.children)


def _attributes(terms: Sequence[PlanNode]) -> set[int]:
    """The columns that stand as terms of an order, or of a partition, themselves; not texts that are other than equal
    where a collation finds them so."""
    found = set()
    for term in terms:
        inner = term.children[0] if term.name == "SortOrder" else term
        if inner.name == "AttributeReference" and not is_collated(inner):
            found.add(_id(inner))
    return found


def _tells_apart(ordered: set[int], below: PlanNode, keys: Keys) -> bool:
    output = _output(below)
    copies = {_id(each) for each in below.inside if below.name == "Project" and each.name == "Alias"
              and each.children[0].name == "AttributeReference" and _id(each.children[0]) in ordered}  # fmt: skip
    if output is not None and set(output) <= ordered | copies:
        return True  # equal rows are one another's like
    return any(key <= ordered for key in _keys(below, keys))


def _advice(below: PlanNode, keys: Keys) -> str:
    output = _output(below) or {}
    named = [[output[id_] for id_ in sorted(key)] for key in _keys(below, keys) if key <= output.keys()]
    return f", such as {', '.join(named[0])}" if named else ""


def _id(node: PlanNode) -> int:
    return int(node.fields["exprId"]["id"])


def _output(node: PlanNode) -> dict[int, str] | None:
    """The columns that a plan yields, by their ids; None where that is not known."""
    if node.name == "Project":
        return _named(node, "projectList")
    if node.name == "Aggregate":
        return _named(node, "aggregateExpressions")
    if node.name in ("LogicalRDD", "LocalRelation"):
        return _named(node, "output")
    if node.name in _SAME:
        return _output(node.children[-1])
    if node.name == "Join":
        left, right = (_output(child) for child in node.children)
        if left is None or right is None:
            return None
        return left if _kind(node) in ("LeftSemi", "LeftAnti") else left | right
    if node.name == "Window":
        below = _output(node.children[0])
        return None if below is None else below | (_named(node, "windowExpressions") or {})
    return None


def _named(node: PlanNode, field: str) -> dict[int, str] | None:
    trees = [each[0] for each in node.fields[field]]
    if any("exprId" not in tree for tree in trees):
        return None
    return {int(tree["exprId"]["id"]): str(tree["name"]) for tree in trees}


def _kind(join: PlanNode) -> str:
    return str(join.fields["joinType"].get("object", "")).rsplit(".", 1)[-1].rstrip("$")


def _keys(node: PlanNode, keys: Keys) -> Iterator[frozenset[int]]:
    """Sets of columns by each of which the rows of a plan can be told apart."""
    if node.name == "SubqueryAlias" and node.children[0].name == "View":
        name = str(node.fields["identifier"]["name"]).lower()
        output = _output(node.children[0]) or {}
        places = {column.lower(): id_ for id_, column in output.items()}
        if keys.of.get(name) and all(column.lower() in places for column in keys.of[name]):
            yield frozenset(places[column.lower()] for column in keys.of[name])
    elif node.name in _SAME - {"Deduplicate"}:
        yield from _keys(node.children[-1], keys)
    elif node.name == "Window":
        yield from _keys(node.children[0], keys)
    elif node.name == "Aggregate":
        grouping = [each[0] for each in node.fields["groupingExpressions"]]
        if all("exprId" in tree for tree in grouping):
            yield frozenset(int(tree["exprId"]["id"]) for tree in grouping)
    elif node.name == "Project":
        shown = set(_output(node) or ())
        yield from (key for key in _keys(node.children[0], keys) if key <= shown)
    elif node.name == "Join":
        left, right = (list(_keys(child, keys)) for child in node.children)
        if _kind(node) in ("LeftSemi", "LeftAnti"):
            yield from left
        elif _kind(node) in ("Inner", "Cross"):
            yield from (one | other for one in left for other in right)

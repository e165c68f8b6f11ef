"""Whether a query treats the rows of one table one by one, so that what it answers over parts is what it answers over
all of them together."""

from __future__ import annotations

from collections.abc import Callable

from viewkeeper.streams.spark.plans import Changing, PlanNode

_PASSED = {
    "Project", "Filter", "SubqueryAlias", "View", "Generate", "Expand", "ResolvedHint", "WithCTE", "CTERelationDef",
    "LateralJoin", "Repartition", "RepartitionByExpression", "RebalancePartitions", "Sort",
}  # fmt: skip
_SIDES = {"Inner": (0, 1), "Cross": (0, 1), "LeftOuter": (0,), "LeftSemi": (0,), "LeftAnti": (0,), "RightOuter": (1,)}
"""Of each kind of join, the side whose rows stand in the result each by itself."""

_REASONS = {
    "Aggregate": (
        ("group by", "having"),
        "an aggregate over {0} must say over which rows, since the stream never ends",
    ),
    "Distinct": (("distinct",), "DISTINCT would compare all rows of {0} with each other"),
    "Window": (("over",), "a window function (OVER) would take all rows of {0} together"),
    "GlobalLimit": (("limit",), "LIMIT would count all rows of {0}; use it in the query that reads"),
    "LocalLimit": (("limit",), "LIMIT would count all rows of {0}; use it in the query that reads"),
    "Offset": (("offset",), "OFFSET would count all rows of {0}; use it in the query that reads"),
    "Union": (("union",), "UNION would add what does not come of {0} to each of its parts"),
    "Intersect": (("intersect",), "INTERSECT would compare all rows of {0} with each other"),
    "Except": (("except", "minus"), "EXCEPT would compare all rows of {0} with each other"),
    "Join": (("join",), "{0} must stand on the side of an outer join of which all rows are kept"),
    "CTERelationRef": (("with",), "a query of WITH that reads {0} can be named once"),
    "Unread": (("with",), "no row of the answer comes of {0}, so each part would have all of them"),
    "Subquery": ((), "{0} stands in a subquery that is part of an expression, which would read rows of other parts"),
}


_OTHER = "this part of the query ({1}) would take rows of {0} together"


def not_by_rows(analysed: PlanNode, table: str) -> Changing | None:
    """What in an analysed query takes rows of `table`, which stands in it once, together; with what it may be called in
    SQL, for its place."""
    reason = _reason(analysed, lambda node: node.name == "SubqueryAlias" and _identifier(node) == table.lower())
    if reason is None:
        return None
    names, what = _REASONS.get(reason, ((), _OTHER))
    return Changing(names, what.format(table, reason))


def _reason(analysed: PlanNode, wanted: Callable[[PlanNode], bool]) -> str | None:
    """The class of what stands between the answer and the node that is wanted, and takes its rows together."""
    ways = [(*above, node) for node, above in analysed.walk() if wanted(node)]
    if len(ways) != 1:
        return "CTERelationRef" if ways else "Unread"
    for way in ways:
        for node, below in zip(way, way[1:], strict=False):
            side = next((i for i, child in enumerate(node.children) if child is below), None)
            if side is None:
                return "Subquery"
            if node.name not in _PASSED and not (node.name == "Join" and side in _SIDES.get(_kind(node), ())):
                return node.name
            if node.name == "CTERelationDef" and (reason := _reason(analysed, _names(node))) is not None:
                return reason
    return None


def _names(definition: PlanNode) -> Callable[[PlanNode], bool]:
    id_ = definition.fields["id"]
    return lambda node: node.name == "CTERelationRef" and bool(node.fields["cteId"] == id_)


def _identifier(alias: PlanNode) -> str:
    return str(alias.fields["identifier"]["name"]).lower()


def _kind(join: PlanNode) -> str:
    """Inner, LeftOuter, ...: a plain object, or that which USING was about."""
    return str(join.fields["joinType"].get("object", "")).rsplit(".", 1)[-1].rstrip("$")

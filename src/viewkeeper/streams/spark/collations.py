"""Whether the rows of a query's tables settle which of several texts it shows that a collation finds equal: 'a' and 'A'
to UTF8_LCASE.  Of such texts GROUP BY, DISTINCT, set operations, and aggregates that give one of several values, show
any."""

from __future__ import annotations

import re

from viewkeeper.streams.spark.plans import Changing, PlanNode

_COLLATED = re.compile(r"\bcollate (?!UTF8_BINARY\b)", re.IGNORECASE)
_GIVES_ONE = {"Max": "max", "Min": "min", "MaxBy": "max_by", "MinBy": "min_by", "Mode": "mode", "First": "first",
              "Last": "last", "AnyValue": "any_value", "CollectSet": "collect_set", "CollectList": "collect_list",
              "ListAgg": "listagg"}  # fmt: skip
"""Aggregates that show values as they are, or in their order."""

_OF_NO_TEXT = {
    "EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "And", "Or", "Not",
    "In", "InSet", "IsNull", "IsNotNull", "Like", "ILike", "RLike", "Contains", "StartsWith", "EndsWith", "Length",
    "OctetLength", "BitLength", "StringInstr", "StringLocate", "FindInSet", "Levenshtein",
}  # fmt: skip
"""Whose values are conditions and numbers, whatever they are of."""

_DISTINCT = {"Distinct": "DISTINCT", "Deduplicate": "DISTINCT", "Intersect": "INTERSECT", "Except": "EXCEPT"}
_SAME = {"SubqueryAlias", "Filter", "Sort", "LocalLimit", "GlobalLimit", "Offset", "ResolvedHint", "Window"}
_WHAT = "{} may show any of several texts that the collation finds equal, such as 'a' and 'A'; {}"
_BINARY = "write COLLATE UTF8_BINARY behind it, or lower(...) around it"


def shown_by_chance(analysed: PlanNode) -> Changing | None:
    """What shows one of several texts that are equal to its collation."""
    for node, _ in analysed.walk():
        if node.name in _GIVES_ONE and any(map(_is_of_texts, node.children)):
            name = _GIVES_ONE[node.name]
            return Changing((name,), _WHAT.format(name, _BINARY))
        if node.name in _DISTINCT and any(_gives_collated(child) for child in node.children):
            return Changing((_DISTINCT[node.name],), _WHAT.format(_DISTINCT[node.name], _BINARY))
        if node.name == "Aggregate" and _shows_collated_key(node):
            return Changing(("collate", "group"), _WHAT.format("a key of GROUP BY", "show lower(...) and group by it"))
    return None


def is_collated(node: PlanNode) -> bool:
    """Whether a column or constant is a text that is compared by a collation of its own, or a node names one."""
    if node.name == "ResolvedCollation":
        return not str(node.fields["collationName"]).upper().endswith("UTF8_BINARY")
    return _COLLATED.search(str(node.fields.get("dataType", ""))) is not None


def _is_of_texts(output: PlanNode) -> bool:
    """Whether an expression is such a text, or may be made of one."""
    while output.name in ("Alias", "SortOrder"):
        output = output.children[0]
    if output.name in _OF_NO_TEXT:
        return False
    if output.name == "Collate":
        return any(map(is_collated, output.children[1:]))
    if "dataType" in output.fields:
        return is_collated(output)
    return any(is_collated(node) for node, _ in output.walk())


def _gives_collated(plan: PlanNode) -> bool:
    while plan.name in _SAME and plan.children:
        plan = plan.children[0]
    if plan.name == "Union":
        return any(map(_gives_collated, plan.children))
    return plan.name in ("Project", "Aggregate") and any(map(_is_of_texts, _outputs(plan)))


def _outputs(plan: PlanNode) -> list[PlanNode]:
    field = "projectList" if plan.name == "Project" else "aggregateExpressions"
    count = len(plan.fields[field])
    before = 0 if plan.name == "Project" else len(plan.fields["groupingExpressions"])
    return plan.inside[before : before + count]


def _shows_collated_key(aggregate: PlanNode) -> bool:
    """Whether it shows a key, in whatever form, beside its aggregates."""
    keys = aggregate.inside[: len(aggregate.fields["groupingExpressions"])]
    return any(map(_is_of_texts, keys)) and any(map(_has_outside_calls, _outputs(aggregate)))


def _has_outside_calls(output: PlanNode) -> bool:
    if output.name == "AggregateExpression":
        return False
    return is_collated(output) or any(map(_has_outside_calls, (*output.children, *output.inside)))

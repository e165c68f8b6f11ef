"""Spark's own reading of a query, parsed or analysed: what it reads, and whether it has the same answer each time."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPECIAL = re.compile(r"\s*(now|today|tomorrow|yesterday)\b.*", re.IGNORECASE | re.DOTALL)
"""Texts that Spark takes for the moment at which a query runs, or what lies about it."""

_PLANS = ("org.apache.spark.sql.catalyst.plans.logical.", "org.apache.spark.sql.execution.")


@dataclass
class PlanNode:
    """A plan or expression; `inside` are those that stand in its fields, `children` the others below it."""

    path: str
    fields: dict[str, Any]
    children: list[PlanNode] = field(default_factory=list)
    inside: list[PlanNode] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The class, without its package."""
        return self.path.rsplit(".", 1)[-1].rstrip("$")

    def walk(self) -> Iterator[tuple[PlanNode, tuple[PlanNode, ...]]]:
        """All nodes, each with those above it, the nearest last."""
        waiting: list[tuple[PlanNode, tuple[PlanNode, ...]]] = [(self, ())]
        while waiting:
            node, above = waiting.pop()
            yield node, above
            waiting += [(each, (*above, node)) for each in reversed([*node.inside, *node.children])]


def plan_of(java_plan: Any) -> PlanNode:
    """The plan that Spark's `java_plan` is."""
    return _tree(json.loads(java_plan.toJSON()))


def _tree(items: list[dict[str, Any]]) -> PlanNode:
    """The tree whose nodes stand in `items`, each before its children."""
    items = [item for item in items if not item["class"].endswith(".PipeOperator")]  # it passes on what is below it
    nodes = [PlanNode(item["class"], item) for item in items]
    open_: list[tuple[PlanNode, int]] = []
    for node, item in zip(nodes, items, strict=True):
        while open_ and len(open_[-1][0].children) == open_[-1][1]:
            open_.pop()
        if open_:
            open_[-1][0].children.append(node)
        open_.append((node, item["num-children"]))
        node.inside = [each for key, value in item.items() if key != "class" for each in _within(value)]
    return nodes[0]


def _within(value: Any) -> Iterator[PlanNode]:
    if isinstance(value, list):
        if value and all(isinstance(each, dict) and "num-children" in each for each in value):
            yield _tree(value)
        else:
            for each in value:
                yield from _within(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _within(each)


def unnamed_relation(parsed: PlanNode, names: Collection[str]) -> str | None:
    """The first thing that a parsed query reads and that is neither in `names` nor a query of its WITH."""
    known = {f"[{name.lower()}]" for name in (*names, *_common_names(parsed))}
    for node, _ in parsed.walk():
        if node.name == "UnresolvedRelation" and str(node.fields["multipartIdentifier"]).lower() not in known:
            return str(node.fields["multipartIdentifier"]).strip("[]").replace(", ", ".")
        if node.name in ("PlanWithUnresolvedIdentifier", "ExpressionWithUnresolvedIdentifier"):
            return "IDENTIFIER(...)"
    return None


def _common_names(parsed: PlanNode) -> Iterator[str]:
    for node, _ in parsed.walk():
        if node.name == "UnresolvedWith":
            yield from (str(common["_1"]) for common in node.fields["cteRelations"])


def foreign_function(parsed: PlanNode, known: Collection[str]) -> str | None:
    """The first function of a parsed query that is not in `known`: one of a catalog, or of whoever started Spark."""
    for node, _ in parsed.walk():
        called = {"UnresolvedFunction": "nameParts", "UnresolvedTableValuedFunction": "name"}.get(node.name)
        if called is not None:
            name = str(node.fields[called]).strip("[]").replace(", ", ".")
            if name.lower() not in known:
                return name
    return None


_functions: set[str] = set()


def spark_functions(session: SparkSession) -> Collection[str]:
    """The names of Spark's own functions, in small letters."""
    if not _functions:
        assert session._jvm is not None, "a session has a JVM until it is stopped"
        analysis = session._jvm.org.apache.spark.sql.catalyst.analysis
        for registry in (analysis.FunctionRegistry, analysis.TableFunctionRegistry):
            _functions.update(name.rsplit(".", 1)[-1] for name in registry.functionSet().mkString(" ").split())
    return _functions


_READ = {"LocalRelation", "OneRowRelation", "CTERelationRef", "UnionLoopRef", "Range", "LogicalRDD", "Values"}
_FOREIGN = ("ScalaUDF", "PythonUDF", "PythonUDAF", "PythonUDTF", "HiveSimpleUDF", "HiveGenericUDF", "HiveGenericUDTF",
            "HiveUDAFFunction", "ScalaUDAF", "ScalaAggregator", "ApplyFunctionExpression", "V2Aggregator",
            "CallMethodViaReflection", "TryReflect", "ScriptTransformation", "SQLFunctionExpression",
            "VariableReference")  # fmt: skip


def outside(analysed: PlanNode) -> str | None:
    """What an analysed query reads or runs besides the views of its session: a stored table, files, a script."""
    waiting: list[tuple[PlanNode, bool]] = [(analysed, True)]
    while waiting:
        node, is_plan = waiting.pop()
        if node.name in _FOREIGN:
            return node.name
        if node.name == "View" and _is_of_session(node):
            continue
        is_plan = is_plan and node.path.startswith(_PLANS)
        if is_plan and not node.children and node.name not in _READ:
            return node.name
        below = is_plan or node.name.endswith(("Subquery", "Exists", "ListQuery"))
        waiting += [(each, below) for each in (*node.children, *node.inside)]
    return None


def _is_of_session(view: PlanNode) -> bool:
    """Whether a view is one of the session's own, not one that all sessions have, or a stored one."""
    return bool(view.fields["isTempView"]) and "database" not in view.fields["desc"]["identifier"]


@dataclass(frozen=True)
class Changing:
    """Why a query has another answer each time; `names` are what it may be called in SQL, for its place.

    `named`: `what` follows upon the name as it is written.
    """

    names: tuple[str, ...]
    what: str
    named: bool = False


_NOW = "the value depends on when the query runs; store the moment with the row, or use PART_TIMESTAMP of a stream"
_WHO = "the value depends on who runs the query; write the value itself"
_CHANCE = "the value is another one each time; store it with the row instead"
_WHERE = "the value depends on how Spark splits the work; number rows by row_number() OVER (ORDER BY ...)"
_MOMENT = ("a constant text such as 'now' or 'today' is another moment each time; store the moment with the row, "
           "or use PART_TIMESTAMP of a stream, and write other moments as DATE '...' or TIMESTAMP '...'")  # fmt: skip
_MAKE_MOMENTS = ("cast", "try_cast", "date", "timestamp", "to_date", "to_timestamp", "try_to_date", "try_to_timestamp",
                 "to_timestamp_ltz", "to_timestamp_ntz")  # fmt: skip
_FIRST = "which row it takes is chance; use min_by or max_by, or write it OVER (... ORDER BY ...)"
_LISTED = "the order of its values is chance; {}, or write it OVER (... ORDER BY ...)"
_LISTED_OVER = "the order of its values is chance; put an ORDER BY that tells rows apart into its OVER (...)"
_ORDERED = {True: "put WITHIN GROUP (ORDER BY ...) behind it", False: "put sort_array(...) around it"}

_BINS = "its bins depend on how Spark splits the rows; use count(*) ... GROUP BY width_bucket(...) instead"
_RELEASE = "its answer is that of one version of Spark; store it in a table"
_SPLIT = "its answer depends on how Spark splits the rows; use"
_RANKED = f"{_SPLIT} percentile, which is exact"
_COUNTED = f"{_SPLIT} approx_count_distinct, or theta_sketch_agg"
_EQUALLY_MANY = "which of those that are there as often it takes is chance; use count(*) ... GROUP BY"
_ROUNDED = "it is rounded in the order in which the rows come; make rows of it by posexplode, and sum those up"
_VECTOR = "without an initialization vector the value is another one each time; give one, or the mode 'ECB'"

_FUNCTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "CurrentTimestamp": (("current_timestamp", "now", "unix_timestamp", "to_unix_timestamp"), _NOW),
    "Now": (("now",), _NOW), "CurrentDate": (("current_date", "curdate"), _NOW),
    "CurrentTime": (("current_time", "localtime"), _NOW), "LocalTimestamp": (("localtimestamp",), _NOW),
    "CurrentUser": (("current_user", "user", "session_user"), _WHO),
    "CurrentDatabase": (("current_database", "current_schema"), _WHO), "CurrentCatalog": (("current_catalog",), _WHO),
    "SparkVersion": (("version",), _RELEASE), "Collations": (("collations",), _RELEASE),
    "SQLKeywords": (("sql_keywords",), _RELEASE), "Rand": (("rand", "random"), _CHANCE), "Randn": (("randn",), _CHANCE),
    "RandStr": (("randstr",), _CHANCE), "Uniform": (("uniform",), _CHANCE), "Uuid": (("uuid",), _CHANCE),
    "Shuffle": (("shuffle",), _CHANCE), "Sample": (("tablesample",), _CHANCE),
    "MonotonicallyIncreasingID": (("monotonically_increasing_id",), _WHERE),
    "SparkPartitionID": (("spark_partition_id",), _WHERE), "InputFileName": (("input_file_name",), _WHERE),
    "InputFileBlockStart": (("input_file_block_start",), _WHERE),
    "InputFileBlockLength": (("input_file_block_length",), _WHERE),
    "CurrentTimeZone": (("current_timezone",), _WHO), "CurrentPath": (("current_path",), _WHO),
    "HistogramNumeric": (("histogram_numeric",), _BINS),
    "ApproximatePercentile": (("approx_percentile", "percentile_approx"), _RANKED),
    **{f"Kll{kind}Agg{of.title()}": ((f"kll_{kind.lower()}_agg_{of}",), _RANKED)
       for kind in ("Sketch", "Merge") for of in ("bigint", "double", "float")},
    "HllSketchAgg": (("hll_sketch_agg",), _COUNTED), "HllUnionAgg": (("hll_union_agg",), _COUNTED),
    **{f"Tuple{kind}Agg{of.title()}": ((f"tuple_{kind.lower()}_agg_{of}",), f"{_SPLIT} theta_sketch_agg")
       for kind in ("Sketch", "Union", "Intersection") for of in ("double", "integer")},
    "ApproxTopK": (("approx_top_k",), _EQUALLY_MANY),
    "ApproxTopKAccumulate": (("approx_top_k_accumulate",), _EQUALLY_MANY),
    "ApproxTopKCombine": (("approx_top_k_combine",), _EQUALLY_MANY),
    "VectorSum": (("vector_sum",), _ROUNDED), "VectorAvg": (("vector_avg",), _ROUNDED),
    "Measure": (("measure",), "it is for views of metrics, which are none of this database's; write the aggregate"),
    "CallMethodViaReflection": (("reflect", "java_method"), "what a Java method answers is not known; leave it out"),
    "TryReflect": (("try_reflect",), "what a Java method answers is not known; leave it out"),
    "ScriptTransformation": (("transform", "map", "reduce"), "what a script answers is not known; leave it out"),
    "ScriptInputOutputSchema": (("transform",), "what a script answers is not known; leave it out"),
}  # fmt: skip
_TAKES_FIRST = {"First": ("first", "first_value"), "Last": ("last", "last_value"), "AnyValue": ("any_value",)}
_LISTS = {"CollectList": ("collect_list", "array_agg"), "CollectSet": ("collect_set",),
          "CollectUnion": ("collect_union",), "ListAgg": ("listagg", "string_agg")}  # fmt: skip
_UNORDERED = {"SortArray", "ArraySort", "Size", "ArrayMin", "ArrayMax", "ArrayContains", "ArraySize", "Cardinality",
              "ArrayExists", "ArrayForAll"}  # fmt: skip
"""What finds lists equal that hold the same values in another order."""

_EACH_BY_ITSELF = {"ArrayDistinct", "ArrayTransform", "ArrayFilter", "ArrayCompact", "ArrayRemove"}
"""What makes of such lists such lists; where a function is given the place of a value, too, it does not."""

_PASSED = {"Project", "LocalLimit", "GlobalLimit", "Offset", "Filter", "SubqueryAlias"}


def changing(analysed: PlanNode, deterministic: bool) -> Changing | None:
    """What in an analysed query makes its answer another one each time; `deterministic` is Spark's own word."""
    for node, above in analysed.walk():
        if node.name in _FUNCTIONS:
            names, what = _FUNCTIONS[node.name]
            return Changing(names, f"cannot stand in a view: {what}", named=True)
        if node.name == "AesEncrypt" and _is_by_chance(node):
            return Changing(("aes_encrypt",), f"cannot stand in a view so: {_VECTOR}", named=True)
        if node.name in ("Cast", "ParseToDate", "ParseToTimestamp") and _is_moment_of_now(node):
            return Changing(_MAKE_MOMENTS, _MOMENT)
        if node.name in _TAKES_FIRST and not _is_ordered_window(above) and not _is_of_groups_key(node, above):
            names = _TAKES_FIRST[node.name]
            return Changing(names, f"cannot stand in a view so: {_FIRST}", named=True)
        if node.name in _LISTS and not _is_put_in_order(node, above):
            is_over = any(each.name == "WindowExpression" for each in above)
            what = _LISTED_OVER if is_over else _LISTED.format(_ORDERED[node.name == "ListAgg"])
            return Changing(_LISTS[node.name], f"cannot stand in a view so: {what}", named=True)
        if node.name in ("GlobalLimit", "Offset") and not _is_sorted(node) and not _asks_for_rows(node, above):
            name = "LIMIT" if node.name == "GlobalLimit" else "OFFSET"
            return Changing((name.lower(),), f"{name} without ORDER BY takes any rows; add an ORDER BY before it")
    if not deterministic:
        return Changing((), "the query has another answer each time it runs; leave out the function that does it")
    return None


def _is_by_chance(encrypted: PlanNode) -> bool:
    """Whether AES begins with bytes that are drawn each time: no initialization vector, and a mode that has one."""
    mode, vector = encrypted.children[2], encrypted.children[4]
    if mode.name == "Literal" and str(mode.fields["value"]).upper() == "ECB":
        return False
    below = [node for node, _ in vector.walk()]
    return all(node.name in ("Cast", "Literal") for node in below) and str(below[-1].fields.get("value")) == ""


def _is_moment_of_now(made: PlanNode) -> bool:
    """Whether a constant text is made a date or time, and is not surely a plain one: Spark takes 'now' and its like."""
    text = made.children[0]
    if made.name == "Cast" and not str(made.fields["dataType"]).startswith(("date", "timestamp")):
        return False
    if text.name == "Literal":
        return text.fields["dataType"] == "string" and SPECIAL.fullmatch(str(text.fields["value"])) is not None
    below = [node for node, _ in text.walk()]
    strings = any(node.name == "Literal" and node.fields["dataType"] == "string" for node in below)
    return strings and not any(node.name in ("AttributeReference", "OuterReference") for node in below)


def _is_ordered_window(above: tuple[PlanNode, ...]) -> bool:
    window = next((node for node in reversed(above) if node.name == "WindowExpression"), None)
    if window is None:
        return False
    return any(node.name == "SortOrder" for spec in window.children[1:] for node, _ in spec.walk())


def _is_put_in_order(node: PlanNode, above: tuple[PlanNode, ...]) -> bool:
    if _is_ordered_window(above) or any(child.name == "SortOrder" for child in (*node.children, *node.inside)):
        return True
    around = (each for each in reversed(above) if each.name != "AggregateExpression" and not _is_value_by_value(each))
    parent = next(around, None)
    if parent is None or parent.name not in _UNORDERED or not _sees_no_places(parent):
        return False
    return parent.name != "ArraySort" or [each.name for each, _ in parent.children[1].walk()][:2] == _BY_VALUE


def _is_value_by_value(node: PlanNode) -> bool:
    return node.name in _EACH_BY_ITSELF and _sees_no_places(node)


def _sees_no_places(node: PlanNode) -> bool:
    """Whether no function in it is given the place of a value; that of array_sort is given two values."""
    functions = [child for child in node.children if child.name == "LambdaFunction"]
    return node.name == "ArraySort" or all(len(each.children) == 2 for each in functions)


def _is_of_groups_key(node: PlanNode, above: tuple[PlanNode, ...]) -> bool:
    """Whether all rows of a group have the same value: it is one by which they are grouped."""
    value = node.children[0]
    aggregate = next((each for each in reversed(above) if each.name == "Aggregate"), None)
    if aggregate is None or value.name != "AttributeReference" or any(e.name == "WindowExpression" for e in above):
        return False
    grouped = [each[0] for each in aggregate.fields["groupingExpressions"]]
    return any("exprId" in tree and tree["exprId"] == value.fields["exprId"] for tree in grouped)


_BY_VALUE = ["LambdaFunction", "If"]
"""How the order begins that array_sort has of itself; one's own may find different values equal."""


def _asks_for_rows(node: PlanNode, above: tuple[PlanNode, ...]) -> bool:
    """Whether a LIMIT is that of an EXISTS, to which all rows are the same."""
    around = next((each.name for each in reversed(above) if each.name != "Project"), None)
    return node.name == "GlobalLimit" and around == "Exists"


def _is_sorted(node: PlanNode) -> bool:
    while node.name in _PASSED and node.children:
        node = node.children[-1]
    return node.name in ("Sort", "OneRowRelation")

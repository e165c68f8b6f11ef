"""DEFAULT of a column: a constant, computed when it is declared, of the type of the column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from sqlglot import exp

from viewkeeper.catalog.model import Catalog, Default
from viewkeeper.catalog.text_lengths import fitted_one
from viewkeeper.catalog.types import VOID, Type, physical_type, to_logical
from viewkeeper.compiler.bind_select import SelectBinder
from viewkeeper.compiler.conversion import Refused, can_be_stored, converted
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.compiler.statements import Identifier
from viewkeeper.errors import NotSupported
from viewkeeper.evaluation.error_codes import ERROR_CODES, unpack_error
from viewkeeper.evaluation.evaluate import evaluate
from viewkeeper.plans.relations import Constants, Project


def bound_default(
    query: QueryText, column: Identifier, type_: Type, zone: str, declared: Type | None = None
) -> Default | None:
    """The default that `query`, a SELECT without FROM, says for a column of `type_`, which may be `declared` with a
    length; None is NULL.

    Raises DeclarationError or NotSupported, with the place, where it is no constant, or none that the column takes.
    """
    _require_one_value(query)
    relation = SelectBinder(query, Catalog(zone=zone)).query(query.tree).relation
    if not isinstance(relation, Project) or not isinstance(relation.input, Constants) or relation.input.columns:
        raise query.error(f"the DEFAULT of {column} is no constant that is computed here; write its value", query.tree,
                          NotSupported)  # fmt: skip
    (value,) = relation.outputs
    if value.type == VOID:
        return None
    if type_.is_nested:
        raise query.error(f"{column} is of type {type_}: its DEFAULT can only be NULL yet", query.tree, NotSupported)
    if not can_be_stored(value.type, type_):
        message = f"the DEFAULT of {column} is of type {value.type}, which is not stored as {type_}; write a {type_}"
        raise query.error(message, query.tree)
    try:
        values, errors = evaluate(converted(value, type_, zone), (), 1, zone=zone)
    except Refused as refused:
        raise query.error(f"the DEFAULT of {column}: {refused}", query.tree, refused.kind) from None
    if errors is not None:
        raised = ERROR_CODES[unpack_error(int(errors[0]))[0]]
        message = f"the DEFAULT of {column} raises {raised}; write a value that a {type_} can hold"
        raise query.error(message, query.tree)
    physical = values[0].as_py()
    if declared is not None and physical is not None and (physical := fitted_one(physical, declared)) is None:
        raise query.error(f"the DEFAULT of {column} is longer than {declared}", query.tree)
    return None if physical is None else Default(query.sql, physical)


def _require_one_value(query: QueryText) -> None:
    tree = query.tree
    clauses = [key for key, value in tree.args.items() if value and key != "expressions"]
    alone = len(tree.expressions) == 1 and not isinstance(tree.expressions[0], exp.Alias) and not clauses
    if not alone or any(node is not tree for node in tree.find_all(exp.Query)):
        raise query.error("DEFAULT takes one constant, without a name or a query", tree)


def python_value(default: Default, type_: Type) -> Any:
    """What a literal of the default holds."""
    return to_logical(pa.array([default.value], physical_type(type_)), type_)[0].as_py()

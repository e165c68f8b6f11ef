"""Parameters of a query for Spark: constants in its plan, and no text in the query's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from viewkeeper.catalog.types import BINARY, BOOLEAN, DAY_TIME, DOUBLE, STRING, Type
from viewkeeper.compiler import literals
from viewkeeper.compiler.lexing import parameters_in
from viewkeeper.compiler.source_text import Script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Constant = tuple[Type, Any]
"""A type, and a value of it (None for NULL)."""


def constants(text: str, parameters: Mapping[str, object], zone: str) -> dict[str, Constant]:
    """What those of `parameters` are that stand in `text`, as queries of ours have them; naive times are those of
    `zone`.  Raises DeclarationError where one is no constant of SQL."""
    source, found = Script(text), dict[str, Constant]()
    for name, place in parameters_in(text).items():
        if name in parameters:
            try:
                found[name] = literals.given(parameters[name], zone)
            except ValueError as reason:
                raise source.error(f"the parameter :{name}: {reason}", place) from None
    return found


def with_constants(session: SparkSession, plan: Any, parameters: Mapping[str, Constant]) -> Any:
    """Spark's parsed `plan` with the values of its parameters."""
    jvm = session._jvm
    assert jvm is not None, "a session has a JVM until it is stopped"
    values = [_literal(jvm, *constant) for constant in parameters.values()]
    sequence = jvm.PythonUtils.toSeq
    return jvm.org.apache.spark.sql.catalyst.analysis.NameParameterizedQuery(
        plan, sequence(list(parameters)), sequence(values)
    )


_AS_THEY_ARE = (BOOLEAN, DOUBLE, STRING, BINARY, DAY_TIME)
"""Types whose values get to Java unchanged."""


def _literal(jvm: Any, type_: Type, value: Any) -> Any:
    parser = jvm.org.apache.spark.sql.execution.SparkSqlParser()
    if type_ in _AS_THEY_ARE:
        java_type = parser.parseDataType(str(type_))
        return jvm.org.apache.spark.sql.catalyst.expressions.Literal.create(value, java_type)
    return parser.parseExpression(literals.written(type_, value))

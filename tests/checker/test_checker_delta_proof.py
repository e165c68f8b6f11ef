"""The proof of DELTA replays the log by plain code, and finds any row that does not follow from it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from drawn import examples
from oracle.model import Base, Operation, TableSchema
from oracle.strategies import histories, table_schemas
from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import BIGINT, STRING
from viewkeeper.checker.delta_proof import KeyedTable, LoggedOperation, prove, replay
from viewkeeper.checker.tables import table_of

Drawn = tuple[TableSchema, list[Operation], int]


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    schema = draw(table_schemas("t", keyless=False))
    history = Base([schema]).taken(draw(histories([schema])))
    return schema, history, draw(st.integers(0, len(history)))


def keyed(schema: TableSchema) -> KeyedTable:
    return KeyedTable(schema.columns, schema.key_names)


def logged(schema: TableSchema, operations: list[Operation]) -> list[LoggedOperation]:
    out = []
    for operation in operations:
        for row in operation.rows:
            key = tuple(row[name] for name in schema.key_names)
            columns: dict[str, Any] = {"put": row, "put_many": row}.get(operation.kind, {})
            kind = "put" if columns else operation.kind
            columns = columns or dict.fromkeys(operation.columns)
            out.append(LoggedOperation(kind, key, columns, 0, len(out)))
    return out


def tables(drawn: Drawn) -> tuple[pa.Table, pa.Table]:
    """What a table holds after the first operations, and after all."""
    schema, history, cut = drawn
    base = Base([schema])
    for operation in history[:cut]:
        base.apply(operation)
    before = base.arrow("t")
    for operation in history[cut:]:
        base.apply(operation)
    return before, base.arrow("t")


@settings(max_examples=examples(100), deadline=None)
@given(drawn())
def test_delta_and_the_log_after_it_give_the_store(drawn: Drawn) -> None:
    """At any cut of any history, the rows at the cut and the operations after it give the rows at its end."""
    schema, history, cut = drawn
    before, after = tables(drawn)
    proof = prove(keyed(schema), before, logged(schema, history[cut:]), after)
    assert proof.comparison.equal and not proof.left_out


@settings(max_examples=examples(100), deadline=None)
@given(drawn(), st.data())
def test_a_wrong_row_is_found(drawn: Drawn, data: st.DataObject) -> None:
    """A store row that is missing is found, whether or not the log touches its key."""
    schema, history, cut = drawn
    before, after = tables(drawn)
    assume(len(after))
    gone = data.draw(st.integers(0, len(after) - 1))
    rest = pa.concat_tables([after.slice(0, gone), after.slice(gone + 1)])
    proof = prove(keyed(schema), before, logged(schema, history[cut:]), rest)
    assert [(d.expected, d.found) for d in proof.comparison.differing] == [(1, 0)]


T = KeyedTable((Column("k", BIGINT, False), Column("a", STRING, False), Column("b", STRING)), ("k",))


def op(kind: str, key: int, sequence: int, **columns: Any) -> LoggedOperation:
    return LoggedOperation(kind, (key,), columns, 0, sequence)


def test_rows_follow_the_rules() -> None:
    """Partial puts keep what they do not name; a put after a delete starts empty; order is by sequence."""
    operations = [op("put", 1, 3, a="z"), op("put", 1, 0, a="x", b="y"), op("delete", 1, 2), op("put", 1, 1, b="q"),
                  op("put", 2, 4, a="x", b="y"), op("delete_columns", 2, 5, b=None),
                  op("delete_columns", 3, 6, b=None)]  # fmt: skip
    replayed = replay({}, operations, T)
    assert replayed.rows == {(1,): {"k": 1, "a": "z", "b": None}, (2,): {"k": 2, "a": "x", "b": None}}
    assert not replayed.rejected


def test_what_breaks_not_null_is_rejected_whole() -> None:
    """A put that leaves a NOT NULL column unset, and a column delete of one or of the key, change nothing."""
    bad = [op("put", 1, 0, b="y"), op("put", 2, 2, a=None), op("delete_columns", 3, 4, a=None, b=None),
           op("delete_columns", 3, 5, k=None)]  # fmt: skip
    good = [op("put", 2, 1, a="x"), op("put", 3, 3, a="x", b="y")]
    replayed = replay({}, good + bad, T)
    assert replayed.rows == {(2,): {"k": 2, "a": "x", "b": None}, (3,): {"k": 3, "a": "x", "b": "y"}}
    assert replayed.rejected == {(1,), (2,), (3,)}


def test_rejected_keys_are_left_out_by_name() -> None:
    """A store may hold what was rejected: its key is not compared, and is named."""
    delta = table_of(T.columns, [(2, "x", None)])
    store = table_of(T.columns, [(1, "", "y"), (2, "x", None), (9, "!", None)])
    proof = prove(T, delta, [op("put", 1, 0, b="y")], store, rejected=[(9,)])
    assert proof.comparison.equal and proof.left_out == [(1,), (9,)]

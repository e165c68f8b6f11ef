"""Window functions that no kernel knows: what Spark is asked of the rows of a partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from viewkeeper.catalog.model import Column
from viewkeeper.compiler.bind_over import WindowedCall
from viewkeeper.compiler.calls import lists
from viewkeeper.compiler.outside_calls import column_of
from viewkeeper.compiler.part_references import quoted
from viewkeeper.errors import NotSupported
from viewkeeper.plans.expressions import ColumnRef, reference_to
from viewkeeper.plans.outside import BY_SPARK, SparkAggregate
from viewkeeper.plans.relations import AggregateCall, AskedOver, Frame, Order, Relation
from viewkeeper.plans.text import term_text


def asked_over(
    relation: Relation, partition: tuple[int, ...], key: tuple[int, ...] | None,
    calls: Sequence[tuple[WindowedCall, tuple[Order, ...]]],
) -> AskedOver:  # fmt: skip
    """`relation` with what Spark says to `calls`, each with its order, OVER the partitions; `key` tells its rows apart.

    Raises NotSupported where it is not settled which rows are in a frame, or rows cannot be told apart.
    """
    asking = _Asking(relation.columns, partition, key)
    asked = [asking.asked(*each) for each in calls]
    made = tuple(AggregateCall(BY_SPARK, argument, call.type, call.nullable, call.place)
                 for (call, _), (argument, _) in zip(calls, asked, strict=True))  # fmt: skip
    return AskedOver(relation, partition, made, tuple(call.name for call, _ in calls), tuple(told for _, told in asked))


@dataclass(frozen=True)
class _Asking:
    """The rows that Spark is asked about: their columns, those of the partition, and those that tell rows apart."""

    columns: tuple[Column, ...]
    partition: tuple[int, ...]
    key: tuple[int, ...] | None

    def asked(self, call: WindowedCall, order: tuple[Order, ...]) -> tuple[SparkAggregate, tuple[int, ...]]:
        """What Spark is asked, and the columns by which what it says is told apart within a partition: where values of
        the order make the frame, rows that are equal in these have the same frame."""
        (asked,) = call.arguments
        assert isinstance(asked, SparkAggregate)
        frame = call.form.frame
        listing = lists(asked.name)
        if not listing and ((frame.start, frame.end) == (None, None) or (frame.unit == "RANGE" and not order)):
            return asked, ()
        by = tuple(dict.fromkeys(term.index for term in order))
        known = self.key is not None and set(self.key) <= {*self.partition, *by}
        place = call.place or (None, None)
        if (frame.unit == "ROWS" or listing) and not known:
            what = f"no key tells apart the rows of a frame of {asked.name}"
            if self.key is not None:
                what = f"which rows come first in a frame of {asked.name} is chance; order by a key too"
            raise NotSupported(what, *place)
        told = by if frame.unit == "RANGE" else self.key or ()
        if any(self.columns[i].type.is_interval or self.columns[i].type.is_nested for i in told):
            raise NotSupported(f"{asked.name} OVER an order of intervals or nested values is not told apart", *place)
        refs = self._refs(term.index for term in order)
        columns = [column_of(len(asked.arguments) + i, ref) for i, ref in enumerate(refs)]
        names = [quoted(column.name) for column in columns]
        terms = ", ".join(term_text(f"{name} ASC" if o.ascending else name, o.ascending, o.nulls_first)
                          for name, o in zip(names, order, strict=True))  # fmt: skip
        window = f"(PARTITION BY key{f' ORDER BY {terms}' if terms else ''} {_frame_text(call)})"
        peers = ", ".join(names) if frame.unit == "RANGE" else ""
        return replace(asked, arguments=(*asked.arguments, *refs), given=(*asked.given, *columns), over=window,
                       peers=peers), told  # fmt: skip

    def _refs(self, indexes: Iterable[int]) -> list[ColumnRef]:
        return [reference_to(self.columns[i], i) for i in indexes]


def _frame_text(call: WindowedCall) -> str:
    frame: Frame = call.form.frame
    ends = ((frame.start, "PRECEDING"), (frame.end, "FOLLOWING"))
    start, end = (text or _bound_text(*at) for text, at in zip(call.form.texts, ends, strict=True))
    return f"{frame.unit} BETWEEN {start} AND {end}"


def _bound_text(bound: int | None, open_: str) -> str:
    if bound is None:
        return f"UNBOUNDED {open_}"
    return "CURRENT ROW" if bound == 0 else f"{abs(bound)} {'PRECEDING' if bound < 0 else 'FOLLOWING'}"

"""The maintenance plan: operators, and the exchanges between zones.  Plain data, part of the catalog.

A *stream* is what an operator yields in a batch: signed rows.  An operator takes the streams of earlier operators of
its own zone directly; from earlier zones rows come through an `Exchange`, which moves them to the view server that owns
the hash of their key.  Operators are listed so that inputs stand before their users.  A stream with `member` has the
number of a view of a family in its first column; expressions do not count that column.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import ClassVar

from viewkeeper.catalog.codec import stored
from viewkeeper.catalog.model import Catalog, CatalogPlan, Column, StateSpec
from viewkeeper.plans.cell_states import CellStates
from viewkeeper.plans.exchange import Exchange
from viewkeeper.plans.expressions import Expression, Literal
from viewkeeper.plans.kept_calls import KeptCall, Running
from viewkeeper.plans.key_functions import KeyFunction
from viewkeeper.plans.outside import OutsideCall, SparkAggregate, SparkInput
from viewkeeper.plans.shown import Shown
from viewkeeper.plans.text import expression_text, listed

Identity = tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
"""Which base row a row comes from: for each table its name and (key column, position in the stream)."""


@stored
@dataclass(frozen=True)
class Operator:
    """`columns` are those of the stream, the member column included.

    `title` is what people see it called.
    """

    id: int
    zone: int
    columns: tuple[Column, ...]
    member: bool
    identity: Identity

    title: ClassVar[str]
    usual_class: ClassVar[str] = "linear"

    @property
    def class_(self) -> str:
        """What a change costs: linear, bilinear (its rows and their partners) or by key."""
        return self.usual_class

    def text(self, shown: Shown) -> str:
        """What it does, for people."""
        raise NotImplementedError


@stored
@dataclass(frozen=True)
class GivenRows(Operator):
    """The signed rows of an object, given from outside (an ad hoc query's input)."""

    object: int

    title = "SOURCE"

    def text(self, shown: Shown) -> str:
        return f"of object {self.object}"


@stored
@dataclass(frozen=True)
class ConstantRows(Operator):
    """The rows of VALUES, or the one row of a SELECT without FROM: they come when a view is filled, and stay."""

    rows: tuple[tuple[Literal, ...], ...]

    title = "CONSTANTS"

    def text(self, shown: Shown) -> str:
        return f"{len(self.rows)} row{'s' * (len(self.rows) != 1)}"


@stored
@dataclass(frozen=True)
class Delta(Operator):
    """DELTA of a base table (paper 000, section 5): operations to old rows (-1) and new rows (+1)."""

    table: int
    name: str
    key: tuple[int, ...]
    required: tuple[int, ...]
    state: StateSpec
    cells: CellStates | None = None

    title = "DELTA"
    usual_class = "by key"

    def text(self, shown: Shown) -> str:
        newest = (
            "" if self.cells is None else "; of each cell the newest write, whose time is kept, also of deleted rows"
        )
        return f"of {self.name}{newest}"


@stored
@dataclass(frozen=True)
class Arrivals(Operator):
    """Rows that come to the parts of a stream or view over one (`object`), with `forgets` those that go with expired
    ones; last PART_TIMESTAMP if `timed`.  `since`: the part before which all had expired when it was declared."""

    object: int
    name: str
    timed: bool
    forgets: bool
    since: int | None

    title = "ARRIVALS"

    def text(self, shown: Shown) -> str:
        since = "" if self.since is None else f"; those of parts before {self.since} had expired when it was declared"
        kept = "go" if self.forgets else "stay"
        return f"of {self.name}: rows as they are accepted, late ones too, which {kept} when their part expires{since}"


@stored
@dataclass(frozen=True)
class Member:
    """One view of a family: its number and its predicate."""

    id: int
    predicate: Expression


@stored
@dataclass(frozen=True)
class Select(Operator):
    """Filter and projection, linear.  With `members`, a row goes to each member whose predicate it meets."""

    input: int
    predicate: Expression | None
    outputs: tuple[Expression, ...]
    members: tuple[Member, ...] = ()

    title = "SELECT"

    def text(self, shown: Shown) -> str:
        where = f" where {expression_text(self.predicate)}" if self.predicate is not None else ""
        mine = [m.predicate for m in self.members if m.id in shown.members]
        where += "".join(f" where {expression_text(p)}" for p in mine)
        family = f", one of a family of {len(self.members):,} selections" if len(self.members) > 1 else ""
        return f"{listed(self.outputs)} from {shown.names[self.input]}{where}{family}"


@stored
@dataclass(frozen=True)
class Pick(Operator):
    """The rows of one member of a family, without the member column."""

    input: int
    wanted: int

    title = "PICK"

    def text(self, shown: Shown) -> str:
        return f"one view of {shown.names[self.input]}"


@stored
@dataclass(frozen=True)
class PreAggregate(Operator):
    """PRE-AGGREGATION (paper 000, section 5): running counts, sums and extremes of each group, shared by the aggregates
    over one input and key.  `always` marks the global aggregate, whose one row never goes."""

    exchange: int
    key: int
    running: tuple[Running, ...]
    state: StateSpec
    always: bool

    title = "PRE-AGGREGATION"

    @property
    def class_(self) -> str:
        return "by key" if any(running.ordered for running in self.running) else "linear"

    def text(self, shown: Shown) -> str:
        return shown.sent(self.exchange)


@stored
@dataclass(frozen=True)
class Aggregate(Operator):
    """The rows of one GROUP BY: the keys, then `calls`, from the groups that a PreAggregate says have changed."""

    input: int
    calls: tuple[KeptCall, ...]

    title = "AGGREGATE"
    usual_class = "by key"

    def text(self, shown: Shown) -> str:
        arguments = shown.arguments(self.input)
        calls = ["count(*)" if c.argument is None else f"{c.function}({arguments[c.argument]})" for c in self.calls]
        return f"{', '.join(calls) or 'the keys'} from {shown.names[self.input]}"


@stored
@dataclass(frozen=True)
class ReverseJoin(Operator):
    """REVERSE-JOIN (paper 000, section 5): the rows of one side of joins, by join key; bilinear joins look here.
    `outputs` are the exchange's outputs that it keeps, the keys first."""

    exchange: int
    key: int
    outputs: tuple[int, ...]
    state: StateSpec

    title = "REVERSE-JOIN"

    def text(self, shown: Shown) -> str:
        return shown.sent(self.exchange)


@stored
@dataclass(frozen=True)
class Join(Operator):
    """Inner equi-join of two REVERSE-JOINs: dA x (B + dB) + A x dB.  `outputs` are (side, position in its state)."""

    left: int
    right: int
    outputs: tuple[tuple[int, int], ...]

    title = "JOIN"
    usual_class = "bilinear"

    def text(self, shown: Shown) -> str:
        return f"{shown.names[self.left]} with {shown.names[self.right]}"


@stored
@dataclass(frozen=True)
class SemiJoin(Operator):
    """The rows of the REVERSE-JOIN `left` whose key `right` has, or, `anti`, has not (rows with a NULL in their key
    match nothing).  `outputs` are (0, position in the left's state), or (1, ...) for a NULL."""

    left: int
    right: int
    anti: bool
    outputs: tuple[tuple[int, int], ...]

    title = "SEMI JOIN"
    usual_class = "by key"

    def text(self, shown: Shown) -> str:
        which = "has not" if self.anti else "has"
        return f"{shown.names[self.left]} where {shown.names[self.right]} {which} the key"


@stored
@dataclass(frozen=True)
class Union(Operator):
    """All rows of `inputs`, streams of this zone with these columns."""

    inputs: tuple[int, ...]

    title = "UNION"

    def text(self, shown: Shown) -> str:
        return "of " + " and ".join(shown.names[id_] for id_ in self.inputs)


@stored
@dataclass(frozen=True)
class Moved(Operator):
    """The rows of an operator of an earlier zone, as they came through `exchange`: in a zone of other streams."""

    exchange: int

    title = "MOVE"

    def text(self, shown: Shown) -> str:
        return f"of {shown.names[shown.exchanges[self.exchange].source]} to this zone"


@stored
@dataclass(frozen=True)
class Repeated(Operator):
    """Each row as often as `times` says: not at all where it is 0 or less."""

    input: int
    times: Expression

    title = "REPEAT"

    def text(self, shown: Shown) -> str:
        return f"{shown.names[self.input]} {expression_text(self.times)} times"


@stored
@dataclass(frozen=True)
class Exploded(Operator):
    """The columns `outputs` of each row, once for each element of the array or map at position `array`, with its place
    and it; a row without any not at all, or with `outer` once."""

    input: int
    array: int
    outer: bool
    outputs: tuple[int, ...]

    title = "EXPLODE"

    def text(self, shown: Shown) -> str:
        return f"{shown.names[self.input]}, for each element{', or once without any' if self.outer else ''}"


@stored
@dataclass(frozen=True)
class ByKey(Operator):
    """`function` of all rows that the REVERSE-JOINs `inputs`, of one key, hold of each touched key: the rows that it
    says before go, those after come."""

    inputs: tuple[int, ...]
    function: KeyFunction

    title = "BY KEY"
    usual_class = "by key"

    def text(self, shown: Shown) -> str:
        return self.function.text([shown.names[id_] for id_ in self.inputs])


@stored
@dataclass(frozen=True)
class SparkAnswer(Operator):
    """What Spark SQL answers to `sql` over all rows of `inputs`, asked again when any of them has changed: what the
    answer has lost goes, what is new comes.

    The answer is kept in `state`, as what Spark said, and goes from there; its last column is the text of an error in
    place of rows.
    """

    sql: str
    inputs: tuple[SparkInput, ...]
    state: StateSpec
    reason: str

    title = "SPARK"
    usual_class = "by key"

    def text(self, shown: Shown) -> str:
        names = " or ".join(each.name for each in self.inputs) or "nothing"
        return f"asked for all of it anew when {names} has changed, since {self.reason}"


@stored
@dataclass(frozen=True)
class Memo(Operator):
    """What `call`, over the outputs of `exchange`, says: computed once for each value of the exchange's key, kept in
    `state` for as long as there are rows with that value, and read from there.

    `state` holds the key, what the call said, and its error (0: none), as often as there are rows.
    """

    exchange: int
    call: OutsideCall
    state: StateSpec

    title = "MEMO"

    def text(self, shown: Shown) -> str:
        return f"of {shown.over(self.exchange, self.call)}, by {self.call.way}"


@stored
@dataclass(frozen=True)
class Recall(Operator):
    """The rows that came through a MEMO's exchange, of which `outputs` are kept, each with what the MEMO says of it: a
    value, and an error."""

    memo: int
    outputs: tuple[int, ...]

    title = "RECALL"

    def text(self, shown: Shown) -> str:
        memo = shown.operators[self.memo]
        assert isinstance(memo, Memo)
        return f"a column of {shown.names[self.memo]} for {shown.sent(memo.exchange)[3:]}"


@stored
@dataclass(frozen=True)
class SparkGroups(Operator):
    """What Spark says to `calls` of all rows that the REVERSE-JOIN `input` holds of each group, asked for the groups
    that a batch touches: the keys (positions in the REVERSE-JOIN's state), a value for each call, and an error (0:
    none).  `always` marks the group of all rows, which is there without any.

    What was said is kept in `state`, by the REVERSE-JOIN's key, and goes from there.
    """

    input: int
    keys: tuple[int, ...]
    calls: tuple[SparkAggregate, ...]
    state: StateSpec
    always: bool

    title = "SPARK GROUPS"
    usual_class = "by key"

    def text(self, shown: Shown) -> str:
        calls = ", ".join(shown.over_kept(self.input, call) for call in self.calls)
        names = " and ".join(dict.fromkeys(call.name for call in self.calls))
        which = "" if self.always else " of the groups that a batch touches"
        return (f"{calls} of all rows{which} in {shown.names[self.input]}, by Spark, because no kernel knows "
                f"{names}")  # fmt: skip


@stored
@dataclass(frozen=True)
class ViewTable(Operator):
    """A view table, or an index: writes the input's columns `positions` as the columns of `state`."""

    input: int
    positions: tuple[int, ...]
    state: StateSpec

    title = "VIEW TABLE"

    def text(self, shown: Shown) -> str:
        return f"of {shown.names[self.input]}"


@stored
@dataclass(frozen=True)
class Plan(CatalogPlan):
    """All operators, inputs before their users, and exchanges; `dropped` are (state, member) pairs whose rows merges
    leave out."""

    operators: tuple[Operator, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    dropped: tuple[tuple[int, int], ...] = ()


def plan_of(catalog: Catalog) -> Plan:
    """The plan of a catalog; that of one without tables has no operators."""
    found = catalog.plan
    if found is None:
        return Plan()
    assert isinstance(found, Plan)
    return found


def inputs(operator: Operator) -> tuple[int, ...]:
    """The operators of the same zone whose streams `operator` takes; of earlier zones, whose states Spark reads."""
    if isinstance(operator, (Select, Pick, Aggregate, Repeated, Exploded, SparkGroups, ViewTable)):
        return (operator.input,)
    if isinstance(operator, (Join, SemiJoin)):
        return (operator.left, operator.right)
    if isinstance(operator, SparkAnswer):
        return tuple(dict.fromkeys(each.operator for each in operator.inputs))
    if isinstance(operator, (ByKey, Union)):
        return operator.inputs
    return (operator.memo,) if isinstance(operator, Recall) else ()


def exchange_of(operator: Operator) -> int | None:
    """The exchange that feeds `operator`, if one does."""
    return operator.exchange if isinstance(operator, (PreAggregate, ReverseJoin, Moved, Memo)) else None


def states_of(operator: Operator) -> tuple[StateSpec, ...]:
    """The states that `operator` writes."""
    if isinstance(operator, PreAggregate):
        return (operator.state, *(r.ordered for r in operator.running if r.ordered is not None))
    if isinstance(operator, Delta) and operator.cells is not None:
        kept = (operator.cells.stamps, operator.cells.ranges)
        return (operator.state, *(each for each in kept if each is not None))
    if isinstance(operator, (Delta, ReverseJoin, SparkAnswer, SparkGroups, Memo, ViewTable)):
        return (operator.state,)
    return ()


def needed(whole: Plan, roots: Iterable[Operator], kept: Container[int] = ()) -> set[int]:
    """The ids of `roots` and of all operators whose rows they depend on; but not those that are needed only since Spark
    reads their states, where these are `kept` already."""
    by_id = {o.id: o for o in whole.operators}
    sources = {x.id: x.source for x in whole.exchanges}
    seen: set[int] = set()
    waiting = [o.id for o in roots]
    while waiting:
        id_ = waiting.pop()
        if id_ in seen:
            continue
        seen.add(id_)
        operator = by_id[id_]
        exchange = exchange_of(operator)
        below = inputs(operator) if exchange is None else (sources[exchange],)
        waiting += [id_ for id_ in below if not (isinstance(operator, SparkAnswer) and id_ in kept)]
    return seen

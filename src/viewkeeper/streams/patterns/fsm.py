"""The finite state machine of a pattern (paper 003, Algorithm 1), and which of its states can do all that others can.

State v means that the last row was one of variable v; state 0 is the begin.  An edge into v has the terms of v.  A
partial match that began earlier makes another one needless where its state *includes* the other's: whatever rows come,
it can take each that the other takes, and it is in the accepting state whenever the other is (a simulation).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from viewkeeper.plans.expressions import Arithmetic, Cast, ColumnRef, Compare, Expression, Literal
from viewkeeper.plans.pattern import PatternMatches, PatternSlot, PatternVariable
from viewkeeper.plans.rewriting import identity, references, rewrite, walk
from viewkeeper.plans.text import expression_text

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True)
class Edge:
    """From state `source` to state `target`, by a row that satisfies `terms`."""

    source: int
    target: int
    terms: tuple[Expression, ...]


class Machine:
    """The states 0 to `last`, the edges, and what follows from them; `plan` has the terms."""

    def __init__(self, plan: PatternMatches) -> None:
        self.plan = plan
        self.last = len(plan.variables)
        self.first_slot = 2 * plan.width

    def variable(self, state: int) -> PatternVariable:
        """The variable of a state from 1 on."""
        return self.plan.variables[state - 1]

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """All edges, by the state that they leave; those of a `+` variable to itself first."""
        found = []
        for state in range(self.last + 1):
            for target in self.targets(state):
                found.append(Edge(state, target, terms(self.variable(target))))
        return tuple(found)

    def targets(self, state: int) -> list[int]:
        """The states into which a row can lead from `state`."""
        stay = [state] if state and self.variable(state).plus else []
        return stay + ([state + 1] if state < self.last else [])

    def live(self, state: int) -> tuple[int, ...]:
        """The slots whose values count in `state`: what is remembered there and may be tested later."""
        return tuple(k for k, slot in enumerate(self.plan.slots) if self._is_live(slot, state))

    def _is_live(self, slot: PatternSlot, state: int) -> bool:
        if state == self.last and not self.variable(state).plus:
            return False
        after = slot.until if self.variable(slot.until).plus else slot.until - 1
        return slot.variable <= state <= after

    def shared(self, state: int, other: int) -> tuple[int, ...]:
        """The slots that count in both states: the inclusion holds where each is related as its `relation` says."""
        both = set(self.live(state)) & set(self.live(other))
        return tuple(sorted(both))

    @cached_property
    def includes(self) -> frozenset[tuple[int, int]]:
        """All (p, q) of which p includes q, the slots that count in both being related: the greatest such relation."""
        pairs = {(p, q) for p in range(1, self.last + 1) for q in range(1, self.last + 1)}
        while True:
            kept = {pair for pair in pairs if self._follows(pair, pairs)}
            if kept == pairs:
                return frozenset(kept)
            pairs = kept

    def _follows(self, pair: tuple[int, int], pairs: set[tuple[int, int]]) -> bool:
        p, q = pair
        return all(any(self._matches(p, q, a, b, pairs) for a in self.targets(p)) for b in self.targets(q))

    def _matches(self, p: int, q: int, a: int, b: int, pairs: set[tuple[int, int]]) -> bool:
        """Whether p can go to a by every row by which q goes to b, and goes on from there as well."""
        if (a, b) not in pairs or (b == self.last and a != self.last):
            return False
        related = set(self.shared(p, q))
        for k in self.shared(a, b):
            origin = self.plan.slots[k].variable
            # The row at hand is remembered by both, or by neither; else nothing is known of the two values.
            if (a == origin) != (b == origin) or (a != origin and k not in related):
                return False
        given = terms(self.variable(b))
        return all(self._implied(term, given, related) for term in terms(self.variable(a)))

    def _implied(self, term: Expression, given: Sequence[Expression], related: set[int]) -> bool:
        slots = {i - self.first_slot for i in references(term) if i >= self.first_slot}
        if not slots <= related:
            return False
        return any(identity(term) == identity(other) or (not slots and implies(other, term)) for other in given)

    @cached_property
    def can_grow(self) -> str | None:
        """Why a group's set of partial matches can grow without bound; None where it cannot.

        Without slots there is one for each state.  A slot is harmless where no `+` variable behind its own carries it;
        and where every row tests it in all states behind its own, so that of two partial matches the one that began
        earlier includes the other.  (Sufficient, not necessary.)
        """
        carried = [
            k
            for k, slot in enumerate(self.plan.slots)
            if any(self.variable(v).plus and k in self.live(v) for v in range(slot.variable + 1, self.last + 1))
        ]
        if not carried:
            return None
        for k in carried:
            slot = self.plan.slots[k]
            if len(carried) > 1 or not self._is_ordered(k, slot):
                names = self.plan.variables[slot.variable - 1].name
                return (f"it remembers rows of {names} while a + variable behind it takes any number of rows, and each "
                        "may have another value")  # fmt: skip
        return None

    def _is_ordered(self, k: int, slot: PatternSlot) -> bool:
        states = [v for v in range(slot.variable + 1, self.last + 1) if k in self.live(v)]
        if slot.relation == "=" or not all((v, v) in self.includes for v in states):
            return False
        if any(variable.plus for variable in self.plan.variables[: slot.variable]) and self.plan.detailed:
            return False  # two that began together differ in which rows belong to whom, and both are needed
        return all(any(self._tests(term, k) for term in self.variable(v).cross) for v in states)

    def text(self, columns: Sequence[str]) -> Iterator[str]:
        """States, edges, what is remembered, and what that comes to; `columns` are what the source's are called."""
        states = (f"{v} ({self.variable(v).name}{'+' * self.variable(v).plus})" for v in range(1, self.last + 1))
        yield f"states: 0 (begin), {', '.join(states)} (accepting)"
        for edge in self.edges:
            yield f"  {edge.source} -> {edge.target} where {' AND '.join(map(self._term_text, edge.terms)) or 'TRUE'}"
        remembered = [self._slot_text(k, columns[slot.column % self.plan.width])
                      for k, slot in enumerate(self.plan.slots)]  # fmt: skip
        remembered += [f"{columns[i]} of the last row" for i in self.plan.previous]
        yield f"remembered: {', '.join(remembered) or 'nothing'}"
        for p in range(1, self.last + 1):
            included = [self._inclusion_text(p, q, columns) for q in range(1, self.last + 1)
                        if q != p and (p, q) in self.includes]  # fmt: skip
            if included:
                yield f"state {p} includes {', '.join(included)}"
        yield self._size_text()

    def _term_text(self, term: Expression) -> str:
        def change(node: Expression) -> Expression | None:
            if not isinstance(node, ColumnRef) or node.index < self.first_slot:
                return None
            name = node.name.removeprefix("PREV(").removesuffix(")")
            return replace(node, name=self._slot_text(node.index - self.first_slot, name))

        return expression_text(rewrite(term, change))

    def _slot_text(self, k: int, column: str) -> str:
        slot = self.plan.slots[k]
        name = f"{self.variable(slot.variable).name}.{column}"
        return f"PREV({name})" if slot.column >= self.plan.width else name

    def _inclusion_text(self, p: int, q: int, columns: Sequence[str]) -> str:
        related = []
        for k in self.shared(p, q):
            slot = self.plan.slots[k]
            related.append(f"{self._slot_text(k, columns[slot.column % self.plan.width])} {slot.relation} its own")
        return f"{q}{' if ' + ' and '.join(related) if related else ''}"

    def _size_text(self) -> str:
        why = self.can_grow
        if why is not None:
            return (f"WARNING: the partial matches of a group can grow without bound: {why}; status shows their "
                    "number, and LIMIT n PARTIAL MATCHES bounds it")  # fmt: skip
        kept = range(1, self.last + 1 if self.variable(self.last).plus else self.last)
        alone = all((p, q) in self.includes and not self.shared(p, q) for p in kept for q in kept if p > q)
        if alone and all(not self.live(p) for p in kept) and not self.plan.detailed:
            return "partial matches: one row a group"
        return "partial matches: a bounded number for each group"

    def _tests(self, term: Expression, k: int) -> bool:
        """Whether a row that passes `term` has itself a value that the slot's `relation` allows behind the slot's."""
        slot = self.plan.slots[k]
        found = slot_side(term, self.first_slot)
        if found is None or found[0] != k or not isinstance(term, Compare):
            return False
        operator = term.operator if found[1] == "right" else _TURNED.get(term.operator, "")
        own = term.left if found[1] == "right" else term.right
        other = term.right if found[1] == "right" else term.left
        same = isinstance(own, ColumnRef) and own.index == slot.column and isinstance(other, ColumnRef)
        return same and operator in ((">", ">=") if slot.relation == "<=" else ("<", "<="))


def terms(variable: PatternVariable) -> tuple[Expression, ...]:
    """All terms that a row of a variable must satisfy."""
    return variable.own + variable.before + variable.cross


def relation_of(slot: int, uses: Iterable[Expression], first_slot: int) -> str:
    """The relation (see `PatternSlot`) of a slot that `uses`, all terms with it, allow."""
    found = set()
    for term in uses:
        side = slot_side(term, first_slot)
        if side is None or side[0] != slot or not isinstance(term, Compare):
            return "="
        operator = term.operator if side[1] == "right" else _TURNED.get(term.operator, "")
        found.add({">": "<=", ">=": "<=", "<": ">=", "<=": ">="}.get(operator, "="))
    return found.pop() if len(found) == 1 else "="


def slot_side(term: Expression, first_slot: int) -> tuple[int, str] | None:
    """The one slot in a comparison, and on which side it stands, alone or with a constant added; else None."""
    if not isinstance(term, Compare):
        return None
    slots = [node.index - first_slot for node in walk(term) if isinstance(node, ColumnRef) and node.index >= first_slot]
    if len(slots) != 1:
        return None
    for name, side in (("left", term.left), ("right", term.right)):
        inner = side
        while isinstance(inner, (Cast, Arithmetic)):
            if isinstance(inner, Cast):
                inner = inner.argument
            elif inner.operator in ("+", "-") and isinstance(inner.right, Literal):
                inner = inner.left
            else:
                break
        if isinstance(inner, ColumnRef) and inner.index >= first_slot:
            return slots[0], name
    return None


def implies(given: Expression, term: Expression) -> bool:
    """Whether every row that satisfies `given` satisfies `term`, where both compare one thing with a constant."""
    one, other = _bound(given), _bound(term)
    if one is None or other is None or identity(one[0]) != identity(other[0]) or one[2].type != other[2].type:
        return False
    operator, value, wanted, limit = one[1], one[2].value, other[1], other[2].value
    if value is None or limit is None or value != value or limit != limit:
        return False
    if wanted == ">":
        return (operator == ">" and value >= limit) or (operator in (">=", "=") and value > limit)
    if wanted == ">=":
        return operator in (">", ">=", "=") and bool(value >= limit)
    if wanted == "<":
        return (operator == "<" and value <= limit) or (operator in ("<=", "=") and value < limit)
    return wanted == "<=" and operator in ("<", "<=", "=") and bool(value <= limit)


def _bound(term: Expression) -> tuple[Expression, str, Literal] | None:
    if not isinstance(term, Compare) or term.operator not in _TURNED:
        return None
    if isinstance(term.right, Literal):
        return term.left, term.operator, term.right
    return (term.right, _TURNED[term.operator], term.left) if isinstance(term.left, Literal) else None

"""PART_TIMESTAMP, hidden (paper 003, section 4.1): a query that names it, as one for Spark, which has no such columns.

Each table of which it is meant gets a column more, under a name that nothing else has: so a NATURAL JOIN or USING never
joins by it.  Wherever a `*` would show it, it is taken out with EXCEPT.  Spark reads the rest as it stands, and the
places of its errors are found in the text again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from viewkeeper.compiler.namespace import PART_TIMESTAMP
from viewkeeper.compiler.source_text import Script, offset_of
from viewkeeper.compiler.syntax import syntax_tree, tokenize
from viewkeeper.plans.expressions import TextPlace
from viewkeeper.streams.spark.conditions import conditions
from viewkeeper.streams.spark.hidden_names import Item, Scopes, select_above, span

_NAME = PART_TIMESTAMP.name.lower()
_PREFIX = "__part_timestamp_"


@dataclass(frozen=True)
class Condition:
    """Conjuncts for Spark over the hidden column of a table, which is called `alias` in them."""

    alias: str
    conjuncts: tuple[str, ...]


@dataclass(frozen=True)
class HiddenQuery:
    """`sql` is for Spark; `columns` are the names of the hidden columns that it needs, by table in small letters.

    `conditions` says of a table what must be TRUE of a part's PART_TIMESTAMP, if its rows are to matter.
    """

    text: str
    sql: str
    columns: Mapping[str, str]
    edits: tuple[tuple[int, int, str], ...]
    conditions: Mapping[str, Condition]

    def place(self, offset: int) -> TextPlace:
        """Line and column in `text` of what stands in `sql` at `offset`."""
        moved = 0
        for start, end, new in self.edits:
            if offset < start + moved:
                break
            if offset < start + moved + len(new):
                return Script(self.text).place(min(start, max(len(self.text) - 1, 0)))
            moved += len(new) - (end - start)
        return Script(self.text).place(max(0, min(offset - moved, len(self.text))))

    def shown(self, text: str) -> str:
        """A name or message of Spark's, in the user's terms."""
        for hidden in self.columns.values():
            text = text.replace(hidden, PART_TIMESTAMP.name)
        return text


@lru_cache(maxsize=1024)
def without_hidden(text: str, timed: frozenset[str]) -> HiddenQuery:
    """`text` for Spark; `timed` are the tables (in small letters) that have a PART_TIMESTAMP.

    Raises DeclarationError where it is not clear, or not possible, which one is meant.
    """
    if _NAME not in text.lower():
        return HiddenQuery(text, text, {}, (), {})
    source = Script(text)
    tokens = tokenize(source)
    tree = syntax_tree(source, tokens, faithful=True)
    reader = _Reader(source, tree, timed)
    edits = tuple(sorted(reader.edits()))
    found = {table: Condition(alias, tuple(_edited(text, edits, *each) for each in spans))
             for table, (alias, spans) in conditions(tree, tokens, reader.scopes).items()}  # fmt: skip
    return HiddenQuery(text, _edited(text, edits, 0, len(text)), reader.hidden, edits, found)


def _edited(text: str, edits: Sequence[tuple[int, int, str]], first: int, last: int) -> str:
    """`text` from `first` to `last`, with the edits in it made."""
    pieces, end = [], first
    for start, stop, new in edits:
        if first <= start and stop <= last:
            pieces += [text[end:start], new]
            end = stop
    return "".join([*pieces, text[end:last]])


class _Reader:
    """Finds which tables' PART_TIMESTAMP is meant, and what in the text must change for that."""

    def __init__(self, source: Script, tree: exp.Expr, timed: Collection[str]) -> None:
        self._source, self._tree = source, tree
        self.scopes = Scopes(source, tree, timed)
        self.hidden: dict[str, str] = {}
        self._named: dict[str, exp.Expr] = {}

    def edits(self) -> Iterator[tuple[int, int, str]]:
        """(start, end, what is to stand there instead)."""
        for column in self._tree.find_all(exp.Column):
            if self.scopes.is_hidden(column):
                item = self.scopes.meant(column)
                if item is not None:
                    yield self._replacement(column, item)
        for item in self._items_with_hidden():
            self._refuse_reshaped(item)
            yield from self._longer_alias(item)
        for star in self._tree.find_all(exp.Star):
            yield from self._shorter(star)

    def _replacement(self, column: exp.Column, item: Item) -> tuple[int, int, str]:
        assert item.timed is not None
        name = self.hidden.setdefault(item.timed, f"{_PREFIX}{len(self.hidden)}")
        self._named[item.timed] = column
        start, end = span(column.this)
        shown = column.arg_key == "expressions" and isinstance(column.parent, exp.Select)
        return start, end, f"{name} AS {PART_TIMESTAMP.name}" if shown else name

    def _items_with_hidden(self) -> Iterator[Item]:
        for select in self._tree.find_all(exp.Select):
            yield from (item for item in self.scopes.items(select) if item.timed in self.hidden)

    def _refuse_reshaped(self, item: Item) -> None:
        if item.node.args.get("pivots"):
            raise self._source.error(
                f"{PART_TIMESTAMP.name} cannot be named where PIVOT or UNPIVOT makes other columns of it; "
                f"select it from {item.node.alias_or_name} in a subquery, and take that instead",
                offset_of(self._named[item.timed or ""]),
            )

    def _longer_alias(self, item: Item) -> Iterator[tuple[int, int, str]]:
        """`AS New(a, b)` names all columns, so it has to name the hidden one too."""
        alias = item.node.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            _, end = span(alias.args["columns"][-1])
            yield end, end, f", {self.hidden[item.timed or '']}"

    def _shorter(self, star: exp.Star) -> Iterator[tuple[int, int, str]]:
        parent = star.parent
        table = parent.table.lower() if isinstance(parent, exp.Column) else ""
        if isinstance(parent, exp.Count) and not star.args.get("except_"):
            return
        select, _ = select_above(star)
        if select is None:
            return
        names = [self.hidden[item.timed] for item in self.scopes.items(select)
                 if item.timed in self.hidden and table in ("", item.alias)]  # fmt: skip
        if not names:
            return
        if left_out := star.args.get("except_"):
            _, end = span(left_out[-1].find(exp.Identifier))
            yield end, end, "".join(f", {name}" for name in names)
        else:
            _, end = span(star)
            yield end, end, f" EXCEPT ({', '.join(names)})"

"""PART_TIMESTAMP, hidden (paper 003, section 4.1): a query that names it, as one for Spark, which has no such columns.

Each table of which it is meant gets a column more, under a name that nothing else has: so a NATURAL JOIN or USING never
joins by it.  Wherever a `*` would show it, it is taken out with EXCEPT.  Spark reads the rest as it was typed, and the
places of its errors are found in the text again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from viewkeeper.compiler.part_tables import PART_TIMESTAMP
from viewkeeper.compiler.source import Place, Source, offset_of
from viewkeeper.compiler.syntax import syntax_tree, tokenize

_NAME = PART_TIMESTAMP.name.lower()
_PREFIX = "__part_timestamp_"


@dataclass(frozen=True)
class HiddenQuery:
    """`sql` is for Spark; `columns` are the names of the hidden columns that it needs, by table in small letters."""

    text: str
    sql: str
    columns: Mapping[str, str]
    edits: tuple[tuple[int, int, str], ...]

    def place(self, offset: int) -> Place:
        """Line and column in `text` of what stands in `sql` at `offset`."""
        moved = 0
        for start, end, new in self.edits:
            if offset < start + moved:
                break
            if offset < start + moved + len(new):
                return Source(self.text).place(min(start, max(len(self.text) - 1, 0)))
            moved += len(new) - (end - start)
        return Source(self.text).place(max(0, min(offset - moved, len(self.text))))

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
        return HiddenQuery(text, text, {}, ())
    source = Source(text)
    reader = _Reader(source, syntax_tree(source, tokenize(source), faithful=True), timed)
    edits = tuple(sorted(reader.edits()))
    parts, end = [], 0
    for start, stop, new in edits:
        parts += [text[end:start], new]
        end = stop
    return HiddenQuery(text, "".join([*parts, text[end:]]), reader.hidden, edits)


@dataclass(frozen=True)
class _Item:
    """What stands in FROM: its alias in small letters, and the table, if it is one that has a PART_TIMESTAMP."""

    alias: str
    node: exp.Expr
    timed: str | None


class _Reader:
    """Finds which tables' PART_TIMESTAMP is meant, and what in the text must change for that."""

    def __init__(self, source: Source, tree: exp.Expr, timed: Collection[str]) -> None:
        self._source, self._tree, self._timed = source, tree, timed
        self.hidden: dict[str, str] = {}
        self._named: dict[str, exp.Expr] = {}

    def edits(self) -> Iterator[tuple[int, int, str]]:
        """(start, end, what is to stand there instead)."""
        for column in self._tree.find_all(exp.Column):
            if isinstance(column.this, exp.Identifier) and column.name.lower() == _NAME:
                item = self._meant(column)
                if item is not None:
                    yield self._replacement(column, item)
        for item in self._items_with_hidden():
            self._refuse_reshaped(item)
            yield from self._longer_alias(item)
        for star in self._tree.find_all(exp.Star):
            yield from self._shorter(star)

    # What a name means

    def _meant(self, column: exp.Column) -> _Item | None:
        """The table whose PART_TIMESTAMP `column` is; None where it is no hidden one, or Spark shall say what is
        wrong."""
        select, inside = _select_above(column)
        if inside == "order" and not column.table and _renames(select):
            return None
        while select is not None:
            items = list(self._items(select))
            if column.table:
                found = [item for item in items if item.alias == column.table.lower()]
                if found:
                    return found[0] if found[0].timed else None
            else:
                timed = [item for item in items if item.timed]
                shown = [item for item in items if not item.timed and _NAME in self._shown_names(item.node)]
                if len(timed) + len(shown) > 1:
                    each = " or ".join(f"{item.node.alias_or_name}.{column.name}" for item in [*timed, *shown])
                    raise self._source.error(f"{column.name} is ambiguous: write {each}", offset_of(column))
                if timed or shown:
                    return timed[0] if timed else None
            select, _ = _select_above(select)
        return None

    def _items(self, select: exp.Select) -> Iterator[_Item]:
        from_ = select.args.get("from_")
        if from_ is not None:
            yield from self._relation(from_.this)
        for join in select.args.get("joins") or ():
            yield from self._relation(join.this)

    def _relation(self, node: exp.Expr) -> Iterator[_Item]:
        joined = node.args.get("joins") or ()
        if isinstance(node, exp.Subquery) and not node.alias and not isinstance(node.this, exp.Query):
            yield from self._relation(node.this)
        else:
            table = node.name.lower() if isinstance(node, exp.Table) and not node.args.get("db") else ""
            yield _Item(node.alias_or_name.lower(), node, table if table in self._timed else None)
        for join in joined:
            yield from self._relation(join.this)

    def _shown_names(self, node: exp.Expr) -> set[str]:
        """The names of the columns that a subquery or a query of WITH shows, as far as the text tells."""
        alias = node.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            return {column.name.lower() for column in alias.args["columns"]}
        if isinstance(node, exp.Table):
            common = next((each for each in self._tree.find_all(exp.CTE) if each.alias.lower() == node.name.lower()
                           and not any(above is each for above in _above(node))), None)  # fmt: skip
            return self._shown_names(common) if common is not None else set()
        query = node
        while isinstance(query, exp.Subquery | exp.CTE | exp.SetOperation):
            query = query.this
        if not isinstance(query, exp.Select):
            return set()
        names = {each.alias_or_name.lower() for each in query.expressions}
        if any(each.is_star for each in query.expressions):
            for item in self._items(query):
                names |= set() if item.timed else self._shown_names(item.node)
        return names

    # What is written instead

    def _replacement(self, column: exp.Column, item: _Item) -> tuple[int, int, str]:
        assert item.timed is not None
        name = self.hidden.setdefault(item.timed, f"{_PREFIX}{len(self.hidden)}")
        self._named[item.timed] = column
        start, end = _span(column.this)
        shown = column.arg_key == "expressions" and isinstance(column.parent, exp.Select)
        return start, end, f"{name} AS {PART_TIMESTAMP.name}" if shown else name

    def _items_with_hidden(self) -> Iterator[_Item]:
        for select in self._tree.find_all(exp.Select):
            yield from (item for item in self._items(select) if item.timed in self.hidden)

    def _refuse_reshaped(self, item: _Item) -> None:
        if item.node.args.get("pivots"):
            raise self._source.error(
                f"{PART_TIMESTAMP.name} cannot be named where PIVOT or UNPIVOT makes other columns of it; "
                f"select it from {item.node.alias_or_name} in a subquery, and take that instead",
                offset_of(self._named[item.timed or ""]),
            )

    def _longer_alias(self, item: _Item) -> Iterator[tuple[int, int, str]]:
        """`AS New(a, b)` names all columns, so it has to name the hidden one too."""
        alias = item.node.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            _, end = _span(alias.args["columns"][-1])
            yield end, end, f", {self.hidden[item.timed or '']}"

    def _shorter(self, star: exp.Star) -> Iterator[tuple[int, int, str]]:
        parent = star.parent
        table = parent.table.lower() if isinstance(parent, exp.Column) else ""
        if isinstance(parent, exp.Count) and not star.args.get("except_"):
            return
        select, _ = _select_above(star)
        if select is None:
            return
        names = [self.hidden[item.timed] for item in self._items(select)
                 if item.timed in self.hidden and table in ("", item.alias)]  # fmt: skip
        if not names:
            return
        if left_out := star.args.get("except_"):
            _, end = _span(left_out[-1].find(exp.Identifier))
            yield end, end, "".join(f", {name}" for name in names)
        else:
            _, end = _span(star)
            yield end, end, f" EXCEPT ({', '.join(names)})"


def _select_above(node: exp.Expr) -> tuple[exp.Select | None, str]:
    """The SELECT in which `node` stands, and in which of its clauses; None where it is a clause of a UNION."""
    clause = ""
    while node.parent is not None and not isinstance(node.parent, exp.SetOperation):
        clause, node = str(node.arg_key), node.parent
        if isinstance(node, exp.Select):
            return node, clause
    if node.parent is not None and node.arg_key in ("this", "expression"):
        return _select_above(node.parent)
    return None, clause


def _above(node: exp.Expr) -> Iterator[exp.Expr]:
    while node.parent is not None:
        node = node.parent
        yield node


def _renames(select: exp.Select | None) -> bool:
    """Whether something else is called PART_TIMESTAMP in what `select` gives: that is what its ORDER BY means."""
    return select is not None and any(
        isinstance(each, exp.Alias) and each.alias.lower() == _NAME for each in select.expressions
    )


def _span(node: exp.Expr | None) -> tuple[int, int]:
    meta = (node._meta or {}) if node is not None else {}
    assert "start" in meta, "sqlglot keeps the places of names and stars"
    return int(meta["start"]), int(meta["end"]) + 1

"""Whose PART_TIMESTAMP a name in a query means: scopes, as far as hidden columns need them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sqlglot import exp

from viewkeeper.compiler.namespace import PART_TIMESTAMP
from viewkeeper.compiler.source_text import Script, offset_of

_NAME = PART_TIMESTAMP.name.lower()


@dataclass(frozen=True)
class Item:
    """What stands in FROM: its alias in small letters, and the table, if it is one that has a PART_TIMESTAMP."""

    alias: str
    node: exp.Expr
    timed: str | None


class Scopes:
    """The tables of a query's SELECTs; `timed` are the names (in small letters) of those with a PART_TIMESTAMP."""

    def __init__(self, source: Script, tree: exp.Expr, timed: Collection[str]) -> None:
        self._source, self._tree, self._timed = source, tree, timed

    def is_hidden(self, column: exp.Column) -> bool:
        """Whether `column` is called PART_TIMESTAMP."""
        return isinstance(column.this, exp.Identifier) and column.name.lower() == _NAME

    def meant(self, column: exp.Column) -> Item | None:
        """The table whose PART_TIMESTAMP `column` is; None where it is no hidden one, or Spark shall say what is
        wrong."""
        select, inside = select_above(column)
        if inside == "order" and not column.table and _renames(select):
            return None
        while select is not None:
            items = list(self.items(select))
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
            select, _ = select_above(select)
        return None

    def items(self, select: exp.Select) -> Iterator[Item]:
        """What stands in its FROM."""
        from_ = select.args.get("from_")
        if from_ is not None:
            yield from self._relation(from_.this)
        for join in select.args.get("joins") or ():
            yield from self._relation(join.this)

    def _relation(self, node: exp.Expr) -> Iterator[Item]:
        joined = node.args.get("joins") or ()
        if isinstance(node, exp.Subquery) and not node.alias and not isinstance(node.this, exp.Query):
            yield from self._relation(node.this)
        else:
            table = node.name.lower() if isinstance(node, exp.Table) and not node.args.get("db") else ""
            yield Item(node.alias_or_name.lower(), node, table if table in self._timed else None)
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
            for item in self.items(query):
                names |= set() if item.timed else self._shown_names(item.node)
        return names


def select_above(node: exp.Expr) -> tuple[exp.Select | None, str]:
    """The SELECT in which `node` stands, and in which of its clauses; None where it is a clause of a UNION."""
    clause = ""
    while node.parent is not None and not isinstance(node.parent, exp.SetOperation):
        clause, node = str(node.arg_key), node.parent
        if isinstance(node, exp.Select):
            return node, clause
    if node.parent is not None and node.arg_key in ("this", "expression"):
        return select_above(node.parent)
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


def span(node: exp.Expr | None) -> tuple[int, int]:
    """Where a name or a star begins, and ends (behind its last character)."""
    meta = (node._meta or {}) if node is not None else {}
    assert "start" in meta, "sqlglot keeps the places of names and stars"
    return int(meta["start"]), int(meta["end"]) + 1

"""Part references are cut out of a query: `M[j-1] AS Prev` to a plain name that sqlglot and Spark know.

sqlglot reads brackets as an array's subscript, and so loses the alias behind them.  Here a query is read twice.  First
without any brackets that stand behind a name: its tree says which names are tables.  Those get plain names of their
own, what their brackets say is kept as `Reference`, and all other brackets stay what they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from viewkeeper.compiler.lexing import printed
from viewkeeper.compiler.source_text import Script, offset_of
from viewkeeper.compiler.subscript_text import read_subscript
from viewkeeper.compiler.supported import NOT_DETERMINISTIC
from viewkeeper.compiler.syntax import syntax_tree, tokenize
from viewkeeper.errors import NotSupported
from viewkeeper.plans.expressions import TextPlace
from viewkeeper.plans.references import PartQuery, Reference

Tree = Callable[[Script, Sequence[Token]], exp.Expr]


@dataclass(frozen=True)
class PartText:
    """A query whose references are cut out.  `tree` is that of `query.sql`, but its places are those in the source."""

    query: PartQuery
    tree: exp.Expr


@dataclass(frozen=True)
class _Brackets:
    """Brackets behind a name: token numbers of the name and of both brackets."""

    name: int
    open: int
    close: int


def has_brackets(tokens: Sequence[Token]) -> bool:
    """Whether brackets stand behind any name, so that there may be references."""
    return next(_brackets(tokens), None) is not None


def read_view_query(source: Script, tokens: Sequence[Token], variable: str) -> PartText:
    """The query of an INITIALIZE or UPDATE: every table in it becomes a reference, those without brackets too.

    It may be whatever Spark SQL knows; refused are only what has another answer each time, and an outer join without a
    condition.  `variable` is the view's own.
    """
    text = _read(source, tokens, variable, _faithful, everything=True)
    _refuse_chance(source, text.tree)
    _refuse_bare_outer_joins(source, text.tree)
    return text


def read_query(source: Script, tokens: Sequence[Token], tree: Tree) -> PartText:
    """A query that reads: its references have constant subscripts, and names without brackets stay what they are.
    `tree` reads its tokens, and refuses what it must."""
    return _read(source, tokens, None, tree, everything=False)


def _faithful(source: Script, tokens: Sequence[Token]) -> exp.Expr:
    return syntax_tree(source, tokens, faithful=True)


def _read(source: Script, tokens: Sequence[Token], variable: str | None, tree: Tree, everything: bool) -> PartText:
    by_place = {tokens[group.name].start: group for group in _brackets(tokens)}
    inside = {i for group in by_place.values() for i in range(group.open, group.close + 1)}
    bare = [token for i, token in enumerate(tokens) if i not in inside]
    tables = {offset: table for table in _tables(source, _faithful(source, bare)) if (offset := offset_of(table.this))
              is not None}  # fmt: skip
    _refuse_elsewhere(source, tokens, by_place, tables)
    wanted = {at: by_place.get(at) for at, table in sorted(tables.items()) if at in by_place or everything}
    common = {at for at, table in tables.items() if is_common(table)}
    names = _names(source, tokens)
    references: dict[int, Reference] = {}
    for at, group in wanted.items():
        if at in common:
            if group is None:
                continue
            raise source.error(f"{tables[at].name} is a query of WITH and has no parts; leave out the brackets", at)
        target = tables[at].name
        low = high = None
        if group is not None:
            between = tokens[group.open].end + 1, tokens[group.close].start
            low, high = read_subscript(source, *between, variable)
        references[at] = Reference(next(names(target)), target, low, high, source.place(at))
    return _replaced(source, tokens, tree, references, {at: wanted[at] for at in references})


def _brackets(tokens: Sequence[Token]) -> Iterator[_Brackets]:
    """The outermost brackets behind names."""
    i = 1
    while i < len(tokens):
        if tokens[i].token_type == TokenType.L_BRACKET and _is_name(tokens[i - 1]):
            depth, close = 1, i
            while depth and close + 1 < len(tokens):
                close += 1
                kind = tokens[close].token_type
                depth += (kind == TokenType.L_BRACKET) - (kind == TokenType.R_BRACKET)
            if depth:
                return  # not closed: sqlglot says so, with the place
            yield _Brackets(i - 1, i, close)
            i = close
        i += 1


def _is_name(token: Token) -> bool:
    written = token.text.replace("_", "a")
    return token.token_type == TokenType.IDENTIFIER or (
        token.token_type not in (TokenType.STRING, TokenType.NUMBER) and written.isalnum()
    )


def _tables(source: Script, tree: exp.Expr) -> Iterator[exp.Table]:
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier) or table.find_ancestor(exp.Hint) is not None:
            continue  # a table-valued function, or what a hint is about
        at = offset_of(table)
        if table.args.get("db"):
            raise source.error("a name has one part only; leave out what stands before the dot", at, NotSupported)
        if table.args.get("version"):
            raise source.error("parts are read as of the view's own version; leave out AS OF", at, NotSupported)
        yield table


def is_common(table: exp.Table) -> bool:
    """Whether the name means a query of WITH that can be seen from there."""
    inside: exp.Expr = table
    while inside.parent is not None:
        above: exp.Expr = inside.parent
        with_ = above if isinstance(above, exp.With) else above.args.get("with_")
        if with_ is not None:
            names = [each.alias.lower() for each in with_.expressions]
            if inside in with_.expressions and above is with_:
                own = next(i for i, each in enumerate(with_.expressions) if each is inside)
                names = names[: own + bool(with_.args.get("recursive"))]
            elif inside is with_:
                names = []
            if table.name.lower() in names:
                return True
        inside = above
    return False


def _refuse_elsewhere(
    source: Script, tokens: Sequence[Token], groups: dict[int, _Brackets], tables: dict[int, exp.Table]
) -> None:
    """A range of parts can be meant as nothing but a reference."""
    for at, group in groups.items():
        inside = tokens[group.open + 1 : group.close]
        text = source.text[tokens[group.open].end + 1 : tokens[group.close].start]
        if at not in tables and ".." in text and not any(token.token_type == TokenType.STRING for token in inside):
            raise source.error(f"a range of parts stands in FROM only, and {tokens[group.name].text} does not", at)


def _names(source: Script, tokens: Sequence[Token]) -> Callable[[str], Iterator[str]]:
    """Makes plain names that the query does not have, each once."""
    taken = {token.text.lower() for token in tokens}

    def names(target: str) -> Iterator[str]:
        plain = re.sub(r"\W", "_", target, flags=re.ASCII) or "_"
        number = 0
        while True:
            number += 1
            name = f"{plain}__{number}"
            if name.lower() not in taken:
                taken.add(name.lower())
                yield name

    return names


def _replaced(
    source: Script, tokens: Sequence[Token], tree: Tree, references: dict[int, Reference],
    groups: dict[int, _Brackets | None],
) -> PartText:  # fmt: skip
    """The query with the names of `references` (by the offsets where they stand) in their places."""
    gone = {i for group in groups.values() if group is not None for i in range(group.open, group.close + 1)}
    renamed = [_renamed(token, references.get(token.start)) for i, token in enumerate(tokens) if i not in gone]
    parsed = tree(source, renamed)
    by_name = {reference.name: (at, reference) for at, reference in references.items()}
    bare: set[int] = set()
    for table in parsed.find_all(exp.Table):
        at, reference = by_name.get(table.name, (0, None))
        if reference is not None and not table.alias:
            bare.add(at)
            alias = exp.TableAlias(this=exp.to_identifier(reference.target, quoted=True))
            alias.this.meta.update(table.this.meta)
            table.set("alias", alias)
    first, last = tokens[0].start, tokens[-1].end + 1
    text = source.text[:first] + printed(source.text[first:last])
    sql, done = "", first
    for token in tokens:
        reference = references.get(token.start)
        if reference is None:
            continue
        group = groups[token.start]
        sql += text[done : token.start] + quoted(reference.name)
        if token.start in bare:
            sql += f" AS {quoted(reference.target)}"
        done = (token if group is None else tokens[group.close]).end + 1
        sql += "\n" * source.text.count("\n", token.end, done)  # lines of `sql` are lines of the text
    sql += text[done:]
    return PartText(PartQuery(source.text[first:last], sql, tuple(references.values())), parsed)


def _renamed(token: Token, reference: Reference | None) -> Token:
    if reference is None:
        return token
    return Token(TokenType.VAR, reference.name, token.line, token.col, token.start, token.end, token.comments)


def quoted(name: str) -> str:
    """`name` as SQL takes any name."""
    return "`" + name.replace("`", "``") + "`"


def place_in_text(query: PartQuery, place: TextPlace, start: TextPlace) -> TextPlace:
    """A place in `query.sql` as one in the script, where the query's text begins at `start`."""
    sql, text = Script(query.sql), Script(query.text)
    wanted = sql.offset(place)
    tokens = tokenize(text)
    groups = {tokens[group.name].start: tokens[group.close].end + 1 for group in _brackets(tokens)}
    ends = {token.start: token.end + 1 for token in tokens}
    in_sql = in_text = 0
    for reference in query.references:
        own = quoted(reference.name)
        at = query.sql.index(own, in_sql)
        if at > wanted:
            break
        in_text += at - in_sql
        in_sql = at + len(own)
        if in_sql > wanted:
            return _moved(text.place(in_text), start)
        behind = groups.get(in_text, ends[in_text])
        alias = f" AS {quoted(reference.target)}"
        if query.sql.startswith(alias, in_sql) and not query.text.startswith(alias, behind):
            in_sql += len(alias)
        in_sql += query.text.count("\n", in_text, behind)
        in_text = behind
    return _moved(text.place(max(in_text, min(in_text + wanted - in_sql, len(query.text)))), start)


def _moved(place: TextPlace, start: TextPlace) -> TextPlace:
    return start[0] + place[0] - 1, place[1] + (start[1] - 1 if place[0] == 1 else 0)


def _refuse_chance(source: Script, tree: exp.Expr) -> None:
    """What gives another answer each time: no part could be computed again."""
    for node in tree.walk():
        reason = None
        if isinstance(node, (exp.Table, exp.Subquery)) and node.args.get("sample"):
            reason = "TABLESAMPLE gives other rows each time, so no view can be kept by it"
        elif isinstance(node, exp.Func):
            name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
            if name in NOT_DETERMINISTIC:
                reason = (f"{name} gives another value each time, so no view can be kept by it; use a column of the "
                          "stream, or PART_TIMESTAMP")  # fmt: skip
        if reason:
            raise source.error(reason, _place_of(node), NotSupported)


def _refuse_bare_outer_joins(source: Script, tree: exp.Expr) -> None:
    for join in tree.find_all(exp.Join):
        outer = join.side in ("LEFT", "RIGHT", "FULL") and join.kind not in ("SEMI", "ANTI")
        given = join.args.get("on") or join.args.get("using") or join.method == "NATURAL"
        if outer and not given and not isinstance(join.this, exp.Lateral):
            message = "an outer join needs a condition; write ON, USING or NATURAL"
            raise source.error(message, _place_of(join), NotSupported)


def _place_of(node: exp.Expr) -> int | None:
    here: exp.Expr | None = node
    while here is not None and (at := offset_of(here)) is None:
        here = here.parent
    return None if here is None else at

"""Views with another query: built beside those whose place they take, with all that reads these, and put in their place
in one commit, when all of it is filled.

Until then a new view is called like the old one, and `(new)`, and knows whose place it takes (`View.replaces`).  What
belongs together, a *replacement*, is the new view, new ones of the views that read it, and the indexes of all of them.
It is all in the catalog, so a kill at any step leaves a replacement that the next driver fills, or one that is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp

from viewkeeper.catalog.model import Catalog, Index, View
from viewkeeper.compiler.bind import BoundView
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.part_references import is_common, quoted
from viewkeeper.compiler.statements import CreateView, Identifier
from viewkeeper.errors import DeclarationError
from viewkeeper.maintenance import declare_tables
from viewkeeper.pipeline.whole_parts import declaration_of

Bind = Callable[[Catalog, CreateView], BoundView]
"""Binds a view in a catalog in which its name is free."""


def being_built(catalog: Catalog) -> list[View | Index]:
    """What will take the place of something."""
    return [item for item in views_and_indexes(catalog) if item.replaces is not None]


def views_and_indexes(catalog: Catalog) -> list[View | Index]:
    """All that is filled."""
    return [*catalog.views, *catalog.indexes]


def replacement_of(catalog: Catalog, id_: int) -> View | Index | None:
    """What will take the place of the view or index `id_`, or is this itself."""
    return next((item for item in being_built(catalog) if id_ in (item.id, item.replaces)), None)


def together(catalog: Catalog, item: View | Index) -> set[int]:
    """The ids of all that is built together with `item`, which is being built."""
    found, new = {item.id}, being_built(catalog)
    while more := {other.id for other in new if other.id not in found and _touches(catalog, other, found)}:
        found |= more
    return found


def _touches(catalog: Catalog, item: View | Index, ids: set[int]) -> bool:
    """Whether `item` reads one of `ids`, or is read by one."""
    others = [other for other in views_and_indexes(catalog) if other.id in ids]
    return bool(_below(item) & ids) or any(item.id in _below(other) for other in others)


def _below(item: View | Index) -> set[int]:
    return set(item.reads) if isinstance(item, View) else {item.on}


def exchanged(catalog: Catalog) -> Catalog:
    """`catalog` in which what is being built, and that whose place it will take, have each other's names."""
    changed: list[View | Index] = []
    for new in being_built(catalog):
        old = catalog.by_id(new.replaces or 0)
        assert isinstance(old, View | Index), "what is replaced is dropped with what replaces it"
        changed += [replace(new, name=old.name), replace(old, name=new.name)]
    return catalog.changing(changed) if changed else catalog


def begun(catalog: Catalog, old: View, statement: CreateView, bind: Bind) -> Catalog:
    """`catalog` with what will take the place of `old`, and of the views that read it.

    Raises DeclarationError, naming it, where one of these cannot be made over the new query.
    """
    replaced = _readers(catalog, [old])
    _refuse_circle(replaced, statement)
    why = f"reads {old.name}, and cannot be made over its new query"
    return _begun(catalog, replaced, {old.id: statement}, why, bind, statement.name)


def begun_again(catalog: Catalog, views: list[View], why: str, name: Identifier, bind: Bind) -> Catalog:
    """`catalog` with what will take the place of `views`, of the same queries, and of the views that read them.  `why`
    says what one cannot be made of anew, for the error."""
    return _begun(catalog, _readers(catalog, views), {}, why, bind, name)


def _begun(
    catalog: Catalog, replaced: list[View], statements: Mapping[int, CreateView], why: str, bind: Bind, name: Identifier
) -> Catalog:
    for view in replaced:
        if replacement_of(catalog, view.id) is not None:
            message = (f"{view.name} is being replaced already: db.catch_up() waits for that, DROP VIEW "
                       f"{quoted(_new_name(view.name))} gives it up")  # fmt: skip
            raise DeclarationError(message, *name.place)
        if view.filled is None:
            message = f"{view.name} is being filled: db.catch_up() waits for that; or drop it"
            raise DeclarationError(message, *name.place)
    indexes = {view.id: [index for index in catalog.indexes if index.on == view.id] for view in replaced}
    aside: list[View | Index] = [*replaced, *(index for each in indexes.values() for index in each)]
    for item in aside:
        if catalog.find(_new_name(item.name)) is not None:
            message = f"{item.name} is built anew as {_new_name(item.name)}, and there is something of that name"
            raise DeclarationError(message, *name.place)
    made = catalog.changing([replace(item, name=_new_name(item.name)) for item in aside])
    for view in replaced:
        given = statements.get(view.id)
        bound = _bound_again(made, view, why, name, bind) if given is None else bind(made, given)
        made = declare_tables.declare_views(made, [bound])
        made = _taking(made, view)
        for index in indexes[view.id]:
            made = _indexed(made, view, index, name)
    return exchanged(made)


def swapped(catalog: Catalog) -> Catalog:
    """`catalog` in which each replacement that is filled, all of it, is in the place of what was there."""
    waiting = being_built(catalog)
    late = [together(catalog, item) for item in waiting if item.filled is None]
    ready = [item for item in waiting if not any(item.id in each for each in late)]
    if not ready:
        return catalog
    ids = {item.id for item in ready}
    named = [replace(item, replaces=None) for item in being_built(exchanged(catalog)) if item.id in ids]
    left = declare_tables.drop(catalog, [item.replaces for item in ready if item.replaces is not None])
    return left.changing(named)


def _readers(catalog: Catalog, views: list[View]) -> list[View]:
    """`views` and the views that read them, each behind those it reads."""
    found = {view.id: view for view in views}
    for view in catalog.views:
        if found.keys() & set(view.reads):
            found[view.id] = view
    return [view for view in catalog.views if view.id in found]


def _refuse_circle(replaced: list[View], statement: CreateView) -> None:
    old, names = replaced[0].name, {view.name.lower(): view.name for view in replaced}
    for node in statement.query.tree.find_all(exp.Table):
        named = None if is_common(node) else names.get(node.name.lower())
        if named is not None:
            circle = f"{old} cannot be made of itself"
            raise statement.query.error(circle if named == old else f"{named} is made of {old}, so {circle}", node)


def _new_name(name: str) -> str:
    return f"{name} (new)"


def created(view: View) -> CreateView:
    """The statement that declares `view`."""
    (statement,) = parse_script(declaration_of(view))
    assert isinstance(statement, CreateView)
    return replace(statement, target=view.target)


def _bound_again(catalog: Catalog, view: View, why: str, name: Identifier, bind: Bind) -> BoundView:
    try:
        return replace(bind(catalog.seen_at(view.saw), created(view)), written=view.saw)
    except DeclarationError as error:
        message = f"{view.name} {why}: {_without_place(error)}"
        raise type(error)(f"{message}; drop {view.name} first", *name.place) from None


def _without_place(error: DeclarationError) -> str:
    return str(error).removesuffix(f" (line {error.line}, column {error.column})")


def _taking(catalog: Catalog, old: View) -> Catalog:
    new = catalog.find(old.name)
    assert isinstance(new, View)
    return catalog.changing([replace(new, replaces=old.id, comment=old.comment)])


def _indexed(catalog: Catalog, old: View, index: Index, name: Identifier) -> Catalog:
    """`catalog` with the index of a view on the one that takes its place."""
    new = catalog.find(old.name)
    assert isinstance(new, View)
    positions = {column.name.lower(): i for i, column in enumerate(new.columns)}
    wanted = [old.columns[i].name for i in index.columns]
    missing = next((column for column in wanted if column.lower() not in positions), None)
    if missing is not None:
        message = (
            f"{old.name} has an index {index.name} by {missing}, which its new query has not; drop the index first"
        )
        raise DeclarationError(message, *name.place)
    columns = tuple(positions[column.lower()] for column in wanted)
    catalog = declare_tables.declare_index(catalog, index.name, new.id, columns)
    made = catalog.find(index.name)
    assert isinstance(made, Index)
    return catalog.changing([replace(made, replaces=index.id)])

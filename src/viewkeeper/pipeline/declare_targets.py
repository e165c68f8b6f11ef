"""Declaring views that are written to outside stores, too: what can be known before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing

from viewkeeper.catalog.model import Catalog, View
from viewkeeper.compiler.bind import BoundView
from viewkeeper.compiler.statements import AlterView, CreateIfAbsent, CreateView, ReplaceView, Statement
from viewkeeper.errors import DeclarationError, Error, InputError, NotSupported
from viewkeeper.stores.outside.targets import RESERVED, RowForm, opened, target_kind
from viewkeeper.trace.snapshot import Snapshot


def refuse_parts(statement: CreateView) -> None:
    """Raises NotSupported where a view that is kept part by part is to be written to a store."""
    if statement.using is not None:
        raise NotSupported(f"{statement.name} is kept part by part: such views are not written to other stores yet; "
                           "leave out USING, or declare a view over tables", *statement.using.place)  # fmt: skip


def require_target(catalog: Catalog, statement: CreateView, instead: View | None = None) -> None:
    """Raises DeclarationError, with a place, where a view cannot be written to its target; `instead` is the view whose
    place it takes."""
    target, place = statement.target, (statement.using or statement.name).place
    if target is None:
        return
    try:
        kind = target_kind(target.kind)
        kind.check(dict(target.options))
    except NotSupported as refused:
        raise NotSupported(str(refused), *place) from None
    except InputError as refused:
        raise DeclarationError(str(refused), *place) from None
    reserved = next((name for name in statement.columns if name.name.startswith(RESERVED)), None)
    if reserved is not None:
        raise DeclarationError(f"{reserved}: what begins with {RESERVED} is viewkeeper's own there", *reserved.place)
    for view in catalog.views:
        other = view.target
        if other is None or (instead is not None and view.id == instead.id) or other.kind != target.kind:
            continue
        if kind.collide(dict(target.options), dict(other.options)):
            raise DeclarationError(f"{view.name} is written there already, and its rows would be mixed with those of "
                                   f"{statement.name}; say another place", *place)  # fmt: skip


def require_fit(bound: BoundView, zone: str, statement: CreateView) -> None:
    """Raises DeclarationError, with a place, where its target's options cannot lay out the rows of a view."""
    if bound.target is not None:
        reserved = next((column.name for column in bound.columns if column.name.startswith(RESERVED)), None)
        if reserved is not None:
            raise DeclarationError(f"column {reserved}: what begins with {RESERVED} is viewkeeper's own there; give it "
                                   "another name", *(statement.using or statement.name).place)  # fmt: skip
        try:
            target_kind(bound.target.kind).fit(dict(bound.target.options), RowForm(bound, zone))
        except InputError as refused:
            raise DeclarationError(str(refused), *(statement.using or statement.name).place) from None


def require_free(newest: Callable[[], Snapshot], statements: Iterable[Statement]) -> None:
    """Asks outside stores whether what views are to be written to is empty, or the database's, as of its `newest`
    version; raises what they say."""
    for statement in statements:
        created = statement.create if isinstance(statement, CreateIfAbsent) else statement
        created = created.view if isinstance(created, ReplaceView | AlterView) else created
        if not isinstance(created, CreateView) or created.target is None or created.using is None:
            continue
        snapshot = newest()
        catalog = snapshot.catalog
        found = catalog.find(created.name.name)
        if isinstance(found, View) and found.target == created.target:
            continue
        require_target(catalog, created, found if isinstance(found, View) else None)
        try:
            with closing(opened(created.target)) as target:
                target.require_place()
                marker = target.marker()
        except Error as error:
            raise DeclarationError(f"{created.name} cannot be declared: {error}", *created.using.place) from error
        if marker is not None and marker.database != snapshot.database:
            raise DeclarationError(
                f"{created.name} cannot be declared: what it is to be written to holds a view of another database "
                f"({marker.database}); take another place, or delete what is there", *created.using.place,
            )  # fmt: skip

"""From a script of declarations to a new catalog: names in use, who uses what, and what goes along with it."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.catalog.model import Catalog, Index, Table, View
from viewkeeper.compiler.bind import BoundView, bind_index, bind_table, bind_view
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.statements import CreateIndex, CreateTable, CreateView, Drop, Identifier, Statement
from viewkeeper.errors import DeclarationError
from viewkeeper.maintenance import declare
from viewkeeper.trace.receipt import RunRef
from viewkeeper.trace.snapshot import Snapshot

_KINDS = {Table: "TABLE", View: "VIEW", Index: "INDEX"}


@dataclass(frozen=True)
class Declared:
    """The new catalog (the old one itself where nothing changed), and what was done: (CREATE or DROP, kind, name)."""

    catalog: Catalog
    objects: tuple[tuple[str, str, str], ...]


def run(catalog: Catalog, script: str) -> Declared:
    """Applies all statements of `script`, in order, to `catalog`; raises `DeclarationError` for the first wrong one."""
    declaring = _Declaring(catalog)
    for statement in parse_script(script):
        declaring.apply(statement)
    declaring.flush()
    return Declared(declaring.catalog, tuple(declaring.objects))


def runs_without_use(snapshot: Snapshot, catalog: Catalog) -> list[RunRef]:
    """The runs of `snapshot` whose states `catalog` does not have."""
    kept = declare.states(catalog)
    return [run for state, runs in snapshot.states.items() if state not in kept for run in runs]


class _Declaring:
    """Views that follow one another are declared together, so that thousands of them cost one new catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.objects: list[tuple[str, str, str]] = []
        self._views: dict[str, BoundView] = {}

    def apply(self, statement: Statement) -> None:
        if isinstance(statement, CreateView):
            self._create_view(statement)
            return
        self.flush()
        if isinstance(statement, CreateTable):
            self._require_free(statement.name)
            columns, key = bind_table(statement)
            self.catalog = declare.declare_table(self.catalog, statement.name.name, columns, key)
        elif isinstance(statement, CreateIndex):
            self._require_free(statement.name)
            index = bind_index(self.catalog, statement)
            self.catalog = declare.declare_index(self.catalog, index.name, index.on, index.columns)
        elif isinstance(statement, Drop):
            self._drop(statement)
            return
        else:
            raise DeclarationError("this statement declares nothing", *statement.place)
        self.objects.append(("CREATE", "TABLE" if isinstance(statement, CreateTable) else "INDEX", statement.name.name))

    def flush(self) -> None:
        """Declares the views that wait for it."""
        if self._views:
            self.catalog = declare.declare_views(self.catalog, list(self._views.values()))
            self._views = {}

    def _create_view(self, statement: CreateView) -> None:
        self._require_free(statement.name)
        self._bind(statement)
        self.objects.append(("CREATE", "VIEW", statement.name.name))

    def _bind(self, statement: CreateView) -> None:
        try:
            bound = bind_view(self.catalog, statement)
        except DeclarationError:
            if not self._views:
                raise
            self.flush()  # it may read one of these
            bound = bind_view(self.catalog, statement)
        self._views[bound.name.lower()] = bound

    def _require_free(self, name: Identifier) -> None:
        item = self.catalog.find(name.name)
        if item is not None or name.name.lower() in self._views:
            kind, known = (_KINDS[type(item)], item.name) if item is not None else ("VIEW", name.name)
            raise DeclarationError(
                f"{name} cannot be created: there is {_article(kind)} {known} already; drop it, or take another name",
                *name.place,
            )

    def _drop(self, statement: Drop) -> None:
        name = statement.name
        item = self.catalog.find(name.name)
        if item is None:
            if statement.if_exists:
                return
            raise DeclarationError(f"there is no {statement.kind.lower()} {name} to drop", *name.place)
        kind = _KINDS[type(item)]
        if kind != statement.kind:
            raise DeclarationError(f"{item.name} is {_article(kind)}; use DROP {kind} {item.name}", *name.place)
        users = [view.name for view in self.catalog.views if item.id in view.reads]
        if users:
            shown = ", ".join(users[:5]) + (f" and {len(users) - 5} more" if len(users) > 5 else "")
            raise DeclarationError(f"{item.name} is used by {shown}; drop what uses it first", *name.place)
        indexes = [index for index in self.catalog.indexes if index.on == item.id]
        self.catalog = declare.drop(self.catalog, [item.id, *(index.id for index in indexes)])
        self._declare_unfilled_anew()
        self.objects += [("DROP", "INDEX", index.name) for index in indexes] + [("DROP", kind, item.name)]

    def _declare_unfilled_anew(self) -> None:
        """Declares what waits to be filled once more, under new ids.

        What it was going to share with a view that has now been dropped is kept up to date by nobody until it is
        filled: it must not be built on what is left of that.
        """
        views = [view for view in self.catalog.views if view.filled is None]
        indexes = [index for index in self.catalog.indexes if index.filled is None]
        names = {item.id: item.name for item in self.catalog.everything()}
        if not views and not indexes:
            return
        self.catalog = declare.drop(self.catalog, [*(view.id for view in views), *(index.id for index in indexes)])
        for view in views:
            columns = ", ".join(quoted(column.name) for column in view.columns)
            (statement,) = parse_script(f"CREATE VIEW {quoted(view.name)} ({columns}) AS {view.sql}")
            assert isinstance(statement, CreateView)
            self._bind(statement)
        self.flush()
        for index in indexes:
            on = self.catalog.find(names[index.on])
            assert on is not None
            self.catalog = declare.declare_index(self.catalog, index.name, on.id, index.columns)


def quoted(name: str) -> str:
    """`name` as SQL takes any name."""
    return "`" + name.replace("`", "``") + "`"


def _article(kind: str) -> str:
    return f"an {kind.lower()}" if kind == "INDEX" else f"a {kind.lower()}"

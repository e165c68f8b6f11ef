"""From a script of declarations to a new catalog: names in use, who uses what, and what goes along with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from viewkeeper.catalog.model import (
    Catalog,
    CatalogObject,
    Column,
    Index,
    InParts,
    PartView,
    PythonFunction,
    Table,
    View,
    kind_of,
)
from viewkeeper.compiler.bind import BoundView, bind_index, bind_table, bind_view, require_free
from viewkeeper.compiler.calls import lists
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.parse_streams import AnyView
from viewkeeper.compiler.scope import listed
from viewkeeper.compiler.statements import (
    AddColumns,
    AlterView,
    CreateIfAbsent,
    CreateIndex,
    CreateStream,
    CreateTable,
    CreateView,
    Drop,
    DropColumns,
    Identifier,
    RebuildView,
    Rename,
    RenameColumn,
    ReplaceView,
    SetComment,
    SetDefault,
    Statement,
)
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.maintenance import declare_tables
from viewkeeper.pipeline import alter_tables
from viewkeeper.pipeline.declare_functions import with_function, without_function
from viewkeeper.pipeline.declare_outside import require_declarable
from viewkeeper.pipeline.declare_targets import refuse_parts, require_fit, require_target
from viewkeeper.pipeline.programs import zone_programs
from viewkeeper.pipeline.replacing import (
    begun,
    begun_again,
    created,
    exchanged,
    replacement_of,
    together,
    views_and_indexes,
)
from viewkeeper.pipeline.spark_calls import of_another_spark, spark_version, typed_by
from viewkeeper.pipeline.spark_views import bind_any_view
from viewkeeper.pipeline.whole_parts import LostAsDeclared, require_fillable, with_parts_of
from viewkeeper.plans.maintenance import Memo, Plan, SparkGroups, plan_of
from viewkeeper.plans.outside import SparkAggregate, SparkCall
from viewkeeper.spark.parameters import Constant
from viewkeeper.streams import alter, declare_streams
from viewkeeper.streams.analyst import Analyst, Keys, NoAnalyst, NotByRows
from viewkeeper.trace.receipt import RunRef
from viewkeeper.trace.snapshot import Snapshot

_KINDS = {Table: "TABLE", View: "VIEW", Index: "INDEX"}


@dataclass(frozen=True)
class Declared:
    """The new catalog (the old one itself where nothing changed), and what was done: (CREATE, DROP, ALTER or REBUILD,
    kind, name).  `redo` says from which part on a view over streams (by its id) is to be computed anew, `renew` from
    which on with the dimension tables of now."""

    catalog: Catalog
    objects: tuple[tuple[str, str, str], ...]
    redo: dict[int, int] = field(default_factory=dict)
    renew: dict[int, int] = field(default_factory=dict)


def run(
    catalog: Catalog, script: str, analyst: Analyst | None = None, known: declare_streams.Known | None = None
) -> Declared:
    """Applies all statements of `script`, in order, to `catalog`; raises `DeclarationError` for the first wrong one.

    `analyst` is asked about queries that Spark will run (None: there must not be any), `known` says which parts exist.
    """
    declaring = _Declaring(catalog, analyst or NoAnalyst(), known or declare_streams.Nothing())
    for statement in parse_script(script):
        declaring.apply(statement)
    declaring.flush()
    return Declared(declaring.catalog, tuple(declaring.objects), declaring.redo, declaring.renew)


def run_function(catalog: Catalog, function: PythonFunction, analyst: Analyst | None = None) -> Declared:
    """`catalog` with a function of Python's; raises DeclarationError."""
    declaring = _Declaring(catalog, analyst or NoAnalyst(), declare_streams.Nothing())
    changed = with_function(catalog, function, declaring.bound)
    if changed is catalog:
        return Declared(catalog, ())
    return Declared(declared_anew(changed), (("CREATE", "FUNCTION", function.name),))


def of_this_spark(catalog: Catalog, analyst: Analyst) -> Catalog:
    """`catalog` with views built anew beside those of which another Spark has computed a part, and those that read
    them; itself where there are none, or they are being built."""
    operators = of_another_spark(catalog)
    if not operators:
        return catalog
    programs = zone_programs(catalog, None)
    ids = set().union(*map(programs.over, operators))
    stale = [view for view in catalog.views
             if view.id in ids and view.filled is not None and replacement_of(catalog, view.id) is None]  # fmt: skip
    if not stale:
        return catalog
    declaring = _Declaring(catalog, analyst, declare_streams.Nothing())
    name = Identifier(stale[0].name, (1, 1))
    changed = begun_again(catalog, stale, "cannot be made with this version of Spark", name, declaring.bound)
    why = f"another Spark has computed a part of it, and it is being built anew by Spark {spark_version()}"
    return declared_anew(declare_tables.stop(changed, {view.id for view in stale}, why))


def runs_without_use(snapshot: Snapshot, catalog: Catalog) -> list[RunRef]:
    """The runs of `snapshot` whose states `catalog` does not have, and those of parts of objects that it has not: parts
    of streams and of views over them, and the copies of dimension tables, which have the table's id."""
    kept = {*declare_tables.states(catalog)}
    for items in (catalog.tables, catalog.views, catalog.in_parts):
        kept.update(item.id for item in items)
    kept.update(helper.id for view in catalog.part_views for helper in view.helpers)
    return [run for state, runs in snapshot.states.items() if state not in kept for run in runs]


def declared_anew(catalog: Catalog) -> Catalog:
    """`catalog` in which what waits to be filled is declared once more, to be kept with new states where it has to.

    What it was going to share with a view that has been dropped, or has stopped, is kept up to date by nobody until it
    is filled: it must not be built on what is left of that.  Ids stay, and so does who reads whom.
    """
    catalog = exchanged(catalog)  # What is being built to replace others reads what is built with it, by its name.
    views = [view for view in catalog.views if view.filled is None and view.stopped is None]
    indexes = [index for index in catalog.indexes if index.filled is None and index.stopped is None]
    if not views and not indexes:
        return exchanged(catalog)
    waiting: list[View | Index] = [*views, *indexes]
    ids = {item.name: item.id for item in waiting}
    names = {item.id: item.name for item in catalog.whole}
    anew = _Declaring(
        declare_tables.drop(catalog, list(ids.values())),
        _AsDeclared(views, plan_of(catalog)),
        LostAsDeclared(catalog),
    )
    for view in views:
        anew.bind(created(view), view.saw)
    anew.flush()
    for index in indexes:
        on = anew.catalog.find(names[index.on])
        assert on is not None
        anew.catalog = declare_tables.declare_index(anew.catalog, index.name, on.id, index.columns)
    given = {item.id: ids.get(item.name, item.id) for item in anew.catalog.whole}
    replaces = {item.id: item.replaces for item in views_and_indexes(catalog)}
    comments = {view.id: view.comment for view in views}
    made: list[Table | View | Index] = [
        *anew.catalog.tables,
        *(replace(v, id=given[v.id], reads=tuple(given.get(r, r) for r in v.reads), replaces=replaces[given[v.id]],
                  comment=comments.get(given[v.id], v.comment))
          for v in anew.catalog.views),
        *(replace(i, id=given[i.id], on=given[i.on], replaces=replaces[given[i.id]]) for i in anew.catalog.indexes),
    ]  # fmt: skip
    # In the order of ids again: a view stands behind those it reads.
    objects = (*sorted(made, key=lambda item: item.id), *anew.catalog.in_parts)
    return exchanged(replace(anew.catalog, objects=objects))


class _AsDeclared:
    """Says again what Spark has said of the queries of `views`, and of the calls in them."""

    def __init__(self, views: Iterable[View], plan: Plan) -> None:
        self._columns = {text: view.columns for view in views for text in (view.sql, view.asked) if text is not None}
        calls = [operator.call for operator in plan.operators if isinstance(operator, Memo)]
        asked = [call for operator in plan.operators if isinstance(operator, SparkGroups) for call in operator.calls]
        for call in (*calls, *asked):
            if isinstance(call, SparkCall | SparkAggregate):
                text, type_ = typed_by(call.sql, False, False), call.type
                if isinstance(call, SparkAggregate):
                    ordered = bool(call.over) and lists(call.name)
                    text, type_ = typed_by(call.sql, True, ordered), call.of_call
                self._columns[text] = (Column("value", type_, call.nullable),)

    def columns(
        self, sql: str, tables: Mapping[str, tuple[Column, ...]], timed: Collection[str] | None = None,
        zone: str = "UTC", by_rows: str | None = None, keys: Keys | None = None, nested: bool = False,
        parameters: Mapping[str, Constant] | None = None,
    ) -> tuple[Column, ...]:  # fmt: skip
        if sql not in self._columns:  # so Spark has refused it then
            raise DeclarationError("Spark computes no such call")
        return self._columns[sql]


def _bound_as_declared(catalog: Catalog, view: View) -> BoundView:
    """The query of `view` bound again, in a `catalog` that need not have the view's name free."""
    statement = created(view)
    free = next(name for i in count() if catalog.find(name := f"{view.name} {i}") is None)
    unnamed = replace(statement, name=Identifier(free, statement.name.place))
    return bind_any_view(catalog.seen_at(view.saw), unnamed, _AsDeclared([view], plan_of(catalog)))


class _Declaring:
    """Views that follow one another are declared together, so that thousands of them cost one new catalog."""

    def __init__(self, catalog: Catalog, analyst: Analyst, known: declare_streams.Known) -> None:
        self.catalog = catalog
        self.objects: list[tuple[str, str, str]] = []
        self.redo: dict[int, int] = {}
        self.renew: dict[int, int] = {}
        self._analyst, self._known = analyst, known
        self._views: dict[str, BoundView] = {}

    def apply(self, statement: Statement) -> None:
        if isinstance(statement, CreateIfAbsent):
            if self.catalog.find(statement.name.name) is None and statement.name.name.lower() not in self._views:
                self.apply(statement.create)
            return
        if isinstance(statement, CreateView):
            self._create_view(statement)
            return
        self.flush()
        if isinstance(statement, CreateTable):
            self._require_free(statement.name)
            bound = bind_table(statement, self.catalog.zone)
            require_declarable(statement, bound)
            self.catalog = declare_tables.declare_table(self.catalog, statement.name.name, bound)
            self._made("TABLE", statement.name)
        elif isinstance(statement, CreateIndex):
            self._require_free(statement.name)
            index = bind_index(self.catalog, statement)
            self._require_kept(index.on, statement.name)
            self._require_settled([index.on], statement.name)
            require_fillable(self.catalog, [index.on], statement.name, self._known)
            self.catalog = declare_tables.declare_index(self.catalog, index.name, index.on, index.columns)
            self._made("INDEX", statement.name)
        elif isinstance(statement, CreateStream):
            self.catalog = declare_streams.declare_stream(self.catalog, statement)
            self._made("STREAM", statement.name)
        elif isinstance(statement, AnyView):
            self._create_over_parts(statement)
        elif isinstance(statement, Rename):
            self._rename(statement)
        elif isinstance(statement, SetComment):
            self.catalog = alter_tables.with_comment(self.catalog, statement)
            self._made("TABLE" if self.catalog.find(statement.name.name) in self.catalog.tables else "VIEW",
                       statement.name, "ALTER")  # fmt: skip
        elif isinstance(statement, SetDefault | AddColumns | DropColumns | RenameColumn):
            self.catalog = alter_tables.altered(self.catalog, statement, _bound_as_declared, self._known.copied)
            self._made("TABLE", statement.table, "ALTER")
        elif isinstance(statement, ReplaceView):
            self._replace(statement)
        elif isinstance(statement, AlterView) and isinstance(old := self.catalog.find(statement.view.name.name), View):
            if isinstance(statement.view, CreateView):  # its rows are written to where they were
                statement = replace(statement, view=replace(statement.view, target=old.target))
            self._replace_whole(old, statement)
            self._made("VIEW", statement.view.name, "ALTER")
        elif isinstance(statement, AlterView):
            self._alter(alter.alter_view(self.catalog, statement, self._analyst, self._known))
            self._made("VIEW", statement.view.name, "ALTER")
        elif isinstance(statement, RebuildView):
            self._alter(alter.rebuild_view(self.catalog, statement, self._known))
            self._made("VIEW", statement.name, "REBUILD")
        elif isinstance(statement, Drop):
            self._drop(statement)
        else:
            raise DeclarationError("this statement declares nothing", *statement.place)

    def _create_over_parts(self, statement: AnyView) -> None:
        self.catalog = declare_streams.declare_view(self.catalog, statement, self._analyst, self._known)
        self._require_settled(self._dimensions(), statement.name)
        self._made("VIEW", statement.name)

    def _is_over_parts(self, statement: CreateView) -> bool:
        if not self.catalog.streams or not declare_streams.is_over_parts(self.catalog, statement):
            what = "EXPIRE AFTER" if statement.expire is not None else "FORGET EXPIRED" if statement.forgets else ""
            if what:
                raise DeclarationError(f"{statement.name} reads no stream, nor a view over one: it has no parts that "
                                       f"could expire; leave out {what}", *statement.name.place)  # fmt: skip
            return False
        return True

    def _rename(self, statement: Rename) -> None:
        name, to = statement.name, statement.to
        item = self.catalog.find(name.name)
        if isinstance(item, InParts):
            raise NotSupported(f"{item.name} is kept part by part, and keeps its name; drop it, and create it again",
                               *name.place)  # fmt: skip
        if not isinstance(item, Table | View) or _KINDS[type(item)] != statement.kind:
            what = f"there is no {statement.kind.lower()} {name}"
            raise DeclarationError(what if item is None else f"{what}: it is {_article(kind_of(item))}", *name.place)
        if users := self._users(item):
            message = f"{item.name} is used by {listed(users)}, whose queries name it; drop what uses it first"
            raise DeclarationError(message, *name.place)
        self._require_settled([item.id], name)
        if to.name.lower() != item.name.lower():
            self._require_free(to)
        self.catalog = declare_tables.rename(self.catalog, item, to.name)
        self._made(statement.kind, to, "ALTER")

    def _replace(self, statement: ReplaceView) -> None:
        view = statement.view
        found = self.catalog.find(view.name.name)
        if found is None:
            self.apply(view)
        elif isinstance(found, View):
            self._replace_whole(found, AlterView(statement.text, statement.place, view, None))
            self._made("VIEW", view.name, "ALTER")
        elif isinstance(found, PartView):
            if isinstance(view, CreateView):
                refuse_parts(view)
            self.apply(AlterView(statement.text, statement.place, view, None))
        else:
            message = f"there is {_article(kind_of(found))} called {found.name} already; drop it, or take another name"
            raise DeclarationError(message, *view.name.place)

    def _replace_whole(self, old: View, statement: AlterView) -> None:
        """A view over tables gets another query."""
        new, name = statement.view, statement.view.name
        by_parts = not isinstance(new, CreateView) or (
            self._is_over_parts(new) and declare_streams.is_by_parts(self.catalog, new, self._analyst)
        )
        if not isinstance(new, CreateView) or by_parts or statement.since is not None:
            message = f"{old.name} has no parts; drop it, and create it again, for a view over streams"
            raise NotSupported(message, *name.place)
        if users := alter.users_of_dimension(self.catalog, old.id):
            message = (
                f"{old.name} is joined by {', '.join(users)}, whose parts are made of what it was; drop them first"
            )
            raise NotSupported(message, *name.place)
        self._require_target(new, old)
        self.catalog = begun(self.catalog, old, new, self.bound)

    def _dimensions(self) -> set[int]:
        """The tables and views that views over streams are joined with."""
        return {id_ for view in self.catalog.part_views for id_ in view.dimensions}

    def bound(self, catalog: Catalog, statement: CreateView) -> BoundView:
        bound = bind_any_view(catalog, statement, self._analyst)
        require_fit(bound, catalog.zone, statement)
        for id_ in bound.reads:
            self._require_kept(id_, statement.name)
        return with_parts_of(catalog, bound, statement, self._known)

    def _alter(self, altered: alter.Altered) -> None:
        self.catalog = altered.catalog
        for mine, new in ((self.redo, altered.redo), (self.renew, altered.renew)):
            mine.update({id_: min(since, mine.get(id_, since)) for id_, since in new.items()})

    def _made(self, kind: str, name: Identifier, verb: str = "CREATE") -> None:
        self.objects.append((verb, kind, name.name))

    def flush(self) -> None:
        """Declares the views that wait for it."""
        if self._views:
            self.catalog = declare_tables.declare_views(self.catalog, list(self._views.values()))
            self._views = {}

    def _create_view(self, statement: CreateView) -> None:
        if self._is_over_parts(statement):
            self.flush()
            try:
                self._create_over_parts(statement)
            except NotByRows:
                if statement.expire is not None:
                    raise DeclarationError(f"{statement.name} is kept as a whole: it has no parts that could expire; "
                                           "leave out EXPIRE AFTER", *statement.name.place) from None  # fmt: skip
            else:
                refuse_parts(statement)
                return
        self._require_free(statement.name)
        self._require_target(statement)
        self.bind(statement)
        self._require_settled(self._views[statement.name.name.lower()].reads, statement.name)
        self._made("VIEW", statement.name)

    def _require_target(self, statement: CreateView, instead: View | None = None) -> None:
        """Raises DeclarationError where the view's rows cannot be written to where it says; `instead`: whose place it
        takes."""
        if statement.target is not None:
            self.flush()
            require_target(self.catalog, statement, instead)

    def bind(self, statement: CreateView, written: int | None = None) -> None:
        """Has the view declared with those before and after it, at the next `flush`; of one that was `written` before,
        the query means what it meant then."""
        try:
            bound = bind_view(self._then(written), statement)
        except DeclarationError:
            self.flush()  # it may read one of these
            bound = bind_any_view(self._then(written), statement, self._analyst)
        bound = replace(bound, written=written)
        require_fit(bound, self.catalog.zone, statement)
        for id_ in bound.reads:
            self._require_kept(id_, statement.name)
        self._views[bound.name.lower()] = with_parts_of(self.catalog, bound, statement, self._known)

    def _then(self, written: int | None) -> Catalog:
        return self.catalog if written is None else self.catalog.seen_at(written)

    def _require_free(self, name: Identifier) -> None:
        require_free(self.catalog, name)
        if name.name.lower() in self._views:
            message = f"there is a view called {name} already; drop it, or take another name"
            raise DeclarationError(message, *name.place)

    def _require_kept(self, id_: int, name: Identifier) -> None:
        item = self.catalog.by_id(id_)
        if isinstance(item, View) and item.stopped is not None:
            message = (f"{name} cannot be built on {item.name}, which is kept up to date no more: {item.stopped}; "
                       f"drop {item.name} and create it anew first")  # fmt: skip
            raise DeclarationError(message, *name.place)

    def _require_settled(self, ids: Iterable[int], name: Identifier) -> None:
        """Raises DeclarationError where one of `ids`, which `name` is to be built on, is being replaced."""
        for id_ in ids:
            item = self.catalog.by_id(id_)
            if item is not None and replacement_of(self.catalog, id_) is not None:
                message = f"{item.name} is being replaced: db.catch_up() waits until {name} can be built on the new one"
                raise DeclarationError(message, *name.place)

    def _drop(self, statement: Drop) -> None:
        name = statement.name
        if statement.kind == "FUNCTION":
            before, self.catalog = self.catalog, without_function(self.catalog, statement)
            self.objects += [("DROP", "FUNCTION", name.name)] * (before is not self.catalog)
            return
        item = self.catalog.find(name.name)
        if statement.cascade and item is not None:
            self._drop_users(item, name)
        if isinstance(item, InParts):
            self.catalog, known = alter.drop(self.catalog, statement)
            self.objects.append(("DROP", statement.kind, known))
            return
        if item is None:
            if statement.if_exists:
                return
            raise DeclarationError(f"there is no {statement.kind.lower()} {name} to drop", *name.place)
        kind = _KINDS[type(item)]
        if kind != statement.kind:
            raise DeclarationError(f"{item.name} is {_article(kind)}; use DROP {kind} {item.name}", *name.place)
        if (new := replacement_of(self.catalog, item.id)) is not None and isinstance(new, View):  # It is given up.
            self.catalog = declare_tables.drop(self.catalog, together(self.catalog, new))
            if item.id == new.id:
                self.catalog = declared_anew(self.catalog)
                self.objects.append(("DROP", kind, item.name))
                return
        if users := self._users(item):
            message = f"{item.name} is used by {listed(users)}; drop what uses it first, or DROP ... CASCADE all of it"
            raise DeclarationError(message, *name.place)
        indexes = [index for index in self.catalog.indexes if index.on == item.id]
        both = [] if new is None or new.replaces is None else [new.id, new.replaces]  # An index, and the new one.
        self.catalog = declare_tables.drop(self.catalog, {item.id, *both, *(index.id for index in indexes)})
        self.catalog = declared_anew(self.catalog)
        self.objects += [("DROP", "INDEX", index.name) for index in indexes] + [("DROP", kind, item.name)]

    def _users(self, item: CatalogObject) -> list[str]:
        """The names of the views that read `item` themselves."""
        if isinstance(item, InParts):
            return alter.users_of_parts(self.catalog, {item.id})
        readers = [view.name for view in self.catalog.views if item.id in view.reads]
        return readers + alter.users_of_dimension(self.catalog, item.id)

    def _drop_users(self, item: CatalogObject, name: Identifier) -> None:
        """Drops the views that read `item`, and what uses these."""
        while users := self._users(item):
            self._drop(Drop("", name.place, "VIEW", Identifier(users[-1], name.place), False, cascade=True))


def _article(kind: str) -> str:
    return f"an {kind.lower()}" if kind == "INDEX" else f"a {kind.lower()}"

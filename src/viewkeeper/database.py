"""What a user holds: a database, its tables, its snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from viewkeeper.catalog.model import Catalog, InParts, PartView, View
from viewkeeper.catalog.types import Type
from viewkeeper.checker.check import Judge, check_views
from viewkeeper.checker.part_check import check_parts
from viewkeeper.checker.report import Report
from viewkeeper.checker.spark_judge import SparkJudge
from viewkeeper.compiler.filled_in import FilledIn, filled_in
from viewkeeper.compiler.parse import EXPLAIN_FORMATS, parse_script
from viewkeeper.compiler.source_text import Script, moved
from viewkeeper.compiler.statements import CreateTable, RowStatement, SelectStatement, Statement
from viewkeeper.dml.run_change import run_change
from viewkeeper.errors import DeclarationError, InputError, NotSupported, QueryRaises, storage_named
from viewkeeper.evidence import DatabaseEvidence, PartEvidence, as_kept
from viewkeeper.pipeline import requests
from viewkeeper.pipeline.batches import OPERATIONS_MAX
from viewkeeper.pipeline.declare_outside import resolved
from viewkeeper.pipeline.declare_targets import require_free
from viewkeeper.pipeline.maintain import Maintenance, catch_up
from viewkeeper.pipeline.rebase import Rebased, rebase
from viewkeeper.pipeline.spark_executor import loss_named
from viewkeeper.pipeline.status import lag, status
from viewkeeper.rejections import put_again, rejected_rows
from viewkeeper.spark.python_functions import python_function
from viewkeeper.stores.contract import Store
from viewkeeper.stores.logs import Logs
from viewkeeper.streams.readers import parts_below
from viewkeeper.trace.commit import Storage
from viewkeeper.views.answering import READING, answer, explain
from viewkeeper.views.layout_of_now import with_layout_of_now
from viewkeeper.views.opening import Opened, Opening
from viewkeeper.views.reader import ViewReader
from viewkeeper.views.result import Result
from viewkeeper.views.spark_frames import SparkFrames, answered_by_spark, run_on_spark
from viewkeeper.views.spark_session import SparkUse
from viewkeeper.views.stream_handle import StreamHandle
from viewkeeper.views.stream_reader import PartsReader
from viewkeeper.views.table_handle import TableHandle
from viewkeeper.views.version import Version
from viewkeeper.views.version_sources import Held, Newest, Versions
from viewkeeper.written import with_targets


def connect(
    place: str | Path, *, nodes: int | None = None, zone: str | None = None, durability: str | None = None
) -> Database:
    """The database in the folder `place`; where there is none it is made by the first declaration, and until then
    there is nothing to read.

    `nodes` (of the store, 2 if not said) and `zone` (the time zone of TIMESTAMPs, "UTC" if not said) are fixed when it
    is made; who names one makes it at once.  With `durability="process"` a write is safe from the process's death as
    soon as it is acknowledged, but not from the machine's; with "sync" from both.
    """
    if "://" in str(place):
        raise NotSupported(f"{place}: stores other than the embedded one are not supported yet; name a folder")
    if not isinstance(place, str | Path) or "\0" in str(place):
        raise InputError(f"{place!r} is no place for a database; name a folder")
    return Database.within(Opening(Path(place).resolve(), nodes, zone, durability))


def init(place: str | Path, *, nodes: int | None = None, zone: str | None = None) -> None:
    """Makes a database in the folder `place`; harmless where it is there."""
    with connect(place, nodes=nodes, zone=zone) as database:
        database._opening.made()


class Database:
    """Tables of a key-value store, and views over them that are kept up to date.

    May be used by several threads, and by several processes that each `connect`.
    """

    def __init__(self, storage: Storage, store: Store) -> None:
        self._opening = Opening(storage.root, None, None, None, Opened.of(storage, store))

    @classmethod
    def within(cls, opening: Opening) -> Self:
        """The database of `opening`, which need not be there yet."""
        database = cls.__new__(cls)
        database._opening = opening
        return database

    # All of it is found when it is first used: a folder without a database stays as it is until something is written.

    @property
    def _storage(self) -> Storage:
        return self._opening.opened.storage

    @property
    def _store(self) -> Store:
        return self._opening.opened.store

    @property
    def _logs(self) -> Logs:
        return self._opening.opened.logs

    @property
    def _newest(self) -> Newest:
        return self._opening.opened.newest

    @property
    def _spark(self) -> SparkUse:
        return self._opening.opened.spark

    @property
    def _frames(self) -> SparkFrames:
        return self._opening.opened.frames

    @property
    def root(self) -> Path:
        """The folder of the database."""
        return self._opening.root

    @property
    def catalog(self) -> Catalog:
        """All declarations, as of the newest version."""
        return self._newest.version().catalog

    def sql(
        self, text: str, /, args: Sequence[Any] | Mapping[str, Any] | None = None, *, engine: str = "viewkeeper",
        unsafe: bool = False, **parameters: Any,
    ) -> Result:  # fmt: skip
        """Runs statements, separated by semicolons; the result is the last one's.

        Declarations that follow one another are one change: all or none.  Each INSERT, UPDATE, DELETE and MERGE is one
        atomic step that reads tables as they are written; `affected` and `token` of its result say how many rows it
        changed, and how a view is read behind it.  `:name` in statements that read or change rows is the value of a
        parameter, typed as PySpark types it: `db.sql("UPDATE t SET n = n + 1 WHERE id = :id", id=5)`.  `args` is a list
        of the values of each `?` there, or a dict of names and values.

        A query that viewkeeper's own operators do not know is answered by Spark, where it is the whole text.
        `engine="spark"` lets Spark run one query in any case, over all tables, views and streams at one version.
        Commands, files, other catalogs and calls of Java are refused there, unless it is `unsafe`: such a text can do
        whatever this process can.
        """
        on_spark = _wants_spark(engine, unsafe, args or parameters)
        if on_spark and unsafe:
            with self._newest.held() as version:
                return run_on_spark(self._spark, version, text, unsafe=True)
        filled = filled_in(text, args, parameters)
        with filled.told():
            return self._run(filled, on_spark)

    def _run(self, filled: FilledIn, on_spark: bool) -> Result:
        text, parameters = filled.text, filled.parameters
        if on_spark:
            with self._newest.held() as version:
                return run_on_spark(self._spark, version, text, parameters)
        self._opening.require_open()
        result = Result()
        try:
            statements = parse_script(text, parameters)
        except NotSupported as refused:
            with self._newest.held() as version:
                return answered_by_spark(self._spark, version, text, refused, parameters)
        for kind, group in groupby(statements, key=_kind):
            if kind is _Kind.DECLARES:
                result = self._declared(list(group), text, len(statements))
                continue
            for statement in group:
                if isinstance(statement, RowStatement):
                    with storage_named(self.root):
                        result = with_layout_of_now(partial(self._changed, statement))
                else:
                    with self._newest.held() as version:
                        result = _answer(version, statement, self._spark)
        return result

    def _changed(self, statement: RowStatement) -> Result:
        return run_change(self.catalog, self._store, statement, self._spark)

    def _declared(self, statements: list[Statement], text: str, of: int) -> Result:
        """What `statements`, some or all of the statements of a text, declare."""
        self._opening.made()
        with storage_named(self.root):
            found = resolved(self.catalog, statements)
            require_free(lambda: self._newest.version().snapshot, found)
            script = text if len(statements) == of and found == statements else _in_place(found)
            done = requests.submit(self._storage, script, analyst=self._spark.analyst, store=self._store)
        return Result(note="\n".join(" ".join(change) for change in done.objects))

    def function(self, name: str, f: Callable[..., Any], *, returns: Any, deterministic: bool = True) -> None:
        """Declares `f`, which queries then call as `name(column, ...)`: over pandas Series, or over Arrow arrays where
        its annotations say so, it gives one of as many values, of the SQL type `returns` (docs/functions.md).

        It is kept with the catalog, pickled: whoever reads a view that is kept here, or maintains it, runs code that
        was given here.  Declared again with other code, the views that call it are built anew beside those that are
        read.  A function that is not `deterministic` is for queries alone.
        """
        self._opening.made()
        declared = python_function(name, f, _column_type(returns), deterministic)
        with storage_named(self.root):
            requests.submit(self._storage, "", analyst=self._spark.analyst, store=self._store, function=declared)

    def table(self, name: str) -> TableHandle:
        """The base table `name`, to write and to read rows as written."""
        return TableHandle(self._newest, self._logs, name)

    def view(self, name: str) -> Any:
        """The view `name`, to read at the newest version: a ViewReader; of a view over streams, what `stream` gives."""
        return self.stream(name) if _has_parts(self._newest, name) else _view(self._newest, name, self._frames)

    def stream(self, name: str) -> StreamHandle:
        """The stream or view over streams `name`, to read part by part; a stream is written here, too."""
        return StreamHandle(self._storage, self._newest, name, self._frames)

    def snapshot(self) -> HeldSnapshot:
        """The newest version, held until it is closed: `with db.snapshot() as s: ...`."""
        return HeldSnapshot(Held(self._newest), self._spark)

    def explain(self, view: str, *, format: str = "text") -> str:
        """How `view` is kept: zones, states and their sizes, what is shared with other views, the class of each
        operator, what a changed row reads, what falls back and why.

        `format`: "text"; "json" (one object); "mermaid" (a flowchart).
        """
        if not isinstance(format, str) or format.upper() not in EXPLAIN_FORMATS:
            raise InputError(f"format={format!r}: there are 'text', 'json' and 'mermaid'")
        return explain(self._newest.version(), view, format.upper())

    def maintain(self, *, servers: int | None = None, batch: int = OPERATIONS_MAX) -> Maintenance:
        """Keeps all views up to date, by Spark, in the background: `with db.maintain(): ...`, or `.wait()`, `.stop()`.

        `servers`: how many view servers share the work, by default one a core.  `batch`: how many operations a batch
        has at most.  Raises Busy, naming the process, where somebody maintains already.
        """
        self._opening.made()
        with storage_named(self.root):
            return Maintenance(self._storage, self._logs, partial(self._spark.executor, servers), batch)

    def catch_up(self, *, timeout: float | None = None, progress: Callable[[int, int], None] | None = None) -> int:
        """Returns the version that holds all that is now in the logs, with all views declared by now filled.

        Waits for whoever maintains; where nobody does, maintains until then.  `progress` is told how many operations
        are in, and how many there are.  Raises Timeout after `timeout` seconds.
        """
        self._newest.require_open()
        with storage_named(self.root):
            return catch_up(self._storage, self._logs, self._spark.executor, timeout, progress)

    def rebase(self, *, progress: Callable[[str, int], None] | None = None) -> Rebased:
        """Makes the views equal to the store, where an older copy of the store, or of the views, was put back
        (StoreReplaced); does nothing where the logs are those that the views have read.

        The rows in which they differ become one batch.  `progress` is told the table that is compared, and how many of
        its rows have been.  Raises Busy where somebody maintains.
        """
        self._newest.require_open()
        with storage_named(self.root):
            return rebase(self._storage, self._store, self._spark.executor, progress)

    def check(self, view: str, *, repair: bool = False) -> Report:
        """Proves DELTA against the store, then compares `view` with Spark's answer, as bags both ways.

        A view that is written to an outside store, too, is compared with what is there; with `repair` that is mended.

        Of a view over streams each kept part is computed again from what it reads, with dimension tables at their
        recorded versions; of a stream it is checked that its rows lie in the times of their parts.
        """
        return self.check_all([view], repair=repair)[-1]

    def check_all(
        self, views: Iterable[str] | None = None, *, progress: Callable[[str, int, int], None] | None = None,
        repair: bool = False,
    ) -> list[Report]:  # fmt: skip
        """`check` of several views (None: all, and all streams), at one version, and of the views that they read.

        `progress` is told, of what has parts, its name, the part up to which it is checked, and the last one.
        """
        names = None if views is None else list(views)
        with loss_named():
            # Before a version is held: the log behind it is trimmed after a minute, and Spark may start for long.
            judge = SparkJudge(self._spark.session(), self.catalog.zone, as_kept(self.catalog).functions)
            reports = with_layout_of_now(partial(self._checked, names, judge, progress))
        return with_targets(self._storage, reports, self.catch_up if repair else None)

    def _checked(
        self, names: list[str] | None, judge: Judge, progress: Callable[[str, int, int], None] | None
    ) -> list[Report]:
        with self._newest.held() as version:
            return _checked(version, self._logs, names, judge, progress)

    def status(self) -> dict[str, Any]:
        """Positions and lag of each node; rows, bytes and errors of each view; who maintains."""
        self._newest.require_open()
        with storage_named(self.root):
            return status(self._storage, self._logs)

    def lag(self) -> dict[str, Any]:
        """The version and each node's position and lag, as `status` has them, but at once: made for polling."""
        return lag(self._newest.version().snapshot, self._logs)

    def rejected(self, table: str | None = None) -> list[dict[str, Any]]:
        """Operations (of one table) that came in by a log and could not be applied, and rows that a stream could not
        take, with the reason."""
        return list(rejected_rows(self._newest.version().snapshot, table))

    def put_rejected_again(self, table: str | None = None) -> int:
        """Does the rejected operations (of one table or stream) again; returns how many were accepted, and so are no
        longer on the list."""
        self._newest.require_open()
        with storage_named(self.root):
            return put_again(self._storage, self._store, table)

    def close(self) -> None:
        """Lets go of everything; what was acknowledged is safe with or without it."""
        self._opening.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


class HeldSnapshot:
    """Several reads of one version; its files stay until it is closed."""

    def __init__(self, held: Held, spark: SparkUse) -> None:
        self._held = held
        self._spark = spark
        self._frames = SparkFrames(spark.session)

    @property
    def version(self) -> int:
        """The version that is read."""
        return self._held.version().number

    def view(self, name: str) -> Any:
        """The view `name` as of this version: a ViewReader; of a view over streams, what `stream` gives."""
        return self.stream(name) if _has_parts(self._held, name) else _view(self._held, name, self._frames)

    def stream(self, name: str) -> PartsReader:
        """The stream or view over streams `name` as of this version, to read part by part."""
        return PartsReader(self._held, name, self._frames)

    def sql(
        self, text: str, /, args: Sequence[Any] | Mapping[str, Any] | None = None, *, engine: str = "viewkeeper",
        unsafe: bool = False, **parameters: Any,
    ) -> Result:  # fmt: skip
        """Runs statements that read, as `Database.sql` does; the result is the last one's."""
        on_spark = _wants_spark(engine, unsafe, args or parameters)
        if on_spark and unsafe:
            return run_on_spark(self._spark, self._held.version(), text, unsafe=True)
        filled = filled_in(text, args, parameters)
        with filled.told():
            return self._run(filled, on_spark)

    def _run(self, filled: FilledIn, on_spark: bool) -> Result:
        text, parameters = filled.text, filled.parameters
        if on_spark:
            return run_on_spark(self._spark, self._held.version(), text, parameters)
        result = Result()
        try:
            statements = parse_script(text, parameters)
        except NotSupported as refused:
            return answered_by_spark(self._spark, self._held.version(), text, refused, parameters)
        for statement in statements:
            if not isinstance(statement, READING):
                raise InputError("a snapshot only reads; declare and change with db.sql")
            result = _answer(self._held.version(), statement, self._spark)
        return result

    def close(self) -> None:
        """Lets the version go."""
        self._frames.close()
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def _column_type(written: Any) -> Type:
    """The type that a text, or one of pyspark's types, says."""
    text = written if isinstance(written, str) else getattr(written, "simpleString", lambda: repr(written))()
    try:
        (table,) = parse_script(f"CREATE TABLE t (value {text})")
        assert isinstance(table, CreateTable)
        (column,) = table.columns
    except (DeclarationError, ValueError) as error:
        raise InputError(f"returns={written!r} is no type that a column can have, such as 'DOUBLE'") from error
    if column.type.is_nested:
        raise InputError(f"returns={written!r}: a function gives no arrays, structs or maps yet")
    return column.type


class _Kind(Enum):
    READS, CHANGES, DECLARES = range(3)


def _kind(statement: Statement) -> _Kind:
    if isinstance(statement, READING):
        return _Kind.READS
    return _Kind.CHANGES if isinstance(statement, RowStatement) else _Kind.DECLARES


def _checked(
    version: Version, logs: Logs, names: list[str] | None, judge: Judge,
    progress: Callable[[str, int, int], None] | None,
) -> list[Report]:  # fmt: skip
    """Reports on views, and on streams and the views over them; None: on all.  Lower ones come first."""
    catalog = version.catalog
    over = None if names is None else [name for name in names if isinstance(catalog.find(name), InParts)]
    kept = [view.name for view in catalog.views if view.replaces is None]
    core = kept if over is None else [name for name in names or () if name not in over]
    ids = (found.id for name in core if isinstance(found := catalog.find(name), View))
    below = [catalog.source(id_).name for id_ in sorted(parts_below(catalog, ids))]
    parts = check_parts(PartEvidence(version), None if over is None else [*over, *below], judge, progress)
    reports = check_views(DatabaseEvidence(version, logs), core, judge, parts) if core else []
    lower = [each for each in parts if each.view in below or (over is not None and each.view not in over)]
    return [*lower, *reports, *(each for each in parts if each not in lower)]


def _has_parts(source: Versions, name: str) -> bool:
    return isinstance(source.version().catalog.find(name), PartView)


def _view(source: Versions, name: str, frames: SparkFrames) -> ViewReader:
    source.version().view(name)
    return ViewReader(source, name, frames)


def _answer(version: Version, statement: Statement, spark: SparkUse) -> Result:
    """The rows of a statement that reads: by our own operators, or Spark where they do not know a SELECT."""
    try:
        return answer(version, statement, spark.analyst)
    except NotSupported as refused:
        if not isinstance(statement, SelectStatement):
            raise
        source, start = statement.query.source, statement.query.source.offset(statement.place)
        try:
            return answered_by_spark(spark, version, statement.text, refused, source.parameters)
        except (DeclarationError, QueryRaises) as error:
            if error is not refused:
                moved(error, lambda place: source.place(start + Script(statement.text).offset(place)))
            raise


def _wants_spark(engine: str, unsafe: bool, parameters: object) -> bool:
    if engine not in ("viewkeeper", "spark"):
        raise InputError(f"engine={engine!r}: there are 'viewkeeper' and 'spark'; a parameter needs another name")
    if unsafe and engine != "spark":
        raise InputError('unsafe=True is for engine="spark"; leave it out (a parameter needs another name)')
    if parameters and unsafe:
        raise InputError("with unsafe=True there are no parameters; write the values themselves")
    return engine == "spark"


def _in_place(statements: Iterable[Statement]) -> str:
    """A script of `statements` alone in which each stands where it stood, so that errors name the right place."""
    script, line, column = "", 1, 1
    for statement in statements:
        lines = statement.place[0] - line
        script += "\n" * lines + " " * (statement.place[1] - (1 if lines else column)) + statement.text + ";"
        line, column = script.count("\n") + 1, len(script) - script.rfind("\n")
    return script

"""Declarations of streams and their views from scripts: beside those of the core, all or nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from stream_database import DuckAnalyst
from viewkeeper.catalog.model import Catalog, HelperParts
from viewkeeper.errors import DeclarationError, Error
from viewkeeper.pipeline import requests
from viewkeeper.pipeline.declare_script import run, runs_without_use
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.term import Term
from viewkeeper.streams.existing import ExistingParts
from viewkeeper.streams.progress import StreamProgress
from viewkeeper.streams.view_progress import ViewProgress
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.local_disk import local_storage
from viewkeeper.trace.lock import driver_lock
from viewkeeper.trace.receipt import RunRef
from viewkeeper.trace.snapshot import Change, Snapshot

STREAM = "CREATE STREAM m (ts TIMESTAMP NOT NULL, src STRING, loss INT) TIMESTAMP BY ts PARTITION LENGTH 60;"
TABLE = "CREATE TABLE dims (src STRING PRIMARY KEY, site STRING);"
VIEWDF = ("CREATE VIEW v AS INITIALIZE v[i] AS SELECT src, loss FROM m[i] UPDATE v[j] AS SELECT src, loss FROM m[j] "
          "PARTITION LENGTH 60;")  # fmt: skip
PLAIN = "CREATE VIEW p AS SELECT m.src, site FROM m JOIN dims ON m.src = dims.src;"


def database(root: Path) -> Storage:
    storage = local_storage(root)
    storage.initialise(Catalog())
    return storage


def declare(storage: Storage, sql: str) -> requests.ScriptAnswer:
    return requests.submit(storage, sql, wait=10, analyst=DuckAnalyst)


def commit(storage: Storage, progress: dict[int, dict[str, object]]) -> Snapshot:
    """Streams and views have come so far."""
    lock = driver_lock(storage.root)
    lock.acquire("pipeline", 5.0)
    term = Term(storage, lock)
    try:
        term.commit(Change("parts", term.snapshot.version + 1, progress=progress))
        return term.snapshot
    finally:
        term.close()


def test_streams_and_their_views_stand_in_scripts_beside_tables_and_views(tmp_path: Path) -> None:
    storage = database(tmp_path)
    answer = declare(storage, TABLE + STREAM + "CREATE VIEW c AS SELECT site FROM dims;" + VIEWDF + PLAIN)
    assert answer.objects == (
        ("CREATE", "TABLE", "dims"), ("CREATE", "STREAM", "m"), ("CREATE", "VIEW", "c"), ("CREATE", "VIEW", "v"),
        ("CREATE", "VIEW", "p"),
    )  # fmt: skip
    catalog = storage.newest().catalog
    assert [view.name for view in catalog.views] == ["c"]
    assert [(view.name, view.kind) for view in catalog.part_views] == [("v", "viewdf"), ("p", "plain")]
    ids = [item.id for item in (*catalog.whole, *catalog.in_parts)]
    assert len(set(ids)) == len(ids) and max(ids) < catalog.next_id
    dropped = declare(storage, "DROP VIEW p; DROP VIEW v; DROP STREAM m; DROP TABLE IF EXISTS nothing")
    assert dropped.objects == (("DROP", "VIEW", "p"), ("DROP", "VIEW", "v"), ("DROP", "STREAM", "m"))


def test_a_script_with_one_wrong_statement_changes_nothing(tmp_path: Path) -> None:
    storage = database(tmp_path)
    with pytest.raises(DeclarationError, match="there is a stream called m already.*line 2, column 15"):
        declare(storage, STREAM + "\n" + STREAM)
    assert storage.newest().catalog.streams == ()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("CREATE TABLE M (a INT)", "there is a stream called m already"),
        ("CREATE VIEW M AS SELECT site FROM dims", "there is a stream called m already"),
        ("CREATE INDEX v ON dims (site)", "there is a view called v already"), ("DROP TABLE dims", "dims is used by p"),
        ("DROP TABLE m", "m is a stream; use DROP STREAM m"), ("DROP STREAM m", "m is used by v, p"),
        ("CREATE VIEW e AS SELECT site FROM dims EXPIRE AFTER 5 DAYS", "leave out EXPIRE AFTER"),
        ("ALTER VIEW p AS SELECT src, count(*) AS n FROM m GROUP BY src", "p is kept part by part.*create it again"),
        ("DROP STREAM nix", "there is no stream nix to drop"),
    ],
)  # fmt: skip
def test_names_in_use_and_what_uses_them_are_known_across_both_kinds(tmp_path: Path, script: str, message: str) -> None:
    storage = database(tmp_path)
    declare(storage, TABLE + STREAM + VIEWDF + PLAIN)
    with pytest.raises(DeclarationError, match=message):
        declare(storage, script)


def test_a_rebuild_is_noted_in_the_views_progress_and_the_lowest_part_counts(tmp_path: Path) -> None:
    storage = database(tmp_path)
    declare(storage, STREAM + VIEWDF)
    id_ = storage.newest().catalog.part_views[0].id
    commit(storage, {id_: ViewProgress(first=5, next=20).to_dict()})
    answer = declare(storage, "ALTER VIEW v REBUILD FROM 12; ALTER VIEW v REBUILD FROM 15")
    assert answer.objects == (("REBUILD", "VIEW", "v"),) * 2
    assert ViewProgress.from_dict(storage.newest().progress[id_]) == ViewProgress(first=5, next=20, redo=12)
    declare(storage, "ALTER VIEW v FROM 9 AS SELECT src, loss FROM m WHERE loss > 5")
    assert ViewProgress.from_dict(storage.newest().progress[id_]).redo == 9
    assert storage.newest().catalog.part_views[0].plan.earlier[0].until == 9


def test_the_initial_subscript_follows_from_the_parts_that_the_version_has(tmp_path: Path) -> None:
    storage = database(tmp_path)
    declare(storage, STREAM)
    stream = storage.newest().catalog.streams[0].id
    commit(storage, {stream: StreamProgress(first=5, next=20).to_dict()})
    declare(storage, VIEWDF)
    assert storage.newest().catalog.part_views[0].first == 19


def test_what_exists_is_from_the_first_kept_part_to_the_last_built_one() -> None:
    catalog = run(Catalog(), STREAM + VIEWDF, DuckAnalyst()).catalog
    stream, view = catalog.streams[0].id, catalog.part_views[0].id
    progress = {stream: StreamProgress(first=5, next=20, kept=9).to_dict(), view: ViewProgress(first=7).to_dict()}
    known = ExistingParts(SimpleNamespace(catalog=catalog, progress=progress))  # type: ignore[arg-type]
    assert (known.oldest(stream), known.newest(stream)) == (9, 19)
    assert (known.oldest(view), known.newest(view), known.newest(999)) == (None, None, None)


def test_files_of_parts_stay_as_long_as_their_stream_view_helper_or_dimension_table() -> None:
    catalog = run(Catalog(), TABLE + STREAM + PLAIN).catalog
    table, stream, view = catalog.tables[0], catalog.streams[0].id, catalog.part_views[0]
    helped = catalog.changing([replace(view, helpers=(HelperParts(900, "rows", ()),))])
    ids = {table.id, table.stored.state.id, stream, view.id, 900}
    snapshot = SimpleNamespace(states={id_: (RunRef(id_, f"f{id_}", 0, 1, 1, 0, 0, 1, 1),) for id_ in (3, *ids)})
    assert runs_without_use(snapshot, helped) == []  # type: ignore[arg-type]
    without = run(helped, "DROP VIEW p; DROP STREAM m; DROP TABLE dims").catalog
    assert {run.state for run in runs_without_use(snapshot, without)} == ids  # type: ignore[arg-type]


def test_a_viewdf_without_spark_is_refused_and_the_driver_goes_on(tmp_path: Path) -> None:
    storage = database(tmp_path)
    declare(storage, STREAM)
    with pytest.raises(Error, match="analysed by Spark"):
        requests.submit(storage, VIEWDF, wait=10)
    with pytest.raises(Error, match="this driver runs without it"):
        requests.submit(storage, VIEWDF, wait=10, analyst=LocalExecutor().analyst)
    assert declare(storage, "CREATE VIEW q AS SELECT loss FROM m").objects == (("CREATE", "VIEW", "q"),)

"""DDL from any process: durable requests, each applied exactly once.

A request is a file in `<root>/requests/`.  The running driver answers it at the next batch boundary; where none runs,
the requester takes the driver lock for a moment and answers it itself, and so it does when the driver dies.

Before a driver commits what a request asks for it writes the answer as *prepared*, with the manifest number and the
epoch of the coming commit.  A driver that is killed between commit and answer so leaves the proof: the request was
applied if, and only if, the manifest of that number is of that epoch, since numbers are given once and manifests of the
last minute are kept.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from viewkeeper import errors
from viewkeeper.catalog.model import Catalog
from viewkeeper.errors import Busy, DeclarationError, Error, NotFound, Timeout
from viewkeeper.pipeline import declare
from viewkeeper.pipeline.term import Term
from viewkeeper.streams.analyst import Analyst, LazyAnalyst
from viewkeeper.streams.existing import ExistingParts
from viewkeeper.streams.view_progress import ViewProgress
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.lock import DriverLock
from viewkeeper.trace.snapshot import Change, Snapshot

POLL_SECONDS = 0.005
ANSWERS_KEPT_SECONDS = 3600.0
"""How long an answer waits for a requester that has gone away."""


@dataclass(frozen=True)
class Answer:
    """What a script of declarations did: the objects it made or dropped, as (verb, kind, name), and the version that
    has them."""

    objects: tuple[tuple[str, str, str], ...]
    version: int


def submit(root: Path, sql: str, wait: float | None = None, analyst: Callable[[], Analyst] | None = None) -> Answer:
    """Applies a script of declarations, all or nothing, and returns when it is committed.

    `analyst` makes who is asked about the queries of ViewDFs, if this process answers and there are any.
    Raises what is wrong with the script (an `Error`), or `Timeout` after `wait` seconds; it stays in line then.
    """
    request = _write_request(root, sql)
    storage = Storage(root)
    deadline = None if wait is None else time.monotonic() + wait
    while True:
        answer = _read(request.with_suffix(".answer"))
        if answer is not None:
            # The answer last: a request without one is taken for a new one.
            for suffix in (".request", ".prepared", ".answer"):
                request.with_suffix(suffix).unlink(missing_ok=True)
            return _result(answer)
        lock = DriverLock(storage)
        if _acquired(lock):
            term = Term(storage, lock)
            try:
                answer_all(term, analyst)
            finally:
                term.close()
            continue
        if deadline is not None and time.monotonic() > deadline:
            raise Timeout(
                f"the declaration has not been answered within {wait:g} s; it stays in line, and whoever maintains "
                f"{root} will apply it"
            )
        time.sleep(POLL_SECONDS)


def answer_all(term: Term, analyst: Callable[[], Analyst] | None = None) -> bool:
    """Answers every request in line, in the order in which they were made; whether there was any."""
    folder = term.storage.root / "requests"
    if not folder.is_dir():
        return False
    pending = sorted(Path(entry.path) for entry in os.scandir(folder) if entry.name.endswith(".request"))
    asked = None if analyst is None else LazyAnalyst(analyst)
    for request in pending:
        _answer(term, request, asked)
    return bool(pending)


def clear_forgotten(root: Path, now: float) -> None:
    """Deletes answers that nobody has come for."""
    folder = root / "requests"
    for file in folder.glob("*.answer") if folder.is_dir() else ():
        if now - file.stat().st_mtime > ANSWERS_KEPT_SECONDS:
            file.unlink(missing_ok=True)


def _acquired(lock: DriverLock) -> bool:
    try:
        lock.acquire("statement", 0.0)
    except Busy:
        return False
    return True


def _write_request(root: Path, sql: str) -> Path:
    folder = root / "requests"
    folder.mkdir(exist_ok=True)
    request = folder / f"{time.time_ns():020d}-{os.getpid()}-{secrets.token_hex(4)}.request"
    _write(request, {"sql": sql})
    return request


def _answer(term: Term, request: Path, analyst: Analyst | None) -> None:
    prepared_file = request.with_suffix(".prepared")
    prepared = _read(prepared_file)
    if prepared is not None and _was_committed(term.storage, prepared):
        _finish(request, prepared["answer"])
        return
    asked = _read(request)
    if asked is None or request.with_suffix(".answer").exists():
        return  # answered already: only the requester's clearing away is left
    try:
        declared = declare.run(term.snapshot.catalog, asked["sql"], analyst, ExistingParts(term.snapshot))
    except Error as error:
        _finish(request, _refusal(error))
        return
    except Exception as error:  # noqa: BLE001 - a defect of ours must fail the one statement, not the pipeline
        _finish(request, _refusal(Error(f"the statement failed: {type(error).__name__}: {error}; this is a defect")))
        return
    version = term.snapshot.version + 1
    if declared.catalog is term.snapshot.catalog and not declared.redo:
        _finish(request, asdict(Answer(declared.objects, term.snapshot.version)))
        return
    answer = asdict(Answer(declared.objects, version))
    _write(prepared_file, {"number": term.snapshot.number + 1, "epoch": term.epoch, "answer": answer})
    gone = declare.runs_without_use(term.snapshot, declared.catalog)
    progress = {id_: _altered(term.snapshot, id_, declared) for id_ in _altered_views(term.snapshot.catalog, declared)}
    term.commit(Change("catalog", version, removed=gone, catalog=declared.catalog, progress=progress or None))
    _finish(request, answer)


def _altered_views(before: Catalog, declared: declare.Declared) -> set[int]:
    """The ids of views over streams that have parts to be computed anew, or another definition than before."""
    old = {view.id: view for view in before.part_views}
    new = declared.catalog.part_views
    return {view.id for view in new if view.id in declared.redo or old.get(view.id, view) is not view}


def _altered(snapshot: Snapshot, id_: int, declared: declare.Declared) -> dict[str, Any]:
    """The progress of a view with what is to be computed anew of it.  Where it is stale that is tried again."""
    progress = ViewProgress.from_dict(snapshot.progress.get(id_))
    redo, renew = (_lowest(old, new.get(id_)) for old, new in ((progress.redo, declared.redo),
                                                              (progress.renew, declared.renew)))  # fmt: skip
    return replace(progress, redo=redo, renew=renew, stale=None, tried=None).to_dict()


def _lowest(one: int | None, other: int | None) -> int | None:
    return min((part for part in (one, other) if part is not None), default=None)


def _was_committed(storage: Storage, prepared: dict[str, Any]) -> bool:
    try:
        return storage.at(prepared["number"]).epoch == prepared["epoch"]
    except NotFound:
        return False


def _finish(request: Path, answer: dict[str, Any]) -> None:
    # The answer first: a request without one is applied again, or found to have been applied.
    _write(request.with_suffix(".answer"), answer)
    request.unlink(missing_ok=True)
    request.with_suffix(".prepared").unlink(missing_ok=True)


def _refusal(error: Error) -> dict[str, Any]:
    place = (error.line, error.column) if isinstance(error, DeclarationError) else (None, None)
    return {"error": type(error).__name__, "message": str(error), "line": place[0], "column": place[1]}


def _result(answer: dict[str, Any]) -> Answer:
    if "error" not in answer:
        return Answer(tuple((verb, kind, name) for verb, kind, name in answer["objects"]), answer["version"])
    error = getattr(errors, answer["error"], Error)(answer["message"])
    if isinstance(error, DeclarationError):
        error.line, error.column = answer["line"], answer["column"]
    raise error


def _read(file: Path) -> dict[str, Any] | None:
    try:
        return json.loads(file.read_bytes())
    except FileNotFoundError:
        return None


def _write(file: Path, content: dict[str, Any]) -> None:
    """Writes `file` as one durable step."""
    draft = file.with_suffix(f".{os.getpid()}")
    with draft.open("w") as stream:
        json.dump(content, stream)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

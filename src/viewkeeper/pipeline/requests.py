"""DDL from any process: durable requests, each applied exactly once.

A request is a file in `<root>/requests/`.  The running driver answers it at the next batch boundary; where none runs,
the requester takes the driver lock for a moment and answers it itself, and so it does when the driver dies.

A driver that is about to do what a request asks for *takes* it, by giving its file another name; the requester takes
it back by deleting it.  Only one of the two finds it, so a statement that "failed" is never applied: where its caller
is told so, the request is gone.

Before a driver commits what a request asks for it writes the answer as *prepared*, with the number and the identity of
the coming manifest.  A driver that is killed between commit and answer so leaves the proof: the request was applied if,
and only if, the manifest of that number has that identity, which no other has; manifests of the last minute are kept.
"""

from __future__ import annotations

import contextlib
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
from viewkeeper.errors import Busy, DeclarationError, Error, NotFound, StorageError, Timeout
from viewkeeper.permissions import make_folder
from viewkeeper.pipeline import declare
from viewkeeper.pipeline.dropped import forget_dropped
from viewkeeper.pipeline.term import Term
from viewkeeper.stores.contract import Store
from viewkeeper.streams.analyst import Analyst, LazyAnalyst
from viewkeeper.streams.existing import ExistingParts
from viewkeeper.streams.intake.log import StreamLog
from viewkeeper.streams.view_progress import ViewProgress
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.local import LocalDisk
from viewkeeper.trace.lock import DriverLock
from viewkeeper.trace.snapshot import Change, Snapshot, new_identity

REQUEST, TAKEN, PREPARED, ANSWER = ".request", ".taken", ".prepared", ".answer"
IN_LINE = (REQUEST, TAKEN)

POLL_SECONDS = 0.005
FORGETTING_SECONDS = 2.0
"""For so long a process that answers its own statement removes rows of dropped tables."""
ANSWERS_KEPT_SECONDS = 3600.0
"""How long an answer waits for a requester that has gone away."""


@dataclass(frozen=True)
class Answer:
    """What a script of declarations did: the objects it made or dropped, as (verb, kind, name), and the version that
    has them."""

    objects: tuple[tuple[str, str, str], ...]
    version: int


def submit(
    root: Path, sql: str, wait: float | None = None, analyst: Callable[[], Analyst] | None = None,
    store: Store | None = None,
) -> Answer:  # fmt: skip
    """Applies a script of declarations, all or nothing, and returns when it is committed.

    `analyst` makes who is asked about the queries of ViewDFs, if this process answers and there are any.  It then also
    removes rows of dropped tables from `store`, for a moment.
    Raises what is wrong with the script (an `Error`), or `Timeout` after `wait` seconds; it stays in line then.
    """
    storage, request = Storage(root), _write_request(root, sql)
    try:
        answer = _awaited(storage, request, wait, analyst, store)
    except (Timeout, StorageError):  # it stays in line, or has been taken back as far as that could be done
        raise
    except BaseException as error:
        known = _withdrawn(storage, request, error, driving=False)
        if known is None or not isinstance(error, Exception):
            raise
        answer = known
    with contextlib.suppress(OSError):  # `clear_forgotten` does it then
        _clear(request)
    return _result(answer)


def _awaited(
    storage: Storage, request: Path, wait: float | None, analyst: Callable[[], Analyst] | None, store: Store | None
) -> dict[str, Any]:  # fmt: skip
    """The answer to a request, given by whoever drives; by this process where nobody does."""
    deadline = None if wait is None else time.monotonic() + wait
    while True:
        answer = _read(request.with_suffix(ANSWER))
        if answer is not None:
            return answer
        lock = DriverLock(storage)
        if _acquired(lock):
            try:
                term = Term(storage, lock)
                answer_all(term, analyst)
                if store is not None:
                    with contextlib.suppress(Error):  # Whoever drives next does it.
                        forget_dropped(term, store, FORGETTING_SECONDS)
            except BaseException as error:
                known = _withdrawn(storage, request, error, driving=True)
                if known is None or not isinstance(error, Exception):
                    raise
                return known
            finally:
                lock.release()
            continue
        if deadline is not None and time.monotonic() > deadline:
            raise Timeout(
                f"the declaration has not been answered within {wait:g} s; it stays in line, and whoever maintains "
                f"{storage.root} will apply it"
            )
        time.sleep(POLL_SECONDS)


def _withdrawn(storage: Storage, request: Path, error: BaseException, *, driving: bool) -> dict[str, Any] | None:
    """Takes a request back whose caller is about to be told `error`.  Its answer, if it has one by now; None: it is
    gone, and will never be applied.  Raises StorageError where neither is sure.

    `driving`: this process holds the driver lock, so that nobody else is at it.
    """
    taken, prepared = request.with_suffix(TAKEN), request.with_suffix(PREPARED)
    try:
        if driving and (proof := _read(prepared)) is not None and _was_committed(storage, proof):
            storage.publish(storage.manifests)  # the commit may have failed at its very end
            return proof["answer"]
        if driving:
            taken.unlink(missing_ok=True)
            prepared.unlink(missing_ok=True)
        request.unlink(missing_ok=True)
        if request.parent.exists():
            storage.publish(request.parent)
        if not taken.exists():
            return _read(request.with_suffix(ANSWER))
    except OSError as problem:
        error.add_note(f"and taking the statement back failed: {problem}")
    if not isinstance(error, Exception):
        return None  # Ctrl-C says nothing of the statement
    raise StorageError(
        f"{storage.root}: {error or type(error).__name__}; the statement may still be applied, since it could not be "
        "taken back: see what SHOW TABLES and SHOW VIEWS say before you try it again"
    ) from error


def answer_all(term: Term, analyst: Callable[[], Analyst] | None = None) -> bool:
    """Answers every request in line, in the order in which they were made; whether there was any."""
    folder = term.storage.root / "requests"
    if not folder.is_dir():
        return False
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.name.endswith(IN_LINE)]
    pending = sorted({(folder / name).with_suffix(REQUEST) for name in names})
    asked = None if analyst is None else LazyAnalyst(analyst)
    before = term.snapshot.catalog
    for request in pending:
        _answer(term, request, asked)
    if pending:
        _forget_dropped(term, before)
    return bool(pending)


def _forget_dropped(term: Term, before: Catalog) -> None:
    """What is left in the log of streams that are no more goes, and from now on it takes nothing for them."""
    after = term.snapshot.catalog
    dropped = {stream.id for stream in before.streams} - {stream.id for stream in after.streams}
    if not dropped and not (term.storage.root / "streams").is_dir():
        return
    # The statements are done: what fails here is done by the next one, or by whoever maintains.
    with contextlib.suppress(Error, OSError), StreamLog(term.storage.root) as log:
        for id_ in dropped:
            log.forget(id_)
        log.forget_dropped(after)


def clear_forgotten(root: Path, now: float) -> None:
    """Deletes answers that nobody has come for."""
    folder = root / "requests"
    for file in folder.glob(f"*{ANSWER}") if folder.is_dir() else ():
        with contextlib.suppress(FileNotFoundError):  # its requester has just come
            if now - file.stat().st_mtime > ANSWERS_KEPT_SECONDS:
                _clear(file)


def _acquired(lock: DriverLock) -> bool:
    try:
        lock.acquire("statement", 0.0)
    except Busy:
        return False
    return True


def _write_request(root: Path, sql: str) -> Path:
    storage, folder = Storage(root), root / "requests"
    request = folder / f"{time.time_ns():020d}-{os.getpid()}-{secrets.token_hex(4)}{REQUEST}"
    try:
        make_folder(folder)
        storage.disk.write(request, json.dumps({"sql": sql}).encode())
    except BaseException as error:
        if _withdrawn(storage, request, error, driving=False) is None or not isinstance(error, Exception):
            raise
    return request


def _answer(term: Term, request: Path, analyst: Analyst | None) -> None:
    disk = term.storage.disk
    prepared_file, taken = request.with_suffix(PREPARED), request.with_suffix(TAKEN)
    prepared = _read(prepared_file)
    if prepared is not None and _was_committed(term.storage, prepared):
        _finish(disk, request, prepared["answer"])
        return
    asked = _read(taken) or _read(request)
    if asked is None or request.with_suffix(ANSWER).exists():
        return  # answered already: only the requester's clearing away is left
    try:
        declared = declare.run(term.snapshot.catalog, asked["sql"], analyst, ExistingParts(term.snapshot))
    except Error as error:
        _finish(disk, request, _refusal(error))
        return
    except (OSError, MemoryError):
        raise  # the machine's, not the statement's
    except Exception as error:  # noqa: BLE001 - a defect of ours must fail the one statement, not the pipeline
        refusal = Error(f"the statement failed: {type(error).__name__}: {error}; this is a defect")
        _finish(disk, request, _refusal(refusal))
        return
    version = term.snapshot.version + 1
    if declared.catalog is term.snapshot.catalog and not declared.redo:
        _finish(disk, request, asdict(Answer(declared.objects, term.snapshot.version)))
        return
    if not _take(request, taken):
        return
    answer, identity = asdict(Answer(declared.objects, version)), new_identity()
    proof = {"number": term.snapshot.number + 1, "identity": identity, "answer": answer}
    disk.write(prepared_file, json.dumps(proof).encode())
    gone = declare.runs_without_use(term.snapshot, declared.catalog)
    progress = {id_: _altered(term.snapshot, id_, declared) for id_ in _altered_views(term.snapshot.catalog, declared)}
    term.commit(Change("catalog", version, removed=gone, catalog=declared.catalog, progress=progress or None), identity)
    _finish(disk, request, answer)


def _take(request: Path, taken: Path) -> bool:
    """Makes a request this driver's to apply; False where its requester has taken it back."""
    try:
        request.rename(taken)
    except FileNotFoundError:
        return taken.exists()  # by a driver before this one
    return True


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
        return storage.at(prepared["number"]).identity == prepared["identity"]
    except NotFound:
        return False


def _finish(disk: LocalDisk, request: Path, answer: dict[str, Any]) -> None:
    # The answer first: a request without one is applied again, or found to have been applied.
    disk.write(request.with_suffix(ANSWER), json.dumps(answer).encode())
    for suffix in (REQUEST, TAKEN, PREPARED):
        request.with_suffix(suffix).unlink(missing_ok=True)


def _clear(request: Path) -> None:
    # The answer last: a request without one is taken for a new one.
    for suffix in (REQUEST, TAKEN, PREPARED, ANSWER):
        request.with_suffix(suffix).unlink(missing_ok=True)


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

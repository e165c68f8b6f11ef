"""DDL from any process: durable requests, each applied exactly once.

A request is a file in `requests/`.  The running driver answers it at the next batch boundary; where none runs,
the requester takes the driver lock for a moment and answers it itself, and so it does when the driver dies.

A driver that is about to do what a request asks for *takes* it: it writes `.taken`, and then looks whether the request
is still there.  The requester takes it back by deleting it, and then looks whether it has been taken.  One of the two
sees the other at least, so a statement that "failed" is never applied: where its caller is told so, the request was
gone before anybody took it.

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
from typing import Any

from viewkeeper import errors
from viewkeeper.catalog.codec import dumps, loads
from viewkeeper.catalog.model import Catalog, PythonFunction
from viewkeeper.errors import Busy, DeclarationError, Error, Fenced, NotFound, StorageError, Timeout
from viewkeeper.pipeline import declare_script
from viewkeeper.pipeline.dropped import forget_dropped
from viewkeeper.pipeline.term import Term, acquired
from viewkeeper.stores.contract import Store
from viewkeeper.streams.analyst import Analyst, LazyAnalyst
from viewkeeper.streams.existing import ExistingParts
from viewkeeper.streams.intake.stream_log import STREAMS, StreamLog
from viewkeeper.streams.view_progress import ViewProgress
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.disk import REQUESTS, Disk, Lock, create_own
from viewkeeper.trace.snapshot import Change, Snapshot, new_identity

REQUEST, TAKEN, PREPARED, ANSWER = ".request", ".taken", ".prepared", ".answer"
IN_LINE = (REQUEST, TAKEN, PREPARED)

POLL_SECONDS = 0.005
FORGETTING_SECONDS = 2.0
"""For so long a process that answers its own statement removes rows of dropped tables."""
ANSWERS_KEPT_SECONDS = 3600.0
"""How long an answer waits for a requester that has gone away."""


@dataclass(frozen=True)
class ScriptAnswer:
    """What a script of declarations did: the objects it made or dropped, as (verb, kind, name), and the version that
    has them."""

    objects: tuple[tuple[str, str, str], ...]
    version: int


def submit(
    storage: Storage, sql: str, wait: float | None = None, analyst: Callable[[], Analyst] | None = None,
    store: Store | None = None, function: PythonFunction | None = None,
) -> ScriptAnswer:  # fmt: skip
    """Applies a script of declarations, or declares `function`, all or nothing, and returns when it is committed.

    `analyst` makes who is asked about the queries of ViewDFs, if this process answers and there are any.  It then also
    removes rows of dropped tables from `store`, for a moment.
    Raises what is wrong with the script (an `Error`), or `Timeout` after `wait` seconds; it stays in line then.
    """
    storage = storage.another()
    request = _write_request(storage, sql, function)
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
        _clear(storage.disk, request)
    return _result(answer)


def _awaited(
    storage: Storage, request: str, wait: float | None, analyst: Callable[[], Analyst] | None, store: Store | None
) -> dict[str, Any]:  # fmt: skip
    """The answer to a request, given by whoever drives; by this process where nobody does."""
    deadline = None if wait is None else time.monotonic() + wait
    while True:
        answer = _read(storage.disk, request + ANSWER)
        if answer is not None:
            return answer
        lock = _lock_if_free(storage)
        if lock is not None:
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


def _withdrawn(storage: Storage, request: str, error: BaseException, *, driving: bool) -> dict[str, Any] | None:
    """Takes a request back whose caller is about to be told `error`.  Its answer, if it has one by now; None: it is
    gone, and will never be applied.  Raises StorageError where neither is sure.

    `driving`: this process holds the driver lock, so that nobody else is at it.
    """
    disk = storage.disk
    try:
        if driving and (proof := _read(disk, request + PREPARED)) is not None:
            with contextlib.suppress(Fenced):
                storage.settle()  # the commit may have failed at its very end
            if _was_committed(storage, proof):
                return proof["answer"]
        gone = IN_LINE if driving else (REQUEST,)
        disk.delete([request + suffix for suffix in gone], lasting=True)
        if not disk.exists(request + TAKEN):
            return _read(disk, request + ANSWER)
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
    names = term.storage.disk.list(REQUESTS)
    pending = sorted({f"{REQUESTS}/{name.partition('.')[0]}" for name in names if name.endswith(IN_LINE)})
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
    if not dropped and not (term.storage.root / STREAMS).is_dir():
        return
    # The statements are done: what fails here is done by the next one, or by whoever maintains.
    with contextlib.suppress(Error, OSError), StreamLog(term.storage.root, term.storage.disk) as log:
        for id_ in dropped:
            log.forget(id_)
        log.forget_dropped(after)


def clear_forgotten(disk: Disk, now: float) -> None:
    """Deletes answers that nobody has come for."""
    for name in disk.list(REQUESTS):
        if name.endswith(ANSWER):
            with contextlib.suppress(FileNotFoundError):  # its requester has just come
                if now - disk.stat(f"{REQUESTS}/{name}").time > ANSWERS_KEPT_SECONDS:
                    _clear(disk, f"{REQUESTS}/{name.removesuffix(ANSWER)}")


def _lock_if_free(storage: Storage) -> Lock | None:
    try:
        return acquired(storage, "statement", 0.0)
    except Busy:
        return None


def _write_request(storage: Storage, sql: str, function: PythonFunction | None = None) -> str:
    """The name of the new request, without a suffix."""
    asked = {"sql": sql, "function": None if function is None else dumps(function).decode()}
    request = f"{REQUESTS}/{time.time_ns():020d}-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        create_own(storage.disk, request + REQUEST, json.dumps(asked).encode())
    except BaseException as error:
        if _withdrawn(storage, request, error, driving=False) is None or not isinstance(error, Exception):
            raise
    return request


def _answer(term: Term, request: str, analyst: Analyst | None) -> None:
    disk = term.storage.disk
    prepared = _read(disk, request + PREPARED)
    if prepared is not None and _was_committed(term.storage, prepared):
        _finish(disk, request, prepared["answer"])
        return
    asked = _read(disk, request + REQUEST)
    if asked is None or disk.exists(request + ANSWER):
        # Taken back, or answered already.
        disk.delete([request + suffix for suffix in IN_LINE])
        return
    try:
        declared = _declared(term.snapshot, asked, analyst)
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
        _finish(disk, request, asdict(ScriptAnswer(declared.objects, term.snapshot.version)))
        return
    if not _take(disk, request):
        return
    answer, identity = asdict(ScriptAnswer(declared.objects, version)), new_identity()
    proof = {"number": term.snapshot.number + 1, "identity": identity, "answer": answer}
    if prepared is not None:  # of a commit that never came to be
        disk.delete([request + PREPARED], lasting=True)
    create_own(disk, request + PREPARED, json.dumps(proof).encode())
    gone = declare_script.runs_without_use(term.snapshot, declared.catalog)
    progress = {id_: _altered(term.snapshot, id_, declared) for id_ in _altered_views(term.snapshot.catalog, declared)}
    term.commit(Change("catalog", version, removed=gone, catalog=declared.catalog, progress=progress or None), identity)
    _finish(disk, request, answer)


def _declared(snapshot: Snapshot, asked: dict[str, Any], analyst: Analyst | None) -> declare_script.Declared:
    if asked["function"] is not None:
        return declare_script.run_function(snapshot.catalog, loads(asked["function"].encode()), analyst)
    return declare_script.run(snapshot.catalog, asked["sql"], analyst, ExistingParts(snapshot))


def _take(disk: Disk, request: str) -> bool:
    """Makes a request this driver's to apply; False where its requester has taken it back."""
    disk.put(request + TAKEN, b"{}")
    if disk.exists(request + REQUEST):
        return True
    disk.delete([request + TAKEN])
    return False


def _altered_views(before: Catalog, declared: declare_script.Declared) -> set[int]:
    """The ids of views over streams that have parts to be computed anew, or another definition than before."""
    old = {view.id: view for view in before.part_views}
    new = declared.catalog.part_views
    return {view.id for view in new if view.id in declared.redo or old.get(view.id, view) is not view}


def _altered(snapshot: Snapshot, id_: int, declared: declare_script.Declared) -> dict[str, Any]:
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


def _finish(disk: Disk, request: str, answer: dict[str, Any]) -> None:
    # The answer first: a request without one is applied again, or found to have been applied.
    create_own(disk, request + ANSWER, json.dumps(answer).encode())
    disk.delete([request + suffix for suffix in IN_LINE])


def _clear(disk: Disk, request: str) -> None:
    # The answer last: a request without one is taken for a new one.
    disk.delete([request + suffix for suffix in IN_LINE])
    disk.delete([request + ANSWER])


def _refusal(error: Error) -> dict[str, Any]:
    place = (error.line, error.column) if isinstance(error, DeclarationError) else (None, None)
    return {"error": type(error).__name__, "message": str(error), "line": place[0], "column": place[1]}


def _result(answer: dict[str, Any]) -> ScriptAnswer:
    if "error" not in answer:
        return ScriptAnswer(tuple((verb, kind, name) for verb, kind, name in answer["objects"]), answer["version"])
    error = getattr(errors, answer["error"], Error)(answer["message"])
    if isinstance(error, DeclarationError):
        error.line, error.column = answer["line"], answer["column"]
    raise error


def _read(disk: Disk, name: str) -> dict[str, Any] | None:
    try:
        return json.loads(disk.read(name))
    except FileNotFoundError:
        return None

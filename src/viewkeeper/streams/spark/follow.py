"""`follow`: a Spark streaming DataFrame into a stream, or a base table, each row once, whatever is killed and when.

Each micro-batch is one call, whose id is made of the checkpoint's own id and the batch's number.  Spark does the batch
that it had not committed again, with the same number and rows, and the call is found to have been done.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from viewkeeper.errors import Busy, Error, InputError, NotFound
from viewkeeper.permissions import make_folder
from viewkeeper.stores.contract import Numbered
from viewkeeper.streams.intake.append import StreamTarget, append
from viewkeeper.streams.intake.given import whole_positions
from viewkeeper.streams.intake.stream_environment import Appended
from viewkeeper.streams.intake.stream_log import STREAMS, StreamLog
from viewkeeper.trace.lock import FileLock, Holder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
JAVA_SECONDS = 60.0
"""How long the Java process of a follow that was killed may take to end."""


class FollowTarget(ABC):
    """What follows a DataFrame.  `what` is how people call it, `folder` where its follows keep their checkpoints,
    `done` what is done with a DataFrame at rest."""

    what: str
    done: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def require_columns(self, names: Sequence[str]) -> None:
        """Raises InputError where a DataFrame of such columns cannot be followed."""

    @abstractmethod
    def require_there(self) -> None:
        """Raises NotFound where it was dropped meanwhile."""

    @abstractmethod
    def take(self, frame: Any, step: Numbered) -> Any:
        """Stores a micro-batch in one step, if it has not been; what that did."""


class StreamFollow(FollowTarget):
    """A stream that a DataFrame is appended to."""

    done = "append it"

    def __init__(self, target: StreamTarget) -> None:
        root = target.storage.root.resolve()
        super().__init__(root / STREAMS / "follow" / str(target.stream.id))
        self.what = f"stream {target.stream.name}"
        self._target = target

    def require_columns(self, names: Sequence[str]) -> None:
        whole_positions(self._target.stream, names)

    def require_there(self) -> None:
        storage = self._target.storage
        with StreamLog(storage.root, storage.disk) as log:
            log.require_there(self._target.stream)

    def take(self, frame: Any, step: Numbered) -> Appended:
        return append(self._target, frame, step)


def follow(target: FollowTarget, df: Any, name: str, *, trigger: dict[str, Any] | None = None) -> Follow:
    """Take all that comes in `df`, a Spark streaming DataFrame, until stopped; goes on where the last follow of this
    name ended.

    `trigger` are the arguments of Spark's `DataStreamWriter.trigger`, such as {"processingTime": "1 second"} or
    {"availableNow": True}; by default the next micro-batch begins when the last one is stored.  Raises Busy where a
    live process follows under this name, InputError for what is no streaming DataFrame of the target's columns.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(f"name={name!r}: a follow's name is made of letters, digits, _ and -, at most 100")
    if not getattr(df, "isStreaming", False):
        given = f"one that is not streaming: {target.done}" if hasattr(df, "isStreaming") else type(df).__name__
        thing = target.what.partition(" ")[2]
        raise InputError(f"{thing}: follow takes a streaming DataFrame, made by spark.readStream, not {given}")
    target.require_columns(df.columns)
    folder = target.folder / name
    for each in reversed((folder, *list(folder.parents)[:3])):
        make_folder(each)
    what = f"{target.what} is followed under the name {name!r}"

    def refusal(holder: Holder | None) -> str:
        process = "another process" if holder is None else f"process {holder.pid}"
        return f"{what} by {process}; stop that one, or take another name"

    lock, locks = FileLock(folder / "lock", refusal), ExitStack()
    lock.acquire("follow", 0.0)
    locks.callback(lock.release)
    try:
        locks.callback(_JavaLock(df.sparkSession, folder / "java.lock", what).release)
        return Follow(target, df, name, folder / "checkpoint", locks, trigger)
    except BaseException:
        locks.close()
        raise


class Follow:
    """A running follow.  It ends by `stop`, at the end of its block, with its process, or by an error.

    `last` is what the last micro-batch did, None before there was one."""

    def __init__(
        self, target: FollowTarget, df: Any, name: str, checkpoint: Path, locks: ExitStack,
        trigger: dict[str, Any] | None,
    ) -> None:  # fmt: skip
        self.name = name
        self.last: Any = None
        self._target, self._checkpoint, self._locks = target, checkpoint, locks
        self._source: str | None = None
        self._failure: BaseException | None = None
        self._stopping, self._storing = False, threading.Lock()
        # Not `as_uri`: Spark takes what stands here for the name itself, a %20 too.
        writer = df.writeStream.foreachBatch(self._take).option("checkpointLocation", f"file://{checkpoint}")
        self._query = (writer.trigger(**trigger) if trigger else writer).start()

    def stop(self) -> None:
        """End it; the micro-batch that is at work is stored by now, or will be by the next follow of this name."""
        self._stopping = True
        try:
            self._query.stop()
        finally:
            with self._storing:  # Spark does not wait for Python.
                pass
            self._locks.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Return when it has ended, or after `timeout` seconds: whether it has.  Raises Error with what ended it."""
        from pyspark.errors import StreamingQueryException

        try:
            ended = bool(self._query.awaitTermination(timeout))
        except StreamingQueryException:
            ended = True
        if ended:
            self._locks.close()
            if (error := self.last_error) is not None:
                raise Error(f"the follow {self.name!r} of {self._target.what} has ended: {error}")
        return ended

    @property
    def is_active(self) -> bool:
        """Whether it still waits for rows."""
        return bool(self._query.isActive)

    @property
    def last_error(self) -> str | None:
        """What ended it; None while it runs, or if nothing did."""
        try:
            if not self._stopping and not self._query.isActive:
                self._target.require_there()
        except NotFound as dropped:  # without its checkpoint, Spark may have been the first to fail
            return f"{type(dropped).__name__}: {dropped}"
        if self._failure is not None:
            return f"{type(self._failure).__name__}: {self._failure}"
        error = None if self._stopping else self._query.exception()
        return None if error is None else str(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()

    def _take(self, frame: Any, number: int) -> None:
        """Store micro-batch `number`; Spark commits it in the checkpoint after this."""
        with self._storing:
            try:
                self._target.require_there()
                if self._source is None:
                    self._source = f"follow:{self.name}:{self._incarnation()}"
                self.last = self._target.take(frame, Numbered(self._source, number))
            except BaseException as failure:
                if not self._stopping:
                    self._failure = failure
                raise

    def _incarnation(self) -> str:
        """The id that Spark gave to the checkpoint when it was made: without it, the numbers begin anew."""
        return str(json.loads((self._checkpoint / "metadata").read_text())["id"])


class _JavaLock:
    """The Java process writes the checkpoint, and outlives a Python that is killed by about a second: it holds a lock
    of its own, for which the next follow waits."""

    def __init__(self, session: SparkSession, path: Path, what: str) -> None:
        """Has the Java process of `session` take the lock `path`; raises Busy if another one keeps it."""
        self._in_java = session._jvm.java.io.RandomAccessFile(str(path), "rw")  # type: ignore[union-attr]
        end = time.monotonic() + JAVA_SECONDS
        while self._in_java.getChannel().tryLock() is None:
            if time.monotonic() > end:
                self.release()
                raise Busy(f"{what} by the Java process of a Python that is gone; end that Java process, which has "
                           f"{path} open")  # fmt: skip
            time.sleep(0.05)

    def release(self) -> None:
        """Let it go; once is enough."""
        from py4j.protocol import Py4JError

        with contextlib.suppress(Py4JError, OSError):  # with the Java process its lock is gone
            self._in_java.close()

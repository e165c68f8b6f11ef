"""Who is measured: viewkeeper, and DuckDB, which recomputes.  Those that need Spark by hand are in `viewdf_spark`.

A system is told of one part after another; `take` gives the seconds from its rows being stored to its view's part being
there, `rows` that part.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

import viewkeeper
from benchmarks.support.viewdf_minutes import FIRST, Minutes, Question, StoredParts

POLL_SECONDS = 0.002

ALWAYS = -(10**9)
"""A part before all others."""


class GivenUp(Exception):
    """A part took too long, or memory was not enough: the message says which."""


class System(Protocol):
    """One way to have a view's part for each part of the stream."""

    name: ClassVar[str]
    is_naive: ClassVar[bool]
    """Whether it recomputes, and so looks at no more of the stream than `Question.window` says."""

    def __init__(self, folder: Path, minutes: Minutes, question: Question) -> None: ...

    def fill(self, first: int, last: int) -> int:
        """Has parts `first` to `last` behind it, as if it had been running; the part from which on it knows any."""

    def take(self, part: int, limit: float) -> float:
        """The seconds; raises Cut after `limit` of them."""

    def rows(self) -> tuple[int, pa.Table]:
        """The last part of the view, and which it is."""

    def close(self) -> None:
        """Lets everything go."""


@contextmanager
def limited(seconds: float, cancel: Callable[[], object]) -> Iterator[None]:
    """Calls `cancel` after so long; raises Cut where that, or a lack of memory, ended the block."""
    late = threading.Event()

    def stop() -> None:
        late.set()
        cancel()

    timer = threading.Timer(seconds, stop)
    timer.start()
    try:
        yield
    except Exception as error:
        if late.is_set():
            raise GivenUp(f"more than {seconds:g} s") from error
        if "OutOfMemory" in type(error).__name__ or "OutOfMemoryError" in str(error):
            raise GivenUp("out of memory") from error
        raise
    finally:
        timer.cancel()
    if late.is_set():
        raise GivenUp(f"more than {seconds:g} s")


class Viewkeeper:
    """The generated view, kept by a pipeline in this process; raw parts go after `kept` more where that is given."""

    name: ClassVar[str] = "viewkeeper"
    is_naive: ClassVar[bool] = False

    def __init__(self, folder: Path, minutes: Minutes, question: Question, kept: int | None = 3) -> None:
        self._minutes, self._last = minutes, FIRST
        self.db = viewkeeper.connect(folder)
        expire = "" if kept is None else f" EXPIRE AFTER {60 * kept}"
        self.db.sql("CREATE STREAM m (ts TIMESTAMP NOT NULL, src STRING, dest STRING, loss INT) TIMESTAMP BY ts "
                    f"PARTITION LENGTH 60{expire}; CREATE VIEW v AS {question.sql}")  # fmt: skip
        self._maintenance = self.db.maintain()

    def fill(self, first: int, last: int) -> int:
        stream = self.db.stream("m")
        for part in range(first, last + 1):
            stream.append(self._minutes.part(part))
            stream.seal(part)
        self.db.catch_up()
        return first

    def take(self, part: int, limit: float) -> float:
        stream, view, self._last = self.db.stream("m"), self.db.view("v"), part
        stream.append(self._minutes.part(part))
        started = time.perf_counter()
        stream.seal(part)
        while (view.next or FIRST) <= part:
            self._maintenance.wait(0)
            if time.perf_counter() - started > limit:
                raise GivenUp(f"more than {limit:g} s")
            time.sleep(POLL_SECONDS)
        return time.perf_counter() - started

    def rows(self) -> tuple[int, pa.Table]:
        return self._last, self.db.view("v").part(self._last).to_arrow()

    def close(self) -> None:
        try:
            self._maintenance.stop()
        finally:
            self.db.close()


class DuckDb:
    """DuckDB, all cores, computes the view's part from Parquet files of all parts that it needs."""

    name: ClassVar[str] = "DuckDB, recomputing"
    is_naive: ClassVar[bool] = True

    def __init__(self, folder: Path, minutes: Minutes, question: Question) -> None:
        import duckdb

        self._question, self._out = question, folder / "view.parquet"
        self._parts, self._last = StoredParts(folder / "parts", minutes), FIRST
        folder.mkdir(parents=True)
        self._db: Any = duckdb.connect()
        self._db.execute(f"SET temp_directory = '{folder / 'spill'}'")

    def fill(self, first: int, last: int) -> int:
        """Nothing is kept: parts are made when they are read."""
        return ALWAYS

    def take(self, part: int, limit: float) -> float:
        paths, self._last = self._parts.paths(part - self._question.window + 1, part), part
        files = [f"{path}/*.parquet" for path in paths]
        query = naive_sql(self._question, f"read_parquet({files})", "epoch_us(ts) // 60000000", part)
        with limited(limit, self._db.interrupt):
            started = time.perf_counter()
            self._db.execute(f"COPY ({query}) TO '{self._out}' (FORMAT parquet)")
        return time.perf_counter() - started

    def rows(self) -> tuple[int, pa.Table]:
        return self._last, pq.read_table(self._out)

    def close(self) -> None:
        self._db.close()


def naive_sql(question: Question, source: str, subscript: str, part: int) -> str:
    """The view's part `part` from the rows of all parts in its scope or window, in the SQL of DuckDB and Spark.

    A pattern is found as runs of parts: subscript less rank is the same for all parts of a run.
    """
    if question.kind != "pattern":
        return f"SELECT src, dest, {question.kind}(loss) AS x FROM {source} GROUP BY src, dest"
    return f"""
        SELECT src, dest, count(*) AS ct, sum(loss) AS sum_loss
        FROM (SELECT src, dest, loss, part,
                     part - row_number() OVER (PARTITION BY src, dest ORDER BY part) AS run
              FROM (SELECT src, dest, loss, {subscript} AS part FROM {source} WHERE loss > 10) AS high) AS runs
        GROUP BY src, dest, run HAVING count(*) >= 4 AND max(part) = {part}"""

"""Sessions of ours in a Spark that may be the user's: what a query means in them does not depend on his settings."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from viewkeeper.spark.pins import HARMLESS, PINNED, PREFIX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_warned: set[str] = set()


def own_session(spark: SparkSession, zone: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session beside `spark`, in the time zone `zone`, with every setting that can change an answer as `pins` has it;
    `settings` are others besides, which change none.  It has no temporary views and functions, and takes 60 ms."""
    session = spark.newSession()
    conf = _state(session).conf()
    for name in conf.getAllConfs().keySet().mkString("\n").split("\n"):
        if name.startswith(PREFIX) and not name.startswith(HARMLESS) and not conf.isStaticConfigKey(name):
            conf.unsetConf(name)
    values = {**PINNED, **(settings or {}), PREFIX + "session.timeZone": zone}
    lines = "\n".join(f"{name}={value}" for name, value in values.items()).replace("\\", "\\\\")
    java = session._jvm
    assert java is not None, "a session has a JVM until it is stopped"
    properties = java.java.util.Properties()
    properties.load(java.java.io.StringReader(lines))
    conf.setConf(properties)  # all at once: one by one they would take a second
    _say_extensions(session)
    return session


def _state(session: SparkSession) -> Any:
    return session._jsparkSession.sessionState()


def _say_extensions(session: SparkSession) -> None:
    """They can change what a query means, and no setting of a session switches them off."""
    found = session.sparkContext.getConf().get(PREFIX + "extensions", "")
    if found and found not in _warned:
        _warned.add(found)
        warnings.warn(f"Spark runs with extensions ({found}); viewkeeper parses its queries without them, but they may "
                      "change how Spark analyses and optimizes them", stacklevel=4)  # fmt: skip


_lock = Lock()
_entered = 0
_before: SparkSession | None = None


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """`session` is this thread's active one while the block runs: by its settings Spark parses.  What was active before
    is so again after it; so it is for all that makes DataFrames, which leaves its session active."""
    from pyspark.sql import SparkSession

    global _entered, _before
    java = session._jvm
    assert java is not None, "a session has a JVM until it is stopped"
    sessions: Any = SparkSession._get_j_spark_session_class(java)
    outer = sessions.getActiveSession()
    with _lock:
        if not _entered:
            _before = SparkSession._activeSession
        _entered += 1
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        with _lock:
            _entered -= 1
            if not _entered:
                SparkSession._activeSession, _before = _before, None
        if session.sparkContext._jsc is not None:
            if outer.isDefined():
                sessions.setActiveSession(outer.get())
            else:
                sessions.clearActiveSession()

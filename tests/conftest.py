"""Fixtures that all tests share."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, settings

from key_values import collide
from pipeline_database import VIEWS, Shop
from spark_classes import WORKERS, java_options
from store_servers import begin_run, shared, shared_log
from stream_database import StreamDatabase
from viewkeeper.pipeline.spark_executor import JAVA_OPTIONS
from viewkeeper.servers import Cassandra, HBase, Kafka, Redis
from viewkeeper.servers.cassandra_log import CassandraLog
from viewkeeper.spark.starting import socket_settings

os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options())
os.environ["PYTHONPATH"] = os.pathsep.join([str(WORKERS), *filter(None, [os.environ.get("PYTHONPATH")])])

# No test cuts the power, and what a killed process has written is there, synced or not; tests of durability look which
# calls are made, and where they fail.  On a good disk a fifth of the time of tests of streams went into waiting for it.
os.fsync = lambda descriptor: None

if TYPE_CHECKING:
    from cassandra.cluster import Session
    from pyspark.sql import SparkSession


SECOND = ("streams", "whole")
"""The folders whose tests have the second of the two sessions of Spark: half of the time that both take."""


def pytest_configure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        config.add_cleanup(begin_run())


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in a hook of its own
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests run in three processes (`-n 3 --dist loadgroup`) two of them have a session of Spark each, and begin
    with its tests; the third begins with the longest.  Three, since on two cores much of a test is waiting."""
    for item in items:
        if item.path.parent.name in ("outside", "servers"):
            item.add_marker(pytest.mark.outside)
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark-2" if item.path.parent.name in SECOND else "spark-1"))
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: item.get_closest_marker("faults") is None and item.path.parent.name != "oracle")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Groups that are lost show nowhere but in the minutes that more sessions of Spark take."""
    if getattr(session.config.option, "loadgroup", False):
        grouped = [item.nodeid for item in session.items if item.get_closest_marker("xdist_group")]
        lost = [nodeid for nodeid in grouped if not nodeid.endswith(("@spark-1", "@spark-2"))]
        assert not lost, f"this pytest-xdist does not group tests under this pytest: {lost[0]}"
    # What is there by now stays: looking through all of it again and again was a twentieth of the time of many tests.
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for all tests of a process that ask for it."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run whatever python3 is on the PATH
    session = (
        SparkSession.builder.master("local[2,4]")
        .appName("viewkeeper tests")
        .config("spark.ui.enabled", "false")
        # Some tests count jobs and stages, late in a run of thousands: Spark forgets the oldest beyond these.
        .config("spark.ui.retainedJobs", "100000")
        .config("spark.ui.retainedStages", "100000")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.ansi.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.driver.defaultJavaOptions", JAVA_OPTIONS)
        .config(map=socket_settings())
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka() -> Kafka:
    """The Kafka of this run, which all its processes share: topics and groups need names of their own."""
    return shared(Kafka)


@pytest.fixture(scope="session")
def hbase() -> HBase:
    """The HBase of this run, which all its processes share: tables need names of their own."""
    return shared(HBase)


@pytest.fixture(scope="session")
def redis() -> Redis:
    """The Redis of this run, which all its processes share: keys need names of their own."""
    return shared(Redis)


@pytest.fixture(scope="session")
def cassandra() -> Cassandra:
    """The Cassandra of this run, one node, which all its processes share: tables need names of their own."""
    return shared(Cassandra)


@pytest.fixture(scope="session")
def cassandra_log(cassandra: Cassandra) -> CassandraLog:
    """What serves its log."""
    return shared_log(cassandra)


@pytest.fixture(scope="session")
def cassandra_session(cassandra: Cassandra) -> Iterator[Session]:
    """A foreign client of it."""
    from cassandra_rows import connected

    with connected(cassandra) as session:
        yield session


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StreamDatabase]:
    """A database with the streams, and the views over them, that the test's module names `DECLARED`."""
    database = StreamDatabase(tmp_path)
    if declared := getattr(request.module, "DECLARED", ""):
        database.declare(declared)
    yield database
    database.close()


@pytest.fixture
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """Orders and customers, and the views that the test's module names `SHOP_VIEWS`; else one of every kind."""
    shop = Shop(tmp_path, views=getattr(request.module, "SHOP_VIEWS", VIEWS))
    yield shop
    shop.store.close()


@pytest.fixture
def four_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every hash is one of four values, so that collisions are the rule."""
    collide(monkeypatch)


# A commit passes or fails, whenever it is run: its tests draw the same examples each time.  Other ones, as often as one
# likes, come by `--hypothesis-profile=random`, and what they find becomes a small named test.
settings.register_profile("fixed", derandomize=True, database=None)
settings.register_profile("random", database=None, phases=[Phase.explicit, Phase.generate])
settings.load_profile("fixed")

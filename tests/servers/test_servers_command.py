"""`viewkeeper servers`: a server that stays when the command has ended."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from viewkeeper.cli import cli
from viewkeeper.errors import Busy
from viewkeeper.servers.ports import free_port


def call(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["servers", *arguments])


def test_a_server_goes_up_and_down(tmp_path: Path) -> None:
    here, port = ("--folder", str(tmp_path / "data")), str(free_port())
    assert call("redis", "status", *here).exit_code == 1
    main = [sys.executable, "-c", "from viewkeeper.cli import main; main()", "servers"]
    try:
        up = subprocess.run([*main, "redis", "up", *here, "--port", port], capture_output=True, text=True)
        assert (up.returncode, up.stderr) == (0, "")
        assert up.stdout.startswith(f"redis answers on 127.0.0.1:{port} (process ")
        assert call("redis", "up", *here).stdout == up.stdout
        status = json.loads(call("redis", "status", *here, "--json").stdout)
        assert (status["running"], status["address"]) == (True, f"127.0.0.1:{port}")
        taken = call("redis", "up", "--folder", str(tmp_path / "other"), "--port", port).exception
        assert isinstance(taken, Busy)
    finally:
        down = call("redis", "down", *here)
    assert down.stdout == f"redis does not run; its data are in {tmp_path / 'data'}\n"
    assert call("redis", "status", *here).exit_code == 1


@pytest.mark.parametrize("name", ["mysql", ""])
def test_unknown_servers_are_refused_with_those_that_there_are(name: str) -> None:
    refused = call(name, "up")
    assert refused.exit_code == 2 and "'kafka', 'redis'" in refused.stderr

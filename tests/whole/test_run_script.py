"""`./run` explains itself, and refuses what it does not know before it installs anything."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(ROOT / "run"), *arguments], capture_output=True, text=True, timeout=60)


def test_help_names_every_command() -> None:
    shown = call("help")
    assert shown.returncode == 0
    for command in ("demo", "test", "test-fast", "test-faults", "test-stores", "lint", "servers", "bench", "viewkeeper",
                    "python"):  # fmt: skip
        assert f"\n  {command} " in shown.stdout
    assert call().stdout == call("--help").stdout == shown.stdout


def test_an_unknown_command_is_refused_by_name() -> None:
    refused = call("deploy")
    assert refused.returncode == 1
    assert "there is no command 'deploy'" in refused.stderr


def test_it_says_when_there_is_no_python(tmp_path: Path) -> None:
    """In a copy of the folder, with a PATH that has a shell's tools but no Python."""
    for name in ("run", "requirements.lock", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "run").chmod(stat.S_IRWXU)
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "cat", "cksum", "dirname"):
        place = next(folder for folder in ("/bin", "/usr/bin") if os.access(f"{folder}/{tool}", os.X_OK))
        (tools / tool).symlink_to(f"{place}/{tool}")
    failed = subprocess.run([str(tmp_path / "run"), "python", "-V"], env={"PATH": str(tools)}, capture_output=True,
                            text=True, timeout=60)  # fmt: skip
    assert failed.returncode == 1
    assert "found no Python 3.11 or newer" in failed.stderr
    assert not (tmp_path / ".venv").exists()

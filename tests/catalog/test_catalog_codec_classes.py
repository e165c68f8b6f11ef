"""Whatever a catalog holds can be read by a process that has imported nothing but the plans."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

from viewkeeper.catalog import codec

SOURCE = Path(__file__).parent.parent.parent / "src" / "viewkeeper"


def stored_classes() -> set[str]:
    """module.Class of all classes that are marked as stored."""
    found = set()
    for module in SOURCE.rglob("*.py"):
        for name in re.findall(r"^@stored\b.*\n@dataclass.*\nclass (\w+)", module.read_text(), re.MULTILINE):
            importlib.import_module(".".join(("viewkeeper", *module.relative_to(SOURCE).with_suffix("").parts)))
            found.add(f"{module.stem}.{name}")
    return found


def test_the_plans_are_all_the_stored_classes_there_are() -> None:
    names = sorted(stored_classes())
    assert len(names) > 50 and set(names) <= set(codec._CLASSES)
    script = f"""
import viewkeeper.plans
from viewkeeper.catalog import codec
for name in {names!r}:
    assert codec._CLASSES[name].__name__ == name.rpartition(".")[2]
"""
    subprocess.run([sys.executable, "-c", script], check=True)

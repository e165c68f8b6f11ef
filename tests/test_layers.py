"""The shape of the source: what may import what, and how long things may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "viewkeeper"

ORDER = (
    "errors settings files catalog compiler trace maintenance changes stores pipeline views checker server "
    "database commands cli".split()
)
"""The layers in the order in which data flows; each may import only itself and those before it."""

ABOVE_ALL = {"demo", "bench"}
"""Programs that use viewkeeper as a user would: they may import anything, and only the command line starts them."""

MODULES = sorted(SOURCE.rglob("*.py"))
FILES = MODULES + sorted((ROOT / "tests").rglob("*.py")) + sorted((ROOT / "benchmarks").rglob("*.py"))


def layer(module: Path) -> str:
    return module.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[str]:
    """The full names of all imported modules, wherever the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written in full"
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_its_own_layer_and_those_before_it(module: Path) -> None:
    own = layer(module)
    if own == "__init__" or own in ABOVE_ALL:
        return
    used = {name.split(".")[1] for name in imports(ast.parse(module.read_text())) if name.startswith("viewkeeper.")}
    known = used & (set(ORDER) | ABOVE_ALL)
    later = {name for name in known if name in ABOVE_ALL or ORDER.index(name) > ORDER.index(own)}
    if own in ("commands", "cli"):
        later -= ABOVE_ALL
    assert not later, f"{own} comes before {sorted(later)}"


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_has_a_place_in_the_order(module: Path) -> None:
    assert layer(module) in {"__init__", *ORDER, *ABOVE_ALL}


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_pyspark_is_imported_only_where_the_name_says_so(module: Path) -> None:
    parts = module.relative_to(SOURCE).parts
    if parts[0] == "pipeline" or parts[0] in ABOVE_ALL or any(part.startswith("spark") for part in parts):
        return
    assert not [name for name in imports(ast.parse(module.read_text())) if name.split(".")[0] in ("pyspark", "py4j")]


def test_the_checker_uses_nothing_that_it_judges() -> None:
    for module in (SOURCE / "checker").rglob("*.py"):
        judged = [name for name in imports(ast.parse(module.read_text()))
                  if name.startswith(("viewkeeper.maintenance", "viewkeeper.pipeline"))]  # fmt: skip
        assert not judged, f"{module.name} imports {judged}"


@pytest.mark.parametrize("file", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_are_short_enough_to_read(file: Path) -> None:
    text = file.read_text()
    assert text.count("\n") <= 500
    long = {node.name: node.end_lineno - node.lineno + 1 for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef) and node.end_lineno and node.end_lineno - node.lineno >= 70}  # fmt: skip
    assert not long


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_says_what_it_is_for(module: Path) -> None:
    assert ast.get_docstring(ast.parse(module.read_text()))

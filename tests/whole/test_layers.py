"""The shape of the source: what may import what, and how long things may be."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "viewkeeper"

ORDER = (
    "errors", "interrupts", "permissions", "durable", "settings", "files", "catalog", "functions", "plans",
    "evaluation", "compiler",
    "spark", "trace", "jobs", "maintenance", "changes", "stores", "streams", "pipeline", "views", "dml", "checker",
    "server", "evidence", "rejections", "written", "database", "commands", "cli",
)  # fmt: skip
"""The layers in the order in which data flows; each may import only itself and those before it."""

PROGRAMS = {"demo", "servers"}
"""They use viewkeeper as a user would and may import anything; only the command line starts them."""


@cache
def modules() -> dict[Path, ast.Module]:
    """Parsed when a test asks: every process of a run collects this file, and one runs it."""
    return {module: ast.parse(module.read_text(), module) for module in sorted(SOURCE.rglob("*.py"))}


@cache
def elsewhere() -> dict[Path, ast.Module]:
    files = (file for folder in ("tests", "benchmarks") for file in sorted((ROOT / folder).rglob("*.py")))
    return {file: ast.parse(file.read_text(), file) for file in files}


def layer(module: Path) -> str:
    return module.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def imported(tree: ast.AST) -> tuple[str, ...]:
    """The full names of all imported modules, wherever the import stands."""
    return tuple(names_in(tree))


def names_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def offences(module: Path, tree: ast.AST) -> Iterator[str]:
    own = layer(module)
    for name in imported(tree):
        other = name.split(".")[1] if name.startswith("viewkeeper.") else None
        if name.startswith("."):
            yield f"{name}: imports are written in full"
        elif other in ORDER and ORDER.index(other) > ORDER.index(own):
            yield f"{name}: {own} comes before {other}"
        elif other in PROGRAMS and own != "commands":
            yield f"{name}: only the command line starts it"


def test_a_module_imports_only_its_own_layer_and_those_before_it() -> None:
    found = {f"{module.relative_to(SOURCE)} imports {offence}" for module, tree in modules().items()
             if layer(module) not in {"__init__", *PROGRAMS} for offence in offences(module, tree)}  # fmt: skip
    assert not found


def imported_at_once(tree: ast.AST, names: Set[str]) -> Iterator[str]:
    """The modules of `names` that a module needs before it is there itself, or to be checked: all that it imports
    outside functions, what stands under TYPE_CHECKING too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from names & set(imported(ast.Module([node], [])))
        elif not isinstance(node, ast.FunctionDef | ast.Lambda):
            yield from imported_at_once(node, names)


def test_imports_form_no_circle() -> None:
    """Not within a package either: whoever reads a module can read first what it stands on."""
    trees = {".".join(("viewkeeper", *module.relative_to(SOURCE).with_suffix("").parts)): tree
             for module, tree in modules().items() if module.stem != "__init__"}  # fmt: skip
    needs = {name: set(imported_at_once(tree, trees.keys())) for name, tree in trees.items()}
    while free := [name for name, needed in needs.items() if not needed & needs.keys()]:
        for name in free:
            del needs[name]
    assert not needs, "these, or what they import, go in a circle"


def test_every_module_has_a_place_in_the_order() -> None:
    assert {layer(module) for module in modules()} <= {"__init__", *ORDER, *PROGRAMS}


def test_pyspark_is_imported_only_where_the_name_says_so() -> None:
    allowed = {"pipeline", *PROGRAMS}
    found = [module for module, tree in modules().items()
             if layer(module) not in allowed and "spark" not in str(module.relative_to(SOURCE))
             and any(name.split(".")[0] in ("pyspark", "py4j") for name in imported(tree))]  # fmt: skip
    assert not found


HEAVY = {"pyspark", "py4j", "pandas", "pyarrow.csv", "pyarrow.dataset", "pyarrow.parquet"}
"""What may be imported where it is used: it takes a tenth of a second or more to load, and who reads a view, or is a
view server, does without."""


def late(tree: ast.Module) -> Iterator[str]:
    """The full names of what is imported inside functions."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            yield from imported(function)


def test_only_what_is_heavy_is_imported_inside_functions() -> None:
    found = {f"{module.relative_to(SOURCE)} imports {name}" for module, tree in modules().items()
             if layer(module) not in PROGRAMS for name in late(tree)
             if name != "pyarrow" and not any(f"{name}.".startswith(f"{heavy}.") for heavy in HEAVY)}  # fmt: skip
    assert not found


def test_who_opens_a_database_loads_neither_pyspark_nor_pandas() -> None:
    script = "import sys, viewkeeper.database; print([name for name in ('pandas', 'pyspark') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_the_checker_uses_nothing_that_it_judges() -> None:
    judged = ("viewkeeper.evaluation", "viewkeeper.maintenance", "viewkeeper.pipeline", "viewkeeper.streams")
    # how a query names PART_TIMESTAMP; no logs
    admitted = ("viewkeeper.streams.spark.hidden", "viewkeeper.streams.spark.quiet")
    assert not {module.name: name for module, tree in modules().items() if layer(module) == "checker"
                for name in imported(tree) if name.startswith(judged) and not name.startswith(admitted)}  # fmt: skip


def test_no_test_imports_another() -> None:
    """What two of them need stands in tests/support."""
    tests = {file.stem for file in elsewhere() if file.name.startswith("test_")}
    found = {file.name: name for file, tree in elsewhere().items() for name in imported(tree)
             if tests & set(name.split("."))}  # fmt: skip
    assert not found


def test_files_and_functions_are_short_enough_to_read() -> None:
    long = []
    for file, tree in (modules() | elsewhere()).items():
        lines = file.read_text().count("\n")
        if lines > 500:
            long.append(f"{file.relative_to(ROOT)}: {lines} lines")
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.end_lineno and node.end_lineno - node.lineno >= 70:
                long.append(f"{file.relative_to(ROOT)}: {node.name}")
    assert not long


def test_no_function_takes_more_than_a_reader_keeps_in_mind() -> None:
    """Eight things; what belongs together is a class."""
    found = []
    for file, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                given = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                if len(set(given) - {"self", "cls"}) > 8:
                    found.append(f"{file.relative_to(ROOT)}: {node.name}")
    assert not found


def test_every_module_says_what_it_is_for() -> None:
    assert not [module for module, tree in modules().items() if not ast.get_docstring(tree)]


def test_a_file_is_named_for_what_it_holds() -> None:
    """A name that three rooms use for a file of theirs tells nothing."""
    names = [module.name for module in modules() if module.stem != "__init__"]
    assert not {name for name in names if names.count(name) > 2}


def type_names(tree: ast.Module) -> Iterator[str]:
    """The public names that a module gives to classes and other types: `Name = ...` too, but no CONSTANT."""
    for node in tree.body:
        named = [node.name] if isinstance(node, ast.ClassDef) else []
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = [target.id for target in targets if isinstance(target, ast.Name)]
        yield from (name for name in named if name[0].isupper() and not name.isupper())


def test_one_name_of_a_type_has_one_meaning() -> None:
    places: dict[str, list[str]] = {}
    for module, tree in modules().items():
        for name in type_names(tree):
            places.setdefault(name, []).append(str(module.relative_to(SOURCE)))
    assert not {name: where for name, where in places.items() if len(where) > 1}

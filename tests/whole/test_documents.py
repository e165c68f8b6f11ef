"""What the documents show works: their Python is run, in order, in one folder; their links lead somewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from paper_views import HELPER, JOIN, STREAMS, VIEW2, VIEW3, VIEW4, VIEW5, VIEW6

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"^```(python|sql)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
NAMED = re.compile(r"`(\w+(?:/\w+)*\.py)`:\s+`(\w+)(?:\.(\w+))?`")
SAID = re.compile(r"^( *)print\((.*)\)  # -> (.*)$", re.MULTILINE)


def with_python() -> list[Path]:
    return [document for document in DOCUMENTS if PYTHON.search(document.read_text())]


def require_said(expected: str, *values: object) -> None:
    """What `print(...)  # -> ...` in a document comes to."""
    assert " ".join(map(str, values)) == expected


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("document", with_python(), ids=lambda document: document.name)
def test_python_in_a_document_runs(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a document follow on each other; what stands behind `# ->` is what is printed, SQL is for `db`."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": document.stem, "require_said": require_said}
    for language, block in CODE.findall(document.read_text()):
        if language == "sql":
            names["db"].sql(block)
            continue
        checked = SAID.sub(lambda said: f"{said[1]}require_said({said[3]!r}, {said[2]})", block)
        exec(compile(checked, str(document), "exec"), names)


def test_the_papers_views_in_the_document_are_those_that_are_tested() -> None:
    """What stands beside the paper's text is what other tests compute and repair."""
    document = (ROOT / "docs" / "viewdf-paper.md").read_text()
    shown = " ".join(" ".join(block.split()) for language, block in CODE.findall(document) if language == "sql")
    tested = (STREAMS, HELPER, VIEW2, VIEW3, JOIN, VIEW4, VIEW5, VIEW6)
    assert [views for views in tested if " ".join(views.split()) not in shown] == []


def test_links_between_documents_lead_somewhere() -> None:
    broken = [f"{document.name}: {target}" for document in DOCUMENTS
              for target in LINK.findall(document.read_text()) if not (document.parent / target).exists()]  # fmt: skip
    assert not broken


def test_the_functions_that_the_ways_through_the_code_name_are_there() -> None:
    """`folder/file.py`: `function` or `Class.method`."""
    source = ROOT / "src" / "viewkeeper"
    found, missing = 0, []
    for document in (ROOT / "docs").glob("life-*.md"):
        for file, name, method in NAMED.findall(document.read_text()):
            places = [path for path in source.rglob(Path(file).name) if str(path).endswith(f"/{file}")]
            tops = {top.name: top for path in places for top in ast.parse(path.read_text()).body
                    if isinstance(top, (ast.FunctionDef, ast.ClassDef))}  # fmt: skip
            inner = {each.name for each in getattr(tops.get(name), "body", ()) if isinstance(each, ast.FunctionDef)}
            found += 1
            if name not in tops or (method and method not in inner):
                missing.append(f"{document.name}: {file}: {name}{method and '.' + method}")
    assert not missing and found > 30

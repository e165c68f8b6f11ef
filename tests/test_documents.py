"""What the documents show works: their Python is run, in order, in one folder; their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def with_python() -> list[Path]:
    return [document for document in DOCUMENTS if PYTHON.search(document.read_text())]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("document", with_python(), ids=lambda document: document.name)
def test_python_in_a_document_runs(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in PYTHON.findall(document.read_text()):
        exec(compile(block, str(document), "exec"), {"__name__": document.stem})


def test_links_between_documents_lead_somewhere() -> None:
    broken = [f"{document.name}: {target}" for document in DOCUMENTS
              for target in LINK.findall(document.read_text()) if not (document.parent / target).exists()]  # fmt: skip
    assert not broken

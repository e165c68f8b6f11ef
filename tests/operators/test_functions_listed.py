"""docs/sql.md lists the functions that there are, as the registry has them."""

from __future__ import annotations

from pathlib import Path

from viewkeeper.compiler.calls import CONVERSIONS, FORMS
from viewkeeper.functions.function import Function
from viewkeeper.functions.registry import FUNCTIONS

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
BEGIN, END = "<!-- functions -->\n", "<!-- end of functions -->\n"


def row(function: Function) -> str:
    """A line of the table."""
    names = ", ".join(f"`{name}`" for name in (function.name, *function.aliases))
    return f"| {names} | {function.accepts} | {function.raises or ''} |\n".replace("`|`", "`\\|`")


def listed() -> str:
    """The table of all functions that can be called."""
    called = [FUNCTIONS[name] for name in sorted(FUNCTIONS) if " " not in name]
    head = "| function | takes | may raise |\n| --- | --- | --- |\n"
    forms = ", ".join(f"`{name}`" for name in sorted({*FORMS, "coalesce"}))
    casts = ", ".join(f"`{name}`" for name in sorted(CONVERSIONS))
    others = f"Other expressions by another name: {forms}.  Casts by another name: {casts}.\n"
    return f"{head}{''.join(map(row, called))}\n{others}"


def test_the_documents_list_every_function() -> None:
    """The text between the marks is what `listed` gives."""
    text = PAGE.read_text()
    assert text[text.index(BEGIN) + len(BEGIN) : text.index(END)] == listed()

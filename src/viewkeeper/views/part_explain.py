"""EXPLAIN of views over streams: how they are kept, and what their parts took."""

from __future__ import annotations

from collections.abc import Callable

from viewkeeper.catalog.model import PartView
from viewkeeper.compiler.parse_streams import AnyView
from viewkeeper.compiler.statements import CreateView
from viewkeeper.errors import InputError
from viewkeeper.pipeline.note import read_note
from viewkeeper.streams.analyst import Analyst, LazyAnalyst
from viewkeeper.streams.declare import declare_view, is_over_parts
from viewkeeper.streams.existing import ExistingParts
from viewkeeper.streams.explain import explain
from viewkeeper.views.version import Version

MakeAnalyst = Callable[[], Analyst]


def explain_parts(version: Version, view: PartView) -> str:
    """How `view` is kept; with what a part took, where the driver that runs has measured it."""
    lines = [*explain(version.catalog, view)]
    note = read_note(version.snapshot.storage.root)
    seconds = None if note is None else note.get("parts", {}).get(str(view.id))
    if seconds is not None:
        lines.append(f"last measured: {seconds:.3f} s a part, the mean of the last works")
    return "\n".join(lines)


def is_of_parts(version: Version, statement: AnyView | CreateView) -> bool:
    """Whether the view that `statement` declares would be one over streams."""
    if not isinstance(statement, CreateView):
        return True
    return bool(version.catalog.streams) and is_over_parts(version.catalog, statement)


def explain_new_parts(version: Version, statement: AnyView | CreateView, analyst: MakeAnalyst | None) -> str:
    """How the view that `statement` declares would be kept; nothing is declared."""
    catalog = declare_view(version.catalog, statement, LazyAnalyst(analyst or _nobody), ExistingParts(version.snapshot))
    view = catalog.find_parts(statement.name.name)
    assert isinstance(view, PartView), "it has just been declared"
    return "\n".join(explain(catalog, view))


def _nobody() -> Analyst:
    raise InputError("the queries of INITIALIZE and UPDATE are analysed by Spark: use db.sql")

"""EXPLAIN of views over streams: how they are kept, and what their parts took."""

from __future__ import annotations

from collections.abc import Callable

from viewkeeper.catalog.model import PartView
from viewkeeper.compiler.parse_streams import AnyView
from viewkeeper.compiler.statements import CreateView
from viewkeeper.errors import InputError
from viewkeeper.pipeline.note import read_note
from viewkeeper.streams.analyst import Analyst, LazyAnalyst
from viewkeeper.streams.declare_streams import is_over_parts
from viewkeeper.streams.existing import ExistingParts
from viewkeeper.streams.explain import explain, explain_new_view
from viewkeeper.views.version import Version

MakeAnalyst = Callable[[], Analyst]


def explain_parts(version: Version, view: PartView) -> str:
    """How `view` is kept; with what a part took, where the driver that runs has measured it."""
    note = read_note(version.snapshot.storage.disk)
    measured = {int(id_): seconds for id_, seconds in (note or {}).get("parts", {}).items()}
    text = explain(version.catalog, view, ExistingParts(version.snapshot), measured)
    seconds = measured.get(view.id)
    return text if seconds is None else f"{text}\nlast measured: {seconds:.3f} s a part, the mean of the last works"


def is_of_parts(version: Version, statement: AnyView) -> bool:
    """Whether the view that `statement` declares would be one over streams."""
    if not isinstance(statement, CreateView):
        return True
    return bool(version.catalog.streams) and is_over_parts(version.catalog, statement)


def explain_new_parts(version: Version, statement: AnyView, analyst: MakeAnalyst | None) -> str:
    """How the view that `statement` declares would be kept; nothing is declared."""
    asked = LazyAnalyst(analyst or _nobody)
    return explain_new_view(version.catalog, statement, asked, ExistingParts(version.snapshot))


def _nobody() -> Analyst:
    raise InputError("the queries of INITIALIZE and UPDATE are analysed by Spark: use db.sql")

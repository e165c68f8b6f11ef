"""What a check says of views that are written to outside stores, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from viewkeeper.catalog.model import View
from viewkeeper.checker.report import NOT_JUDGED, Report
from viewkeeper.errors import Damaged, Error, LayoutChanged
from viewkeeper.trace.commit import Storage
from viewkeeper.views.written import Compared, compared, forget, wait_for_mending


def with_targets(storage: Storage, reports: Iterable[Report], catch_up: Callable[[], int] | None) -> list[Report]:
    """`reports`, those on views that are written to outside stores with how these compare; what deviates is mended
    where `catch_up` is given, which has whoever maintains do it."""
    return [_with_target(storage, report, catch_up) for report in reports]


def _with_target(storage: Storage, report: Report, catch_up: Callable[[], int] | None) -> Report:
    snapshot = storage.newest()
    view = snapshot.catalog.find(report.view)
    if not isinstance(view, View) or view.target is None or view.filled is None:
        return report
    was = 0
    try:
        found = compared(storage, snapshot, view)
        if catch_up is not None and (found.count or found.version is None):
            was = found.count
            forget(snapshot, view)
            catch_up()
            wait_for_mending(view)
            found = compared(storage, snapshot, view)
    except (Damaged, LayoutChanged):  # these are of our own files
        raise
    except Error as error:  # one store that is away says nothing of what is in others
        verdict = NOT_JUDGED if report.verdict == "right" else report.verdict
        return replace(report, verdict=verdict, target=f"what is in {view.target.kind} is not judged: {error}")
    verdict = "target wrong" if found.count and report.verdict == "right" else report.verdict
    return replace(report, verdict=verdict, target=_said(view, found, was),
                   target_differing=[str(each) for each in found.deviations])  # fmt: skip


def _said(view: View, found: Compared, was: int) -> str:
    """What is to be said of a comparison; `was` rows deviated before they were mended."""
    assert view.target is not None
    kind = view.target.kind
    if found.version is None:
        return f"what is in {kind} is not judged: {found.unjudged}"
    what = f"{found.count:,} rows in {kind} are wrong" if found.count else f"what is in {kind} is right"
    what += f", as of version {found.version}"
    if was > found.count:
        what += f"; {was - found.count:,} rows were mended"
    if was and found.count:
        what += "; the others were written there meanwhile, or cannot be overwritten (docs/stores/views.md)"
    return what

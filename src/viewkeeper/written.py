"""What a check says of views that are written to outside stores, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from viewkeeper.catalog.model import View
from viewkeeper.checker.report import Report
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
    found, mended = compared(storage, snapshot, view), 0
    if catch_up is not None and (found.count or found.version is None):
        mended = found.count
        forget(snapshot, view)
        catch_up()
        wait_for_mending(view)
        found = compared(storage, snapshot, view)
    verdict = "target wrong" if found.count and report.verdict == "right" else report.verdict
    return replace(report, verdict=verdict, target=_said(view, found, mended),
                   target_differing=[str(each) for each in found.deviations])  # fmt: skip


def _said(view: View, found: Compared, mended: int) -> str:
    assert view.target is not None
    kind = view.target.kind
    if found.version is None:
        return f"what is in {kind} is not judged: {found.unjudged}"
    repaired = f"; {mended:,} rows were mended" if mended else ""
    what = f"{found.count:,} rows in {kind} are wrong" if found.count else f"what is in {kind} is right"
    return f"{what}, as of version {found.version}{repaired}"

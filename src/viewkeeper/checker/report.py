"""What a check found."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from viewkeeper.checker.compare import Difference
from viewkeeper.checker.row_evaluator import ErrorRow
from viewkeeper.errors import CheckFailed

NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Report:
    """The verdict on one view, or stream, at one version.

    `verdict` is "right", "wrong" (the view is not its query's answer), "base wrong" (a table's DELTA, or a view or
    stream below it, is not what it should be, so nothing follows for this view) or "not judged" (it is not filled yet,
    is stopped, none of its parts could be, Spark leaves its errors out: `unjudged` says why).  A view that rightly
    holds error rows is right: `errors` lists them.  `judge` says who gave the answer: "spark", "exact", "row by row",
    or "none" where it was not asked.  `differing_rows` counts all rows that differ, `differing` shows the first;
    `left_out` are base keys with rejected operations, as text.

    Of what has parts: `parts` says how many were judged, `unjudged` which were not, and why; `stale` why a view is
    behind (what it has is judged all the same).

    Of a view that is written to an outside store, too: `target` says how what is there compares with the version that
    it says it has, `target_differing` has the first rows that are not as they should be ("target wrong", where the view
    itself is right).
    """

    view: str
    version: int
    verdict: str
    judge: str
    rows: int
    seconds: float
    problem: str = ""
    differing_rows: int = 0
    differing: list[Difference] = field(default_factory=list)
    errors: list[ErrorRow] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    parts: int | None = None
    unjudged: list[str] = field(default_factory=list)
    stale: str = ""
    target: str = ""
    target_differing: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.verdict == "right"

    def raise_if_wrong(self) -> None:
        """Raises CheckFailed with the whole report, unless the view is right."""
        if not self.ok:
            raise CheckFailed(str(self))

    def __str__(self) -> str:
        head = f"{self.view} at version {self.version}: {self.verdict}"
        parts = "" if self.parts is None else f"{self.parts} parts, "
        lines = [f"{head} ({parts}{self.rows} rows, judge: {self.judge}, {self.seconds:.2f} s)"]
        lines += [f"  {self.problem}"] if self.problem else []
        lines += [f"  {difference}" for difference in self.differing]
        if self.differing_rows > len(self.differing):
            lines.append(f"  ... and {self.differing_rows - len(self.differing)} more rows")
        lines += [f"  raises {error.code} at {error.place}: {error.row}" for error in self.errors]
        if self.left_out:
            lines.append(f"  left out, since operations on them were rejected: {', '.join(self.left_out)}")
        lines += [f"  not judged: {what}" for what in self.unjudged]
        lines += [f"  {self.target}"] if self.target else []
        lines += [f"  {deviation}" for deviation in self.target_differing]
        lines += [f"  {self.stale}; the parts that it has are judged"] if self.stale else []
        return "\n".join(lines)

    def to_json(self) -> str:
        """All fields; values that JSON lacks are text."""
        return json.dumps(asdict(self), default=str, ensure_ascii=False)

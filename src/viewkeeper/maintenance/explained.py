"""What EXPLAIN says of one view, as data: printed as text, JSON or a picture (Mermaid)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

_LISTED = 5
"""So many of the views that share an operator are named in text."""


@dataclass(frozen=True)
class ExplainedState:
    """A state that an operator writes.  `rows` and `bytes` are what is stored, or, where `estimated`, what is to be
    expected; None where nothing is known."""

    id: int
    kind: str
    key: tuple[str, ...]
    columns: int
    rows: int | None = None
    bytes: int | None = None
    estimated: bool = False

    def text(self) -> str:
        size = sized(self.rows, self.bytes, self.estimated)
        return f"state {self.id}: {self.kind} by ({', '.join(self.key)}), {self.columns} columns{size}"


@dataclass(frozen=True)
class ExplainedOperator:
    """An operator: its class (what a change costs: linear, bilinear or by key), the way in which it computes, the
    operators whose rows it takes, and the other views that use it."""

    id: int
    name: str
    zone: int
    class_: str
    way: str
    text: str
    inputs: tuple[int, ...]
    states: tuple[ExplainedState, ...]
    shared_with: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """What the text says of it."""
        yield f"  {self.name} [{self.class_}] {self.text}"
        for state in self.states:
            yield f"    {state.text()}"
        if self.shared_with:
            more = len(self.shared_with) - _LISTED
            rest = f" and {more:,} more" if more > 0 else ""
            yield f"    shared with {', '.join(self.shared_with[:_LISTED])}{rest}"


@dataclass(frozen=True)
class Explained:
    """How a view is kept.  `zones` are what each zone is keyed by, from zone 1 on; `costs` say, by table, what one
    changed row reads, `keeps` what is kept of each stream, or view over streams; `written_to` is the outside store
    that it is written to, too."""

    view: str
    key: tuple[str, ...]
    unique: bool
    zones: tuple[str, ...]
    operators: tuple[ExplainedOperator, ...]
    keeps: tuple[str, ...]
    falls_back: tuple[str, ...]
    crosses: tuple[str, ...]
    costs: dict[str, str]
    written_to: str = ""

    def text(self) -> str:
        """For people, a line for each fact."""
        lines = [f"view {self.view}: key ({', '.join(self.key)}){'' if self.unique else ', a bag of rows'}"]
        for zone, keyed in enumerate(self.zones, 1):
            lines.append(f"zone {zone}, keyed by {keyed}")
            lines += [line for each in self.operators if each.zone == zone for line in each.lines()]
        lines += [f"a row of {table} that changes reads {what}" for table, what in self.costs.items()]
        lines += self.keeps
        lines += [f"falls back: {each}" for each in self.falls_back or ("nothing",)]
        lines += [f"crosses: {each}" for each in self.crosses]
        lines += [f"also written to {self.written_to}"] if self.written_to else []
        return "\n".join(lines)

    def json(self) -> dict[str, Any]:
        """Plain data, fit for JSON; the names are those of the attributes."""
        plain = asdict(self)
        for operator in plain["operators"]:
            operator["class"] = operator.pop("class_")
        return plain

    def mermaid(self) -> str:
        """A flowchart: a box for each zone, in it its operators, and arrows the way that changes take."""
        lines = ["flowchart TD"]
        for zone, keyed in enumerate(self.zones, 1):
            lines.append(f"  subgraph zone{zone}[{quoted(f'zone {zone}, keyed by {keyed}')}]")
            for each in self.operators:
                if each.zone == zone:
                    lines.append(f"    o{each.id}[{quoted(f'{each.name}, {each.class_}', each.text)}]")
            lines.append("  end")
        lines += [f"  o{below} --> o{each.id}" for each in self.operators for below in each.inputs]
        return "\n".join(lines)


def sized(rows: int | None, bytes_: int | None, estimated: bool) -> str:
    """How much is stored, behind what it is said of; nothing where nothing is known."""
    size = "" if rows is None else f", {'about ' * estimated}{rows:,} row{'s' * (rows != 1)}"
    return size + ("" if bytes_ is None else f", {_bytes(bytes_)}")


def quoted(*lines: str) -> str:
    """Lines as the text of a box of Mermaid, whatever is in them."""
    escaped = [line.replace("#", "#35;").replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;")
               .replace(">", "#gt;").replace("\n", " ").replace("`", "#96;") for line in lines]  # fmt: skip
    return '"' + "<br>".join(escaped) + '"'


def _bytes(count: float) -> str:
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"

"""Hypothesis strategies for arrays, structs and maps: made of columns, taken apart, and exploded."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from hypothesis import strategies as st

from oracle.picking import pick
from viewkeeper.catalog.types import BOOLEAN, INT, Type, array_of, map_of, struct_of

Columns = Sequence[tuple[str, Type]]


@st.composite
def nested_values(draw: st.DrawFn, columns: Columns) -> tuple[str, Type]:
    """A part of a column that holds others, mostly; else something made of columns."""
    held = [column for column in columns if column[1].is_nested]
    if held and pick(draw, [True, True, False]):
        return draw(_parts(*pick(draw, held)))
    text, type_ = draw(_made(columns))
    return draw(_parts(text, type_)) if pick(draw, [True, False]) else (text, type_)


@st.composite
def _made(draw: st.DrawFn, columns: Columns) -> tuple[str, Type]:
    one, type_ = pick(draw, columns)
    alike = [name for name, other in columns if other == type_]
    match pick(draw, ["array", "array", "struct", "map"]):
        case "array":
            more = draw(st.lists(st.sampled_from([*alike, "NULL"]), max_size=2))
            return f"array({', '.join([one, *more])})", array_of(type_)
        case "struct":
            other, other_type = pick(draw, columns)
            return f"named_struct('f', {one}, 'g', {other})", struct_of([("f", type_), ("g", other_type)])
    key = pick(draw, ["'a'", "'b'"])
    return f"map({key}, {one}, 'c', {pick(draw, alike)})", map_of(Type("STRING"), type_)


@st.composite
def _parts(draw: st.DrawFn, text: str, type_: Type) -> tuple[str, Type]:
    """What stands within a value, or what is said of it; indexes beyond the ends raise."""
    if type_.name == "STRUCT":
        name, part = pick(draw, type_.parts)
        return f"{text}.{name}", part
    if type_.name == "MAP":
        value = type_.parts[1][1]
        return pick(draw, [(f"{text}['a']", value), (f"element_at({text}, 'c')", value), (f"size({text})", INT),
                           (f"map_contains_key({text}, 'b')", BOOLEAN)])  # fmt: skip
    element = type_.parts[0][1]
    taken = [f"get({text}, 0)", f"get({text}, 1)", f"try_element_at({text}, -1)", f"element_at({text}, 1)"]
    index = [] if text.startswith("array") else [f"{text}[0]"]
    options = [*((each, element) for each in [*taken, *index]), (f"size({text})", INT)]
    return pick(draw, options if type_.has_map else [*options, (f"array_contains({text}, get({text}, 1))", BOOLEAN)])


@st.composite
def laterals(draw: st.DrawFn, columns: Columns) -> tuple[str, tuple[tuple[str, Type], ...]]:
    """LATERAL VIEW over what columns hold, or an array that is made of them, and the columns that it adds, by names of
    their own."""
    n = next(n for n in count(1) if not any(name.endswith(str(n)) for name, _ in columns))
    held = [column for column in columns if column[1].name in ("ARRAY", "MAP")]
    text, type_ = pick(draw, held) if held and draw(st.booleans()) else draw(_made(columns).filter(_has_elements))
    view, parts = f"LATERAL VIEW {pick(draw, ['', 'OUTER '])}", [part for _, part in type_.parts]
    names, of = [f"e{n}"], parts
    if type_.name == "MAP":
        names = [f"k{n}", f"v{n}"]
    elif pick(draw, [True, False]):
        names, of, view = [f"p{n}", f"e{n}"], [INT, *parts], view + "pos"
    return f"{view}explode({text}) l AS {', '.join(names)}", tuple(
        (f"l.{name}", part) for name, part in zip(names, of, strict=True)
    )


def _has_elements(made: tuple[str, Type]) -> bool:
    return made[1].name != "STRUCT"

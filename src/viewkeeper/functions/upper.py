"""upper(text): by the full mapping of Unicode, whatever the language."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from viewkeeper.catalog.types import Type
from viewkeeper.functions.function import Computed, Function

UPPER_SINCE_14 = {
    0x19B: 0xA7DC, 0x264: 0xA7CB, 0x1C8A: 0x1C89, 0xA7CD: 0xA7CC, 0xA7CF: 0xA7CE, 0xA7D3: 0xA7D2, 0xA7D5: 0xA7D4,
    0xA7DB: 0xA7DA, **{0x10D70 + i: 0x10D50 + i for i in range(22)}, **{0x16EBB + i: 0x16EA0 + i for i in range(25)},
}  # fmt: skip
"""Letters whose capitals came with Unicode 15 to 17, which Spark knows, and older Pythons do not."""


def _result(types: Sequence[Type]) -> tuple[Type, tuple[Type, ...]] | None:
    return (types[0], (types[0],)) if types[0].name == "STRING" else None


def _kernel(arguments: Sequence[pa.Array], types: Sequence[Type], zone: str) -> Computed:
    (texts,) = arguments
    if pc.all(pc.string_is_ascii(texts)).as_py() is not False:
        return pc.ascii_upper(texts), None
    # Arrow maps character by character; a few become several ("ß", "ﬁ"). Each different text once.
    encoded = pc.dictionary_encode(texts)
    upper = pa.array([text.translate(UPPER_SINCE_14).upper() for text in encoded.dictionary.to_pylist()], texts.type)
    return upper.take(encoded.indices), None


UPPER = Function("upper", exp.Upper, ("this",), "a STRING", _result, _kernel)

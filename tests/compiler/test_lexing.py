"""One reading of a text: sqlglot and Spark cut it into the same words, or it is refused."""

from __future__ import annotations

import pytest

from viewkeeper.compiler.lexing import lexemes, printed
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.source_text import Script
from viewkeeper.compiler.syntax import tokenize
from viewkeeper.errors import DeclarationError


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("SELECT id -- \\\n, x FROM t", "take the \\ away", (2, 1)),
        ("SELECT id -- \\\n, '\nINSERT --' AS z FROM t", "take the \\ away", (2, 1)),
        ("SELECT {# x #} id FROM t", "{# is no SQL to Spark", (1, 8)),
        ("SELECT id /*+ x */ FROM t", "a hint stands behind SELECT only", (1, 11)),
        ("SELECT id /* a /*+ b */ c */ FROM t", "read this otherwise", None),
        ("SELECT $$a$$ FROM t", "between two $", (1, 8)),
        ("SELECT id\x85 FROM t", "U+0085", (1, 10)),
        ("SELECT id \u2029 FROM t", "U+2029 PARAGRAPH SEPARATOR", (1, 11)),
        ("SELECT id\0 FROM t", "U+0000", (1, 10)),
        ("\ufeffSELECT id FROM t", "U+FEFF", (1, 1)),
        ("SELECT a\ufeff FROM t", "U+FEFF", (1, 9)),
        ("SELECT N'a' FROM t", "read this otherwise", (1, 8)),
        ("SELECT a://b FROM t", "read this otherwise", (1, 8)),
        ("\u017felect id FROM t", "U+017F", (1, 1)),
    ],
)
def test_a_text_that_spark_reads_otherwise_is_refused_with_its_place(
    text: str, message: str, place: tuple[int, int] | None
) -> None:
    with pytest.raises(DeclarationError) as refused:
        parse_script(text)
    assert message in str(refused.value)
    assert place is None or (refused.value.line, refused.value.column) == place


@pytest.mark.parametrize(
    "text",
    [
        "SELECT /*+ BROADCAST(t) */ id FROM t", "SELECT 'it''s', 'a' 'b', \"c\", r'\\', '\\'' FROM t",
        "SELECT `a``b`, `--`, `/*` FROM t -- a comment", "SELECT /* /* nested */ one */ 1e5D, 1.BD, .5, 1., 2L FROM t",
        "SELECT id\u00a0FROM\u2028t\u3000WHERE\x0bid\x0c>\r1", "SELECT 'a\u2028b\x85c' FROM t", "SELECT X'1F' FROM t",
        "SELECT id FROM t -- \\ \n", "SELECT id -- \\\r\n FROM t", "SELECT größe, 1abc FROM t GROUP  BY x",
        "SELECT a[0].b, m['--'], x -> x >= 1 FROM t", "SELECT '-- \\\\', '/*' FROM t",
    ],
)  # fmt: skip
def test_what_both_read_alike_is_taken_and_printed_of_its_words_alone(text: str) -> None:
    tokens = tokenize(Script(text))
    again = printed(text)
    assert len(again) == len(text)
    assert "comment" not in again and "nested" not in again
    assert [(token.text, token.start, token.end) for token in tokenize(Script(again))] == [
        (token.text, token.start, token.end) for token in tokens
    ]
    assert list(lexemes(again)) == list(lexemes(text))
    assert printed(again) == again


def test_the_end_of_a_comment_is_that_of_spark() -> None:
    assert printed("a -- \\\nb\nc") == "a     \n \nc"
    assert printed("a --x\rb") == "a     b"

"""How Spark cuts a text into words (its grammar's lexer, `SqlBaseLexer`), so that sqlglot's reading can be held to it.

Where the two differ, a comment or a text for one would be code for the other.  Whatever is read here is therefore read
by both, and refused, with its place, where they do not agree.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from sqlglot.tokens import Token, TokenType

from viewkeeper.compiler.source_text import Script


class Lexeme(NamedTuple):
    """A word of Spark's: characters `start` to `end` (exclusive).  `kind` is word, number, string, raw, quoted (in
    backticks), sign, hint (the beginning of one), dollar (a text between dollars) or other (what Spark does not know).
    """

    kind: str
    start: int
    end: int


_GAP = re.compile("[ \\t\\n\\f\\r\\x0b\\xa0\\u1680\\u2000-\\u200a\\u2028\\u202f\\u205f\\u3000]+"
                  "|--(?:\\\\\\n|[^\\r\\n])*\\r?\\n?")  # fmt: skip
_MARKED = re.compile(
    r"""(?P<hint>/\*\+)|(?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")|(?P<raw>[rR](?:'[^']*'|"[^"]*"))"""
    r"""|(?P<quoted>`(?:[^`]|``)*`)|(?P<dollar>\$(?:[^\W\d]\w*)?\$)""",
    re.DOTALL,
)
_NUMBER = re.compile(
    r"\d+[eE][+-]?\d+(?:[fFdD]|[bB][dD])?|(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?(?:[fFdD]|[bB][dD])?(?![A-Za-z0-9_])"
    r"|\d+(?:[lLsS\u017fyYfFdD]|[bB][dD])?",
    re.ASCII,
)
_WORD = re.compile(r"[^\W\d_]+://[\w/\-.?=&#%]+|\w+")
_SIGN = re.compile(r"<=>|>>>|<>|!=|==|<=|!>|>=|!<|<<|>>|\|\||\|>|::|->|=>|\*/|@[vV]|[][;(),.!=<>+\-*/%~&|^:@?]")


def lexemes(text: str) -> Iterator[Lexeme]:
    """The words of `text`, without blanks and comments."""
    at = 0
    while at < len(text):
        if found := _GAP.match(text, at):
            at = found.end()
        elif text.startswith("/*", at) and not text.startswith("/*+", at):
            at = _behind_comment(text, at)
        else:
            yield (lexeme := _lexeme(text, at))
            at = lexeme.end


def parameters_in(text: str) -> dict[str, int]:
    """The names of parameters, `:name`, in `text`, and where they stand."""
    words = list(lexemes(text))
    return {text[word.start : word.end]: colon.start for colon, word in pairwise(words)
            if text[colon.start : colon.end] == ":" and word.kind == "word"}  # fmt: skip


def printed(text: str) -> str:
    """`text` of its words alone, each where it stands: no comment is left, and lines are ended by \\n only."""
    pieces, end = [], 0
    for lexeme in lexemes(text):
        pieces += [_blank(text[end : lexeme.start]), text[lexeme.start : lexeme.end]]
        end = lexeme.end
    return "".join([*pieces, _blank(text[end:])])


def _blank(gap: str) -> str:
    return "".join(character if character == "\n" else " " for character in gap)


def _behind_comment(text: str, at: int) -> int:
    """Where the comment ends that begins at `at`; comments in it count."""
    depth = 0
    while at < len(text):
        if text.startswith("/*", at) and not text.startswith("/*+", at):
            depth, at = depth + 1, at + 2
        elif text.startswith("*/", at):
            depth, at = depth - 1, at + 2
            if not depth:
                break
        else:
            at += 1
    return at


def _lexeme(text: str, at: int) -> Lexeme:
    if marked := _MARKED.match(text, at):
        return Lexeme(str(marked.lastgroup), at, marked.end())
    number, word = _NUMBER.match(text, at), _word(text, at)
    if number is not None and number.end() >= word:
        return Lexeme("number", at, number.end())
    if word > at:
        return Lexeme("word", at, word)
    sign = _SIGN.match(text, at)
    return Lexeme("other", at, at + 1) if sign is None else Lexeme("sign", at, sign.end())


def _word(text: str, at: int) -> int:
    """Where the word ends that begins at `at`; `at` where none does."""
    found = _WORD.match(text, at)
    if found is None:
        return at
    if found[0].isascii():
        return found.end()
    end = next((i for i in range(at, found.end())
                if not (text[i].isascii() or unicodedata.category(text[i]).startswith("L"))), found.end())  # fmt: skip
    return end - 3 if text.endswith("://", at, end) else end


_KINDS = {TokenType.STRING: "string", TokenType.RAW_STRING: "raw", TokenType.IDENTIFIER: "quoted",
          TokenType.NUMBER: "number"}  # fmt: skip
_NO_WORDS = {*_KINDS, TokenType.BIT_STRING, TokenType.BYTE_STRING, TokenType.NATIONAL_STRING, TokenType.HEX_STRING,
             TokenType.HEREDOC_STRING, TokenType.UNICODE_STRING}  # fmt: skip


def require_one_reading(source: Script, tokens: Sequence[Token]) -> None:
    """Raises DeclarationError, with the place, where Spark reads other words than `tokens`, which sqlglot has read."""
    at = _other_reading(source.text, tokens)
    if at is not None:
        raise source.error(_reason(source.text, at), at)


def _other_reading(text: str, tokens: Sequence[Token]) -> int | None:
    """Where something stands that is not the same to both.  What both read as a whole may be one word for one and
    several for the other."""
    # The suffix of a number is two tokens more, at the place of the number.
    ours = [token for i, token in enumerate(tokens) if not i or token.start > tokens[i - 1].end]
    spark = list(lexemes(text))
    i = j = 0
    while i < len(ours) and j < len(spark):
        first, start = (i, j), ours[i].start
        if start != spark[j].start:
            return min(start, spark[j].start)
        i, j = i + 1, j + 1
        while (end := ours[i - 1].end + 1) != spark[j - 1].end:
            if end < spark[j - 1].end and i < len(ours):
                i += 1
            elif end > spark[j - 1].end and j < len(spark):
                j += 1
            else:
                return start
        if not _are_same(text, ours[first[0] : i], spark[first[1] : j]):
            return next((word.start for word in spark[first[1] : j] if word.kind == "other"), start)
    return ours[i].start if i < len(ours) else spark[j].start if j < len(spark) else None


def _are_same(text: str, ours: Sequence[Token], spark: Sequence[Lexeme]) -> bool:
    if len(ours) == len(spark) == 1:
        return _is_same(text, ours[0], spark[0])
    kinds = [lexeme.kind for lexeme in spark]
    if ours[0].token_type == TokenType.HINT:
        return len(ours) == 1 and kinds[0] == "hint" and text[spark[-1].start : spark[-1].end] == "*/"
    if kinds == ["string"] and len(ours) > 1:  # sqlglot takes 'it''s' for two
        return all(token.token_type == TokenType.STRING for token in ours) and not _has_gap(ours)
    if kinds == ["number"] and len(ours) == 2:
        return [token.token_type for token in ours] == [TokenType.DOT, TokenType.NUMBER] and not _has_gap(ours)
    if len(ours) == 1 and ours[0].token_type == TokenType.HEX_STRING:
        return kinds == ["word", "string"] and spark[0].end == spark[1].start
    if len(ours) == 1 and set(kinds) == {"word"}:  # GROUP BY is one word for sqlglot
        return _is_word(ours[0], text[spark[0].start : spark[-1].end])
    return set(kinds) <= {"sign", "other"} and all(token.token_type not in _NO_WORDS for token in ours)


def _is_same(text: str, token: Token, lexeme: Lexeme) -> bool:
    """`_are_same` of one word each."""
    if lexeme.kind == "word":
        written = text[lexeme.start : lexeme.end]
        return token.token_type == TokenType.HEX_STRING or _is_word(token, written)
    if lexeme.kind in ("sign", "other"):
        return token.token_type not in _NO_WORDS
    return _KINDS.get(token.token_type) == lexeme.kind


def _is_word(token: Token, written: str) -> bool:
    # Spark knows its words in capitals too: 'ſelect' is one.
    return token.token_type not in _NO_WORDS and (written.isascii() or not written.upper().isascii())


def _has_gap(tokens: Sequence[Token]) -> bool:
    return any(token.start != before.end + 1 for before, token in zip(tokens, tokens[1:], strict=False))


def _reason(text: str, at: int) -> str:
    line_start = text.rfind("\n", 0, max(at - 1, 0)) + 1
    character = text[at]
    if text[max(at - 2, 0) : at] == "\\\n" or "\\\n" in text[line_start:at]:
        return ("for Spark a comment whose line ends in \\ goes on in the next line, and here it does not; take the \\ "
                "away")  # fmt: skip
    if text.startswith(("{#", "{%", "{{"), at):
        return f"{text[at : at + 2]} is no SQL to Spark; comments are /* ... */ and -- ..."
    if text.startswith("/*+", at):
        return "a hint stands behind SELECT only; a comment begins with /* and a blank"
    if character == "$":
        return "Spark takes what stands between two $ for a text; write it in quotes"
    if not character.isascii() or not character.isprintable():
        name = unicodedata.name(character, "")
        return f"U+{ord(character):04X}{' ' + name if name else ''} is read in two ways here; take it away, or quote it"
    return ("Spark would read this otherwise than it is read here; separate the words by blanks, and write texts in "
            "single quotes")  # fmt: skip

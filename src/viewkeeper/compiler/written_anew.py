"""A statement that changes rows as the text of a query, for Spark: its own words in another order.

No text is made of values: pieces of the statement's text stand as they were typed, and between them words that nobody
can type wrong.  Where Spark finds something wrong in the made text is found in the statement's again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokens import Token, TokenType

from viewkeeper.compiler.part_references import quoted
from viewkeeper.compiler.source_text import QueryText, Script
from viewkeeper.compiler.syntax import syntax_tree, tokenize
from viewkeeper.errors import DeclarationError, NotSupported

UNWRITTEN = "\0"
"""With this begin names that are in no statement."""

NULL_VALUE = f"{UNWRITTEN}null"
"""What a value is called that is NULL as it stands: in Spark's answer it has a type."""

_TYPED_NULL = "CAST(NULL AS INT)"

Snippet = tuple[str, int]
"""A text, and from where on it stands in the statement's source; words between the statement's own have the place of
what they belong to."""


@dataclass(frozen=True)
class WrittenAnew:
    """`values`, and all `behind` them, of a SELECT for Spark; `target` is what the table that is changed is called in
    it.  `refused` is what our own operators do not know of it as it stands, if anything; `rows` a query with the same
    rows that they know, if there is one."""

    values: tuple[Snippet, ...]
    behind: tuple[Snippet, ...]
    target: str
    refused: NotSupported | None
    rows: QueryText | None

    def selecting(self, source: Script, outputs: Sequence[str]) -> MadeText:
        """The query with `outputs` in front of the values."""
        first = self.values[0][1]
        shown = ((f"{each},", first) for each in outputs)
        return joined(source, [("SELECT", first), *shown, *self.values, *self.behind])


@dataclass(frozen=True)
class MadeText:
    """The text `made` of pieces, which begin at `starts` there and at `places` in `source`."""

    source: Script
    made: Script
    starts: tuple[int, ...]
    places: tuple[int, ...]

    def query(self) -> QueryText:
        """The query, read; raises DeclarationError with its place in `source`."""
        try:
            return QueryText(syntax_tree(self.made, tokenize(self.made)), self.made, 0, len(self.made.text))
        except DeclarationError as error:
            raise self.told(error) from None

    def told(self, error: DeclarationError) -> DeclarationError:
        """What `error` says of the made text, of the statement."""
        message, place = str(error).replace(UNWRITTEN, ""), None
        if error.line is not None and error.column is not None:
            message = message.removesuffix(f" (line {error.line}, column {error.column})")
            at = self.made.offset((error.line, error.column))
            piece = max(bisect_right(self.starts, at) - 1, 0)
            place = self.source.place(min(self.places[piece] + at - self.starts[piece], len(self.source.text)))
        return type(error)(message, *(place or ()))


def joined(source: Script, snippets: Sequence[Snippet]) -> MadeText:
    """The text of `snippets`, which are pieces of that of `source`, or stand for such."""
    text, starts, places = "", list[int](), list[int]()
    for piece, place in snippets:
        text += " " if text else ""
        starts.append(len(text))
        places.append(place)
        text += piece
    return MadeText(source, Script(text, source.parameters), tuple(starts), tuple(places))


def pieces(source: Script, written: Sequence[Token], tokens: Sequence[Token]) -> list[Snippet]:
    """The text of `tokens`; those of `written`, which are the statement's own, as they are typed, with whatever stands
    between two that follow one another there too."""
    number = {id(token): i for i, token in enumerate(written)}
    found: list[Snippet] = []
    before: int | None = None
    for token in tokens:
        here = number.get(id(token))
        if here is None:
            name = token.text.startswith(UNWRITTEN)
            found.append((quoted(token.text) if name else token.text, token.start))
        elif before is not None and here == before + 1:
            start = found[-1][1]
            found[-1] = source.text[start : max(start + len(found[-1][0]), token.end + 1)], start
        else:
            found.append((source.text[token.start : token.end + 1], token.start))
        before = here
    return found


def value_pieces(source: Script, written: Sequence[Token], value: Sequence[Token]) -> list[Snippet]:
    """As `pieces`, of one output: NULL gets a type, since no column of an answer can be without."""
    inner = [token for token in value if token.token_type not in (TokenType.L_PAREN, TokenType.R_PAREN)]
    if inner[0].token_type == TokenType.COLON and source.parameters.get(inner[1].text, "") is None:
        inner = inner[1:]
        null = True
    else:
        null = inner[0].token_type == TokenType.NULL
    if null and len(inner) == 1:
        return [(_TYPED_NULL, inner[0].start)]
    if null and len(inner) == 3 and inner[1].token_type == TokenType.ALIAS:
        given = value[0].token_type == TokenType.L_PAREN
        name = NULL_VALUE if given else inner[2].text
        return [(f"{_TYPED_NULL} AS {quoted(name)}", inner[0].start)]
    return pieces(source, written, value)

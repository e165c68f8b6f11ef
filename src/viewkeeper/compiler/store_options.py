"""USING and OPTIONS: which outside store a table is in, or a view's rows are written to."""

from __future__ import annotations

from sqlglot.tokens import TokenType

from viewkeeper.compiler.lengths import LengthReader

T = TokenType


class OptionsReader(LengthReader):
    """Reads OPTIONS, too."""

    def _store_options(self) -> tuple[tuple[str, str], ...]:
        """`(name 'value', name = value, 'a name' 'value', a.b 'value')`, as Spark has them."""
        self._expect("(")
        found: dict[str, str] = {}
        while True:
            name = self._option_name()
            self._take("=")
            token = self._tokens[self._next] if self._next < len(self._tokens) else None
            if token is None or token.token_type not in (T.STRING, T.NUMBER, T.TRUE, T.FALSE):
                raise self._failure(f"the value of {name}, in quotes")
            self._next += 1
            if name in found:
                raise self._failure(f"the option {name} stands twice", expected=False)
            found[name] = token.text
            if not self._take(","):
                break
        self._expect(")")
        return tuple(found.items())

    def _option_name(self) -> str:
        parts: list[str] = []
        while True:
            token = self._tokens[self._next] if self._next < len(self._tokens) else None
            if token is None or token.token_type in (T.COMMA, T.R_PAREN, T.L_PAREN, T.EQ):
                raise self._failure("the name of an option")
            self._next += 1
            parts.append(token.text.lower())
            if token.token_type == T.STRING or not self._take("."):
                return ".".join(parts)

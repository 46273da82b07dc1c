"""An SQL92 filter expression as tokens.

Words are those of RocketMQ's grammar; keywords have any case, names of properties have their own.
Blanks, `-- comments` and `/* comments */` are dropped.
"""

import re
from enum import Enum, auto
from typing import NamedTuple

from headrace.model.errors import Malformed

SQL_CHARS_MAX = 8192
"""Characters of an expression at most."""
KEYWORDS = frozenset({
    "NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH",
    "ENDSWITH",
})  # fmt: skip
_TOKEN = re.compile(
    r"(?P<blank>[ \t\n\r\f]+|--[^\n\r]*|/\*.*?\*/)"
    r"|(?P<decimal>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)"
    r"|(?P<integer>(?:0|[1-9][0-9]*)[lL]?)"
    r"|(?P<text>'(?:''|[^'])*')"
    r"|(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)"
    r"|(?P<symbol><>|>=|<=|[=<>(),+-])",
    re.DOTALL,
)


class FilterInvalid(Malformed):
    """An expression that is no filter; the text names the place and the reason."""

    def __init__(self, at: int, reason: str) -> None:
        """`at`: characters before the place in the expression."""
        super().__init__(f"SQL92 filter, character {at + 1}: {reason}")


class TokenKind(Enum):
    """The kinds of tokens."""

    DECIMAL = auto()
    INTEGER = auto()
    TEXT = auto()
    NAME = auto()
    KEYWORD = auto()
    SYMBOL = auto()
    END = auto()


class Token(NamedTuple):
    """A word of an expression."""

    kind: TokenKind
    text: str
    """Keywords in capitals; a string without its quotes."""
    at: int
    """Characters before it."""


def tokens_of(expression: str) -> list[Token]:
    """Return an expression's tokens and an END. Raises FilterInvalid."""
    if len(expression) > SQL_CHARS_MAX:
        reason = f"the expression has more than {SQL_CHARS_MAX} characters"
        raise FilterInvalid(SQL_CHARS_MAX, reason)
    found = []
    at = 0
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        if match is None:
            raise FilterInvalid(at, f"no token begins with {expression[at]!r}")
        if match.lastgroup != "blank":
            found.append(_token(str(match.lastgroup), match.group(), at))
        at = match.end()
    found.append(Token(TokenKind.END, "the end", at))
    return found


def _token(group: str, text: str, at: int) -> Token:
    if group == "name" and text.upper() in KEYWORDS:
        return Token(TokenKind.KEYWORD, text.upper(), at)
    if group == "text":
        text = text[1:-1].replace("''", "'")
    return Token(TokenKind[group.upper()], text, at)

"""Parse Spark's DDL, such as `id BIGINT NOT NULL, at TIMESTAMP COMMENT 'epoch ms'`.

A comment that begins with `epoch s`, `epoch ms`, `epoch us`, `epoch ns` or `zone UTC` (TIMESTAMP)
or `epoch days` (DATE) declares how the column's times are written. Any other comment is ignored.
"""

from __future__ import annotations

import re
from functools import lru_cache

from headrace.typed.types import DECIMAL_DIGITS_MAX, UNITS, ColumnType, Field, Kind, Unit

NESTED_MAX = 32
"""Bound on nested types."""

_TOKEN = re.compile(
    r"""\s*(?: `(?P<quoted>(?:[^`]|``)+)`
             | '(?P<text>(?:[^'\\]|\\.|'')*)'
             | "(?P<double>(?:[^"\\]|\\.)*)"
             | (?P<word>\w+)
             | (?P<mark>[<>(),:]) )""",
    re.VERBOSE,
)
_NAMES = {
    "BYTE": Kind.TINYINT,
    "SHORT": Kind.SMALLINT,
    "INTEGER": Kind.INT,
    "LONG": Kind.BIGINT,
    "REAL": Kind.FLOAT,
    "DEC": Kind.DECIMAL,
    "NUMERIC": Kind.DECIMAL,
    "TIMESTAMP_LTZ": Kind.TIMESTAMP,
} | {kind.name: kind for kind in Kind}
_UNITS = {
    "epoch s": Unit.SECONDS,
    "epoch ms": Unit.MILLIS,
    "epoch us": Unit.MICROS,
    "epoch ns": Unit.NANOS,
    "epoch days": Unit.DAYS,
    "zone utc": Unit.ISO_UTC,
}
_DECLARED = re.compile(rf"({'|'.join(_UNITS)})\b", re.IGNORECASE)


class SchemaError(ValueError):
    """A DDL that cannot be parsed, or a type that JSON is not decoded to."""


@lru_cache(64)
def parse_ddl(ddl: str) -> ColumnType:
    """Return the columns of `ddl` as a STRUCT; raise `SchemaError`.

    The last schemas are kept: a Spark worker parses its query's once, not with every task.
    """
    parser = _Parser(ddl)
    fields = parser.fields("", 0)
    parser.expect("")
    return ColumnType(Kind.STRUCT, fields=fields)


class _Parser:
    def __init__(self, ddl: str) -> None:
        self._ddl = ddl
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while ddl[at:].strip():
            found = _TOKEN.match(ddl, at)
            if found is None:
                raise SchemaError(f"schema: cannot parse {ddl[at : at + 20].strip()!r} in {ddl!r}")
            kind = found.lastgroup or ""
            self._tokens.append((kind, found[kind]))
            at = found.end()
        self._tokens.append(("mark", ""))
        self._at = 0

    def fields(self, end: str, depth: int) -> tuple[Field, ...]:
        """Parse fields up to the mark `end`, which stays."""
        found: list[Field] = []
        while self._peek() != ("mark", end) or found:
            found.append(self._field(depth))
            if self._peek() != ("mark", ","):
                break
            self._at += 1
        if not found:
            raise SchemaError(f"schema: no columns in {self._ddl!r}")
        names = [field.name for field in found]
        for name in names:
            if names.count(name) > 1:
                raise SchemaError(f"schema: column {name!r} is declared twice in {self._ddl!r}")
        return tuple(found)

    def expect(self, mark: str) -> None:
        """Skip `mark`; raise unless it is next."""
        if self._peek() != ("mark", mark):
            wanted = repr(mark) if mark else "the end"
            raise self._error(f"expected {wanted}")
        self._at += 1

    def _field(self, depth: int) -> Field:
        kind, name = self._next()
        if kind == "quoted":
            name = name.replace("``", "`")
        elif kind != "word":
            self._at -= 1
            raise self._error("expected a column's name")
        if depth and self._peek() == ("mark", ":"):
            self._at += 1
        column = self._type(depth)
        nullable = True
        if self._word("NOT"):
            if not self._word("NULL"):
                raise self._error("expected NULL after NOT")
            nullable = False
        if self._word("COMMENT"):
            column = self._declared(name, column, self._comment())
        return Field(name, column, nullable)

    def _type(self, depth: int) -> ColumnType:
        if depth > NESTED_MAX:
            raise SchemaError(f"schema: more than {NESTED_MAX} nested types in {self._ddl!r}")
        kind, word = self._next()
        known = _NAMES.get(word.upper()) if kind == "word" else None
        if known is None:
            self._at -= 1
            raise self._error("expected a type of JSON values (docs/typed-topics.md)")
        match known:
            case Kind.DECIMAL:
                return self._decimal()
            case Kind.STRUCT:
                self.expect("<")
                fields = self.fields(">", depth + 1)
                self.expect(">")
                return ColumnType(known, fields=fields)
            case Kind.ARRAY | Kind.MAP:
                return self._container(known, depth)
        return ColumnType(known)

    def _container(self, kind: Kind, depth: int) -> ColumnType:
        self.expect("<")
        if kind is Kind.MAP:
            if self._type(depth + 1).kind is not Kind.STRING:
                raise self._error("keys of a MAP are STRING before")
            self.expect(",")
        part = self._type(depth + 1)
        self.expect(">")
        name = "value" if kind is Kind.MAP else "element"
        return ColumnType(kind, element=Field(name, part))

    def _decimal(self) -> ColumnType:
        precision, scale = 10, 0
        if self._peek() == ("mark", "("):
            self._at += 1
            precision = self._number()
            if self._peek() == ("mark", ","):
                self._at += 1
                scale = self._number()
            self.expect(")")
        if not (1 <= precision <= DECIMAL_DIGITS_MAX and scale <= precision):
            raise SchemaError(f"schema: DECIMAL({precision},{scale}) is beyond DECIMAL(38,38)")
        return ColumnType(Kind.DECIMAL, precision, scale)

    def _number(self) -> int:
        _, word = self._next()
        if not (word.isascii() and word.isdigit()) or len(word) > 3:
            self._at -= 1
            raise self._error("expected a number of digits")
        return int(word)

    def _comment(self) -> str:
        kind, text = self._next()
        if kind not in {"text", "double"}:
            self._at -= 1
            raise self._error("expected a comment's text")
        return text

    def _declared(self, name: str, column: ColumnType, comment: str) -> ColumnType:
        found = _DECLARED.match(comment.strip())
        leaf = column
        while leaf.element is not None:
            leaf = leaf.element.type
        if found is None or leaf.kind not in UNITS:
            return column
        unit = _UNITS[found[1].lower()]
        if unit not in UNITS[leaf.kind]:
            raise SchemaError(f"schema: column {name!r}: {leaf} cannot be {found[1]!r}")
        return column.with_unit(unit)

    def _word(self, word: str) -> bool:
        kind, text = self._peek()
        found = kind == "word" and text.upper() == word
        self._at += found
        return found

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at]

    def _next(self) -> tuple[str, str]:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _error(self, wanted: str) -> SchemaError:
        found = self._peek()[1] or "the end"
        return SchemaError(f"schema: {wanted}, found {found!r} in {self._ddl!r}")

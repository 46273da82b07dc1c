"""SQL92 filter expressions, with the grammar of RocketMQ's broker.

    or          and {OR and}
    and         equality {AND equality}
    equality    comparison {= comparison | <> comparison | IS [NOT] NULL}
    comparison  unary {< | <= | > | >= unary | [NOT] BETWEEN unary AND unary
                      | [NOT] IN ('text', …) | [NOT] CONTAINS | STARTSWITH | ENDSWITH 'text'}
    unary       {+ | - | NOT} primary
    primary     literal | property | ( or )

Literals are integers of 64 bits, decimals, 'text', TRUE, FALSE and NULL. Order is for numbers and
properties only. In contrast to RocketMQ's parser, text behind the expression is an error.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from headrace.subscriptions.sql.nodes import (
    ORDERS,
    SEARCHES,
    Node,
    NodeKind,
    all_of,
    any_of,
    constant,
    equals,
    inverted,
    is_in,
    is_null,
    named,
    negative,
    ordered,
    searched,
    truth_of,
)
from headrace.subscriptions.sql.tokens import FilterInvalid, Token, TokenKind, tokens_of
from headrace.subscriptions.sql.values import INTEGERS, Incomparable, difference

SQL_TYPE = "SQL92"
DEPTH_MAX = 64
"""Nested parentheses, signs and NOTs of an expression at most."""
_COMPILED_MAX = 256
"""Compiled expressions that are remembered."""
_TRUTHS = {"TRUE": True, "FALSE": False, "NULL": None}


class SqlFilter:
    """The messages that a consumer wants, by an expression over their properties."""

    __slots__ = ("_evaluate", "cost")

    def __init__(self, expression: str) -> None:
        """Compile an expression. Raises FilterInvalid."""
        node = _Parser(tokens_of(expression)).parse()
        self._evaluate = node.evaluate
        self.cost = node.cost
        """Comparisons, and other steps of the same order, for one message at most."""

    def wants(self, properties: Mapping[str, str]) -> bool:
        """Return whether a message is wanted: whether the expression is TRUE. On any thread."""
        try:
            return self._evaluate(properties) is True
        except Incomparable:
            return False


@lru_cache(_COMPILED_MAX)
def sql_filter(expression: str) -> SqlFilter:
    """Return the filter of an expression, compiled once. Raises FilterInvalid."""
    return SqlFilter(expression)


class _Parser:
    """A parser by recursive descent, one method a rule."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    def parse(self) -> Node:
        """Return the whole expression, a condition."""
        node = self._condition(self._or, self._token)
        if self._token.kind is not TokenKind.END:
            raise self._unexpected("the end of the expression")
        return node

    # Tokens

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _takes(self, *words: str) -> bool:
        """Pass over these keywords and symbols, if they come next."""
        for ahead, word in enumerate(words):
            if self._next + ahead >= len(self._tokens):
                return False
            token = self._tokens[self._next + ahead]
            if token.kind not in {TokenKind.KEYWORD, TokenKind.SYMBOL} or token.text != word:
                return False
        self._next += len(words)
        return True

    def _require(self, word: str) -> None:
        if not self._takes(word):
            raise self._unexpected(word)

    def _text(self) -> str:
        token = self._token
        if token.kind is not TokenKind.TEXT:
            raise self._unexpected("a text in single quotes")
        self._next += 1
        return token.text

    def _unexpected(self, wanted: str) -> FilterInvalid:
        return FilterInvalid(self._token.at, f"expected {wanted}, found {self._token.text[:40]!r}")

    # Rules

    def _condition(self, rule: Callable[[], Node], at: Token) -> Node:
        node = rule()
        if node.kind is NodeKind.PROPERTY:
            return truth_of(node)
        if node.kind in {NodeKind.CONDITION, NodeKind.TRUTH}:
            return node
        raise FilterInvalid(at.at, "expected a condition, found a value")

    def _or(self) -> Node:
        return self._chain("OR", self._and, any_of)

    def _and(self) -> Node:
        return self._chain("AND", self._equality, all_of)

    def _chain(
        self, word: str, rule: Callable[[], Node], join: Callable[[Sequence[Node]], Node]
    ) -> Node:
        first = self._token
        node = rule()
        if not self._takes(word):
            return node
        nodes = [self._condition(lambda: node, first)]
        while True:
            nodes.append(self._condition(rule, self._token))
            if not self._takes(word):
                return self._bounded(join(nodes))

    def _equality(self) -> Node:
        node = self._comparison()
        while True:
            at = self._token
            if self._takes("="):
                node = self._equal(node, self._comparison(), at)
            elif self._takes("<>"):
                node = inverted(self._equal(node, self._comparison(), at))
            elif self._takes("IS", "NULL"):
                node = is_null(node)
            elif self._takes("IS", "NOT", "NULL"):
                node = inverted(is_null(node))
            else:
                return node
            self._bounded(node)

    def _equal(self, left: Node, right: Node, at: Token) -> Node:
        for node in (left, right):
            if node.kind is NodeKind.TRUTH and node.value is None:
                raise FilterInvalid(at.at, "NULL is not compared; write IS NULL or IS NOT NULL")
        if left.kind is NodeKind.TRUTH and right.kind in {NodeKind.NUMBER, NodeKind.TEXT}:
            raise FilterInvalid(at.at, "TRUE and FALSE are not compared with numbers and texts")
        return equals(left, right)

    def _comparison(self) -> Node:
        node = self._unary()
        while True:
            at = self._token
            if at.kind is TokenKind.SYMBOL and at.text in ORDERS:
                self._next += 1
                node = self._order(node, at.text, self._unary(), at)
            else:
                inverse = at.text == "NOT" and at.kind is TokenKind.KEYWORD
                self._next += inverse
                more = self._worded(node, inverse)
                if more is None:
                    self._next -= inverse
                    return node
                node = more
            self._bounded(node)

    def _worded(self, node: Node, inverse: bool) -> Node | None:
        """Return a comparison by a keyword, None without one; `inverse`: NOT comes before it."""
        at = self._token
        if at.kind is not TokenKind.KEYWORD:
            return None
        if self._takes("BETWEEN"):
            return self._between(node, inverse, at)
        if self._takes("IN"):
            if node.kind is not NodeKind.PROPERTY:
                raise FilterInvalid(at.at, "IN needs a property before it")
            found = is_in(node, self._texts())
            return inverted(found) if inverse else found
        if at.text in SEARCHES:
            self._next += 1
            return searched(node, at.text, self._text(), inverse)
        return None

    def _texts(self) -> frozenset[str]:
        self._require("(")
        texts = {self._text()}
        while self._takes(","):
            texts.add(self._text())
        self._require(")")
        return frozenset(texts)

    def _between(self, node: Node, inverse: bool, at: Token) -> Node:
        low = self._unary()
        self._require("AND")
        high = self._unary()
        if (
            low.kind is high.kind is NodeKind.NUMBER
            and (difference(low.value, high.value) or 0) > 0
        ):
            raise FilterInvalid(at.at, f"BETWEEN {low.value} AND {high.value} is empty")
        if inverse:
            return any_of([self._order(node, "<", low, at), self._order(node, ">", high, at)])
        return all_of([self._order(node, ">=", low, at), self._order(node, "<=", high, at)])

    def _order(self, left: Node, symbol: str, right: Node, at: Token) -> Node:
        for node in (left, right):
            if node.kind in {NodeKind.TEXT, NodeKind.TRUTH, NodeKind.CONDITION}:
                raise FilterInvalid(at.at, "order is for numbers and properties only")
        return ordered(left, symbol, right)

    def _unary(self) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._too_deep()
        if self._takes("+"):
            node = self._unary()
        elif self._takes("-"):
            node = negative(self._unary())
        elif self._takes("NOT"):
            node = inverted(self._condition(self._unary, self._token))
        else:
            node = self._primary()
        self._depth -= 1
        return self._bounded(node)

    def _bounded(self, node: Node) -> Node:
        if node.depth > 2 * DEPTH_MAX:
            raise self._too_deep()
        return node

    def _too_deep(self) -> FilterInvalid:
        return FilterInvalid(self._token.at, f"nested more than {DEPTH_MAX} times")

    def _primary(self) -> Node:
        token = self._token
        if self._takes("("):
            node = self._or()
            self._require(")")
            return node
        self._next += token.kind is not TokenKind.END
        match token.kind:
            case TokenKind.NAME:
                return named(token.text)
            case TokenKind.TEXT:
                return constant(NodeKind.TEXT, token.text)
            case TokenKind.INTEGER | TokenKind.DECIMAL:
                return constant(NodeKind.NUMBER, _number(token))
            case TokenKind.KEYWORD if token.text in _TRUTHS:
                return constant(NodeKind.TRUTH, _TRUTHS[token.text])
        self._next -= token.kind is not TokenKind.END
        raise self._unexpected("a value, a property or (")


def _number(token: Token) -> int | float:
    if token.kind is TokenKind.INTEGER:
        digits = token.text.rstrip("lL")
        if len(digits) < 20 and int(digits) in INTEGERS:
            return int(digits)
        raise FilterInvalid(token.at, "the integer has more than 64 bits")
    if math.isfinite(value := float(token.text)):
        return value
    raise FilterInvalid(token.at, "the number is too large")

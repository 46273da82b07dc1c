"""Match names by a client's regular expression: RE2 syntax, whole names.

RE2 matches in time linear in the name's length and limits an expression's memory; an expression can
make Python's own engine run practically without end. Kafka uses the same language (RE2/J). The
library is imported with the first expression.
"""

from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, Protocol

from headrace.model.errors import ApiError, ErrorCode

EXPRESSION_CHARS_MAX = 4_096
COMPILED_BYTES_MAX = 1 << 20
"""Bytes that RE2 may use for one compiled expression."""
_COMPILED_MAX = 256

_Engine = Any
"""The module `re2`, which has no type hints."""


class _Pattern(Protocol):
    def fullmatch(self, text: str) -> object: ...
    def search(self, text: str) -> object: ...


@cache
def _engine() -> _Engine:
    return import_module("re2")


@lru_cache(_COMPILED_MAX)
def _compiled(expression: str) -> _Pattern:
    engine = _engine()
    options = engine.Options()
    options.max_mem = COMPILED_BYTES_MAX
    options.log_errors = False
    pattern: _Pattern = engine.compile(expression, options)
    return pattern


def check(expression: str, field: str = "SubscribedTopicRegex") -> None:
    """Raise ApiError INVALID_REGULAR_EXPRESSION if the expression is invalid or too long."""
    problem = None
    if len(expression) > EXPRESSION_CHARS_MAX:
        problem = f"longer than {EXPRESSION_CHARS_MAX} characters"
    else:
        try:
            _compiled(expression)
        except ImportError as error:
            problem = f"the google-re2 package is missing ({error})"
        except _engine().error as error:
            (reason,) = error.args
            problem = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    if problem is not None:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"{field} `{expression[:100]}` is not a valid regular expression: {problem}.",
        )


def matching(expression: str, topics: Iterable[str]) -> frozenset[str]:
    """Return the topics whose whole name matches; none if the expression is invalid."""
    try:
        check(expression)
    except ApiError:
        return frozenset()
    pattern = _compiled(expression)
    return frozenset(topic for topic in topics if pattern.fullmatch(topic))


def matcher(expression: str, field: str) -> Callable[[str], bool]:
    """Return a function that tests whether a whole name matches. Raises ApiError as `check`
    does."""
    check(expression, field)
    pattern = _compiled(expression)
    return lambda name: pattern.fullmatch(name) is not None


def searcher(expression: str, field: str) -> Callable[[str], bool]:
    """Return a function that tests whether part of a name matches. Raises ApiError as `check`
    does."""
    check(expression, field)
    pattern = _compiled(expression)
    return lambda name: pattern.search(name) is not None


def escaped(name: str) -> str:
    """Return an expression that matches exactly `name`."""
    literal: str = _engine().escape(name)
    return literal

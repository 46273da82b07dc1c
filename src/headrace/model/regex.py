"""Names by a regular expression a client sent: RE2's syntax, matched against whole names.

RE2 matches in time linear to the name, whatever the expression, and bounds the memory an expression
may take; Python's own engine can be made to run for ever. Kafka uses the same language (RE2/J). The
library is imported by the first expression that comes.
"""

from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, Protocol

from headrace.model.errors import ApiError, ErrorCode

EXPRESSION_CHARS_MAX = 4_096
COMPILED_BYTES_MAX = 1 << 20
"""What RE2 may spend on one expression."""
_COMPILED_MAX = 256

_Engine = Any
"""The module `re2`: it has no types of its own."""


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
    """Raise ApiError INVALID_REGULAR_EXPRESSION where it cannot be compiled, or is too long."""
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
    """Return the topics whose whole name matches; none where the expression is not valid."""
    try:
        check(expression)
    except ApiError:
        return frozenset()
    pattern = _compiled(expression)
    return frozenset(topic for topic in topics if pattern.fullmatch(topic))


def matcher(expression: str, field: str) -> Callable[[str], bool]:
    """Return a function that tells whether a whole name matches. ApiError as `check`."""
    check(expression, field)
    pattern = _compiled(expression)
    return lambda name: pattern.fullmatch(name) is not None


def searcher(expression: str, field: str) -> Callable[[str], bool]:
    """Return a function that tells whether a part of a name matches. ApiError as `check`."""
    check(expression, field)
    pattern = _compiled(expression)
    return lambda name: pattern.search(name) is not None


def escaped(name: str) -> str:
    """Return an expression that matches the name as it stands."""
    literal: str = _engine().escape(name)
    return literal

"""Match names by a client's regular expression, whole names or a part: RE2 syntax.

RE2 matches in time linear in the name's length and limits an expression's memory; an expression can
make Python's own engine run practically without end. Kafka uses the same language (RE2/J). The
library is imported with the first expression.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, Protocol

from headrace.model.errors import ApiError, ErrorCode

EXPRESSION_CHARS_MAX = 4_096
COMPILED_BYTES_MAX = 1 << 20
"""Bytes that RE2 may use for one compiled expression."""
_COMPILED_MAX = 256
_SIZES_MAX = 4_096
_SET_BYTES_MAX = 4 << 20
"""Bytes that RE2 may use for one set, its program and the states that it has seen."""

_Engine = Any
"""The module `re2`, which has no type hints."""


_SetMatch = Callable[[bytes], list[int] | None]


class _Pattern(Protocol):
    def fullmatch(self, text: str) -> object: ...
    def search(self, text: bytes) -> object: ...

    @property
    def programsize(self) -> int: ...


@cache
def _engine() -> _Engine:
    return import_module("re2")


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _options(bytes_max: int) -> object:
    options = _engine().Options()
    options.max_mem = bytes_max
    options.log_errors = False
    return options


@lru_cache(_COMPILED_MAX)
def _compiled(expression: str) -> _Pattern:
    pattern: _Pattern = _engine().compile(expression, _options(COMPILED_BYTES_MAX))
    return pattern


def problem(expression: str) -> str | None:
    """Return why an expression is invalid or too long, in RE2's words; None: it is valid."""
    if len(expression) > EXPRESSION_CHARS_MAX:
        return f"longer than {EXPRESSION_CHARS_MAX} characters"
    try:
        _compiled(expression)
    except ImportError as error:
        return f"the google-re2 package is missing ({error})"
    except UnicodeEncodeError:
        return "it is no UTF-8"
    except _engine().error as error:
        (reason,) = error.args
        return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    return None


@lru_cache(_SIZES_MAX)
def program_size(expression: str) -> int:
    """Return the number of instructions of a valid expression's program, a measure of its cost."""
    return _compiled(expression).programsize


def check(expression: str, field: str = "SubscribedTopicRegex") -> None:
    """Raise ApiError INVALID_REGULAR_EXPRESSION if the expression is invalid or too long."""
    found = problem(expression)
    if found is not None:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"{field} `{expression[:100]}` is not a valid regular expression: {found}.",
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
    does.

    Names may have surrogates for invalid UTF-8, as those of AMQP.
    """
    check(expression, field)
    pattern = _compiled(expression)
    return lambda name: pattern.search(_bytes(name)) is not None


def set_searcher(expressions: Sequence[str]) -> Callable[[str], list[int]]:
    """Return a function that lists the expressions that part of a name matches, by their indexes.

    The expressions are valid ones. All are searched for in one pass; those that do not fit into the
    memory of one set are divided among several. Names are as for `searcher`.
    """
    searches = list(_set_searches(expressions, 0))

    def search(name: str) -> list[int]:
        raw = _bytes(name)
        return [first + index for first, match in searches for index in match(raw) or ()]

    return search


def _set_searches(expressions: Sequence[str], first: int) -> Iterator[tuple[int, _SetMatch]]:
    """Yield the search of each set, and the index of its first expression."""
    if not expressions:
        return
    engine = _engine()
    compiled = engine.Set.SearchSet(_options(_SET_BYTES_MAX))
    for expression in expressions:
        compiled.Add(expression)
    try:
        compiled.Compile()
    except engine.error:
        if len(expressions) == 1:
            # A set has no other engine than the one with states; a single expression has.
            pattern = _compiled(expressions[0])
            yield first, lambda raw: [0] if pattern.search(raw) else None
            return
        half = len(expressions) // 2
        yield from _set_searches(expressions[:half], first)
        yield from _set_searches(expressions[half:], first + half)
    else:
        yield first, compiled.Match


def escaped(name: str) -> str:
    """Return an expression that matches exactly `name`."""
    literal: str = _engine().escape(name)
    return literal

"""Names for the functions of a pipeline: `topic`, `read`, `expect*`, `unique`, `fresh`, `parser`.

They stand next to Spark's own `pyspark.pipelines`:

    from pyspark import pipelines as dp
    from headrace import pipeline as hp

    @dp.table(format="delta")
    @hp.expect_or_drop("amount is positive", "amount > 0")     # below dp.table
    def orders():
        return hp.topic("orders", "id BIGINT NOT NULL, amount DOUBLE")

A run decides which rows `topic` and `read` return. Nothing here needs Spark.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from headrace.pipeline.intervals import interval_ms
from headrace.pipeline.parsed_types import columns_of_type
from headrace.spark.checks.check import Check as Check
from headrace.spark.checks.check import Fresh, Unique
from headrace.spark.checks.check import Outcome as Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame

Meta = Literal[True, False, "key"]
Function = TypeVar("Function", bound="Callable[[], object]")
_CHECKS, _UNIQUE, _FRESH = "headrace_checks", "headrace_unique", "headrace_fresh"
"""Attributes of a query function with its checks."""


WITHOUT_CDC = (
    "read the topic of changes and upsert them into a table in a query of your own, as in "
    "examples/cdc"
)
"""Advice for projects that look for helpers for CDC."""


class DeclarationError(ValueError):
    """A declaration is invalid; the text names it and says how to write it."""


@dataclass(frozen=True)
class Parser:
    """A Python function from a record's value to a tuple of columns."""

    function: Callable[[bytes], tuple[Any, ...]]
    columns: str
    """The columns as a DDL string."""


@dataclass(frozen=True)
class TopicSource:
    """A topic whose values are decoded to columns."""

    name: str
    columns: str
    """The value's columns as a DDL string."""
    parser: Parser | None
    """The function that decodes values; None: values are JSON objects."""
    event_time: str | None
    watermark: str | None
    """Delay of the watermark on `event_time`, such as "10 minutes"."""
    heartbeats: bool
    """Whether records without a value advance the watermark."""
    meta: Meta
    """Whether rows have the record's position and time; `key`: its key, too."""
    hidden: tuple[str, ...] = ()
    """Columns whose values are masked wherever rows are shown."""


class Sources(Protocol):
    """The rows that a run gives to the pipeline's functions."""

    def topic(self, source: TopicSource) -> DataFrame:
        """Return the rows of a topic."""

    def read(self, name: str) -> DataFrame:
        """Return the rows of a view of this pipeline."""


class OtherRunner(Sources, Protocol):
    """Another runner of pipelines, which does not know our checks."""

    def checked(self, function: Function, check: Check | Unique | Fresh) -> Function:
        """Return the function with a check that this runner can do. DeclarationError for others."""


_sources: ContextVar[Sources | None] = ContextVar("headrace_pipeline_sources", default=None)


def _no_runner() -> OtherRunner | None:
    return None


_other_runner: Callable[[], OtherRunner | None] = _no_runner


def other_runner(found: Callable[[], OtherRunner | None]) -> None:
    """Let declarations ask `found` for another runner, outside of our runs."""
    global _other_runner
    _other_runner = found


@contextmanager
def sources(given: Sources) -> Iterator[None]:
    """Let `topic` and `read` return the rows of `given` in this context."""
    token = _sources.set(given)
    try:
        yield
    finally:
        _sources.reset(token)


def topic(
    name: str,
    columns: str | Parser,
    *,
    event_time: str | None = None,
    watermark: str | None = None,
    heartbeats: bool = False,
    meta: Meta = True,
    hidden: Sequence[str] = (),
) -> DataFrame:
    """Return the records of a topic as rows: the value's columns, then the record's position.

    `columns`: DDL for values that are JSON objects, such as "id BIGINT NOT NULL, at TIMESTAMP", or
    a `parser`. `event_time` and `watermark`: column and delay of the watermark. `heartbeats`:
    records without a value advance it. `meta`: whether rows have `_partition`, `_offset` and
    `_timestamp`; "key" adds `_key`. `hidden`: columns whose values a dry run does not show.
    """
    if not name:
        raise DeclarationError("topic: the name is empty")
    if watermark is not None and event_time is None:
        raise DeclarationError(f"topic {name}: watermark needs event_time, the column that has it")
    if heartbeats and watermark is None:
        raise DeclarationError(f"topic {name}: heartbeats need a watermark to advance")
    if meta not in (True, False, "key"):
        raise DeclarationError(f'topic {name}: meta is {meta!r}, not True, False or "key"')
    if isinstance(hidden, str):
        raise DeclarationError(f"topic {name}: hidden is a list of columns: hidden=[{hidden!r}]")
    parser = columns if isinstance(columns, Parser) else None
    ddl = columns.columns if isinstance(columns, Parser) else columns
    return _given("topic").topic(
        TopicSource(name, ddl, parser, event_time, watermark, heartbeats, meta, tuple(hidden))
    )


def read(name: str) -> DataFrame:
    """Return the rows of a temporary view of this pipeline."""
    return _given("read").read(name)


def parser(function: Callable[[bytes], tuple[Any, ...]], columns: str | type) -> Parser:
    """Return a parser for `topic`: a function from a value to a tuple, and the tuple's columns.

    The function raises `Unreadable` for values that it refuses. `columns`: DDL, or a NamedTuple
    whose annotations give the columns: `int` is BIGINT, `str | None` a nullable STRING.
    """
    if not callable(function):
        raise DeclarationError("parser: the first argument is a function from bytes to a tuple")
    return Parser(function, columns if isinstance(columns, str) else columns_of_type(columns))


def expect(name: str, condition: str, *, at_least: float = 1.0) -> Callable[[Function], Function]:
    """Count rows that fail the condition, and warn if less than `at_least` of a batch pass."""
    return _check(Check(name, condition, Outcome.KEEP, at_least))


def expect_or_drop(name: str, condition: str) -> Callable[[Function], Function]:
    """Drop and count rows that fail the condition."""
    return _check(Check(name, condition, Outcome.DROP))


def expect_or_fail(
    name: str, condition: str, *, at_least: float = 1.0
) -> Callable[[Function], Function]:
    """End the run before a batch in which less than `at_least` of the rows pass is visible."""
    return _check(Check(name, condition, Outcome.FAIL, at_least))


def expect_or_quarantine(name: str, condition: str) -> Callable[[Function], Function]:
    """Move rows that fail the condition to the quarantine of their topic."""
    return _check(Check(name, condition, Outcome.QUARANTINE))


def unique(*columns: str) -> Callable[[Function], Function]:
    """End the run before a batch in which two rows share these columns is visible.

    Rows of one batch are compared; those of earlier batches only an upsert tells. A row with a null
    in one of the columns equals no other.
    """
    if not columns or not all(isinstance(name, str) and name for name in columns):
        raise DeclarationError('unique: give the names of columns: unique("id")')
    if len(set(columns)) < len(columns):
        raise DeclarationError(f"unique: a column is named twice: {', '.join(columns)}")
    return _declared(_UNIQUE, Unique(columns))


def fresh(column: str, within: str) -> Callable[[Function], Function]:
    """Warn while the newest time in a column is older than `within`, such as "15 minutes".

    The run compares it with the clock and reports when it becomes stale and fresh again, and ends
    no batch.
    """
    if not column or interval_ms(within) in (None, 0):
        raise DeclarationError(
            f'fresh: {column!r}, {within!r}: give a column and a time: fresh("at", "15 minutes")'
        )
    return _declared(_FRESH, Fresh(column, within))


def unique_of(function: object) -> tuple[Unique, ...]:
    """Return the checks of uniqueness of a query function, the upper decorator's first."""
    found: tuple[Unique, ...] = getattr(function, _UNIQUE, ())
    return found


def fresh_of(function: object) -> tuple[Fresh, ...]:
    """Return the checks of freshness of a query function, the upper decorator's first."""
    found: tuple[Fresh, ...] = getattr(function, _FRESH, ())
    return found


def checks_of(function: object) -> tuple[Check, ...]:
    """Return the checks of a query function, the upper decorator's first."""
    found: tuple[Check, ...] = getattr(function, _CHECKS, ())
    return found


def _check(check: Check) -> Callable[[Function], Function]:
    if not check.name or not check.condition:
        raise DeclarationError("expect: give a name and a condition: expect('…', 'amount > 0')")
    if not 0 < check.at_least <= 1:
        raise DeclarationError(
            f"check {check.name!r}: at_least is {check.at_least}, and must be above 0 and at most 1"
        )

    return _declared(_CHECKS, check)


def _declared(kind: str, check: Check | Unique | Fresh) -> Callable[[Function], Function]:
    """Return the decorator that adds a check to the attribute `kind` of a function."""

    def decorate(function: Function) -> Function:
        if function is None:
            raise DeclarationError(
                f"check {check.name!r}: put @hp.expect… below @dp.table, next to the function"
            )
        names = [each.name for each in checks_of(function)]
        names += [each.name for each in unique_of(function)]
        names += [each.name for each in fresh_of(function)]
        if check.name in names:
            raise DeclarationError(f"check {check.name!r} is declared twice")
        setattr(function, kind, (check, *getattr(function, kind, ())))
        runner = _other_runner()
        return function if runner is None else runner.checked(function, check)

    return decorate


def _given(name: str) -> Sources:
    given = _sources.get() or _other_runner()
    if given is None:
        raise DeclarationError(
            f"hp.{name} is called outside of a run: call it inside of a function that @dp.table, "
            "@dp.temporary_view or @dp.append_flow declares, and start it by `headrace pipeline`"
        )
    return given

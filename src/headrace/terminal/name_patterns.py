"""Topics chosen by regular expressions: the option `-r` of topic commands."""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated

from cyclopts import Parameter

from headrace.terminal.confirmation import confirm
from headrace.terminal.failure import EXIT_NOT_FOUND, CommandError, UsageError
from headrace.terminal.output import counted

Regex = Annotated[
    bool,
    Parameter(
        name=["-r", "--regex"],
        negative=(),
        help="Names are regular expressions that match whole names: 'orders.*'.",
    ),
]


def matching(patterns: Sequence[str], names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that a pattern matches as a whole, sorted.

    UsageError: an invalid pattern.
    """
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(pattern))
        except re.error as error:
            raise UsageError(f"-r {pattern}: invalid regular expression: {error}") from None
    return tuple(
        sorted(name for name in names if any(pattern.fullmatch(name) for pattern in compiled))
    )


def some_matching(patterns: Sequence[str], names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that match; CommandError if none does."""
    found = matching(patterns, names)
    if not found:
        raise CommandError(
            f"no topic matches {' or '.join(patterns)}; a pattern must match the whole name:"
            " 'orders.*'",
            EXIT_NOT_FOUND,
        )
    return found


def confirmed_matching(
    verb: str, patterns: Sequence[str], names: Iterable[str], *, yes: bool
) -> tuple[str, ...]:
    """Return the topics that match, after a confirmation on the terminal. Raises CommandError.

    `verb`: the change to confirm. `yes`: do not ask.
    """
    found = some_matching(patterns, names)
    confirm(f"{verb} {counted(len(found), 'topic')}, {', '.join(found)}?", yes=yes)
    return found

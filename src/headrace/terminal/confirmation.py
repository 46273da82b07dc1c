"""Questions before an irreversible change."""

import sys
from typing import Annotated

from cyclopts import Parameter

from headrace.terminal.failure import CommandError, UsageError

Yes = Annotated[
    bool,
    Parameter(
        name=["-y", "--yes", "--no-confirm"], negative=(), help="Do not ask for confirmation."
    ),
]


def confirm_on_terminal(question: str, *, yes: bool) -> None:
    """Ask for confirmation if standard input is a terminal, unless `yes`. CommandError: refused."""
    if sys.stdin.isatty():
        confirm(question, yes=yes)


def confirm(question: str, *, yes: bool) -> None:
    """Ask on the terminal, unless `yes`. CommandError: refused. UsageError: no terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} cannot ask without a terminal: pass --yes to confirm")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise CommandError("nothing was changed: not confirmed")

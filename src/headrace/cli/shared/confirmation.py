"""Asking before something is done that cannot be taken back."""

import sys
from typing import Annotated

from cyclopts import Parameter

from headrace.cli.shared.failure import CommandError, UsageError

Yes = Annotated[
    bool,
    Parameter(
        name=["-y", "--yes", "--no-confirm"], negative=(), help="Do not ask for confirmation."
    ),
]


def confirm_on_terminal(question: str, *, yes: bool) -> None:
    """Ask where standard input is a terminal, unless `yes`; scripts are not asked. CommandError."""
    if sys.stdin.isatty():
        confirm(question, yes=yes)


def confirm(question: str, *, yes: bool) -> None:
    """Ask on the terminal, unless `yes`; CommandError where the answer is not yes.

    UsageError where nobody can be asked.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} cannot ask without a terminal: pass --yes to confirm")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise CommandError("nothing was changed: not confirmed")

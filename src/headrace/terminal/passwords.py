"""Passwords of commands: read from a file or typed, never an argument."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headrace.model.secret import Secret
from headrace.terminal.failure import UsageError

PASSWORD_BYTES_MAX = 64 << 10

PasswordFile = Annotated[
    Path | None,
    Parameter(
        name="--password-file",
        allow_leading_hyphen=True,
        help="File with the password in its first line; - for standard input. Default: ask for it.",
    ),
]


def password_of(name: str, file: Path | None, *, twice: bool) -> Secret:
    """Return the password from a file's first line, or typed without echo (`twice`).

    Raises UsageError.
    """
    if file is not None:
        text = _first_line(file)
        if not text:
            raise UsageError(f"--password-file {file}: the first line is empty")
        return Secret(text)
    if not sys.stdin.isatty():
        raise UsageError("cannot ask for the password without a terminal: pass --password-file")
    from getpass import getpass

    typed = getpass(f"password of {name}: ")
    if not typed:
        raise UsageError("the password is empty")
    if twice and getpass("again: ") != typed:
        raise UsageError("the two passwords differ")
    return Secret(typed)


def _first_line(file: Path) -> str:
    try:
        if str(file) == "-":
            return sys.stdin.readline(PASSWORD_BYTES_MAX).removesuffix("\n")
        with file.open(encoding="utf-8") as opened:
            return opened.readline(PASSWORD_BYTES_MAX).removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "is not UTF-8"
        raise UsageError(f"--password-file {file}: {why.lower()}") from None

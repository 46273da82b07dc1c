"""The entry point of `headrace`; every error ends here as one line and an exit code.

Parsing commands needs a large library. `serve` with plain flags is parsed without it, as the time
to start a broker is measured from exec.
"""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.model.errors import HeadraceError
from headrace.terminal.failure import (
    EXIT_BROKEN_PIPE,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    CommandError,
    error_json,
    line_of,
)

if TYPE_CHECKING:
    from cyclopts import CycloptsError


_ZOOKEEPER = "--zookeeper"
_NO_ZOOKEEPER = (
    "--zookeeper: Kafka's tools lost this flag in Kafka 3, for brokers answer now: write"
    " --bootstrap-server HOST:PORT (-b) in its place"
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit the process with its exit code."""
    _open_closed_streams()
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code; expected errors are printed without a traceback."""
    try:
        code = _served(arguments) if arguments[:1] == ["serve"] else _commanded(arguments)
        sys.stdout.flush()
    except HeadraceError as error:
        return _tell(error)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return EXIT_BROKEN_PIPE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{(error.strerror or str(error)).lower()}", EXIT_FAILED)
    return code


def _served(arguments: Sequence[str]) -> int:
    from headrace.cli.broker import start

    plain = start.plain_words(arguments)
    if plain is None:
        return _commanded(arguments)
    return start.start(plain.properties, plain.flags, quiet=plain.quiet, secure=plain.secure)


def _commanded(arguments: Sequence[str]) -> int:
    from cyclopts import CycloptsError

    from headrace.cli.command_tree import app
    from headrace.terminal.output import speak_json

    speak_json("--json" in arguments)
    try:
        result = app(
            list(arguments), exit_on_error=False, print_error=False, result_action="return_value"
        )
    except CycloptsError as error:
        if any(word.partition("=")[0] == _ZOOKEEPER for word in arguments):
            return _fail(_NO_ZOOKEEPER, EXIT_USAGE)
        return _fail(_usage_line(error), EXIT_USAGE)
    return result if isinstance(result, int) else 0


def _fail(text: str, code: int) -> int:
    return _tell(CommandError(text, code))


def _tell(error: HeadraceError) -> int:
    from headrace.terminal.output import note_error  # a start of the broker does without

    text, code = line_of(error)
    note_error(text, error_json(error))
    return code


def _usage_line(error: "CycloptsError") -> str:
    """Return Cyclopts' error as one line that names the help."""
    text = " ".join(str(error).split())
    # By name, not isinstance: subclasses have better texts, with the nearest option or command.
    if type(error).__name__ == "UnusedCliTokensError":
        unused = getattr(error, "unused_tokens", None) or ()
        words = [token for token in unused if token.startswith("-")] or unused
        kind = "unknown option" if words is not unused else "too many words"
        text = f"{kind}: {' '.join(words)}"
    elif type(error).__name__ == "MissingArgumentError" and error.argument is not None:
        argument = error.argument
        by_place = argument.index is not None
        name = argument.name.lstrip("-").upper() if by_place else argument.name
        text = f"{name} is missing"
    # Cyclopts' list is cut off after a few commands: the help has all.
    text = text.partition(" Available commands:")[0]
    command = " ".join(["headrace", *(error.command_chain or ())])
    return f"{text.rstrip('.')}; see: {command} --help"


def _open_closed_streams() -> None:
    """Open /dev/null for standard streams that were closed (`>&-`).

    Otherwise the first file or socket opened would take the number of standard output.
    """
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))


def _silence_stdout() -> None:
    """Redirect standard output to /dev/null, so that Python's flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()

"""`headrace`: the tree of commands, and where every error ends as one line.

Command modules are named, not imported: each costs only those who use it, and `serve` starts lean.
"""

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Parameter

from headrace import __version__
from headrace.cli.failure import (
    EXIT_BROKEN_PIPE,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    line_of,
)
from headrace.model.errors import HeadraceError

app = App(
    name="headrace",
    version=__version__,
    help="A message broker for Kafka clients, and the tools to use it.\n\nA first minute: headrace"
    " serve; then elsewhere: echo hello | headrace produce t; headrace consume t --from-beginning",
    # "default: False" and "default: ()" tell nobody anything; where a default matters it is shown.
    default_parameter=Parameter(show_default=False, negative=()),
)
app.command(
    "headrace.cli.serve:serve",
    help="Run a broker until SIGTERM or Ctrl-C.\n\nSettings are Kafka's; flags win over HEADRACE_…"
    " variables (HEADRACE_LOG_DIRS for log.dirs), those over the file. All of them are in"
    " docs/configuration.md.",
)
app.command("headrace.cli.stop:stop", help="Stop a broker that runs here.")
app.command(
    "headrace.cli.topic:app",
    name="topic",
    alias="topics",
    help="Create, list, describe, alter and delete topics.",
)
app.command("headrace.cli.produce:produce", help="Send lines, or a growing file, to a topic.")
app.command("headrace.cli.consume:consume", help="Print records of topics.")
app.command(
    "headrace.cli.group:app",
    name="group",
    alias="groups",
    help="List, describe, seek and delete consumer groups.",
)
app.command(
    "headrace.cli.log:app",
    name="log",
    help="Look into a broker's files, check them, mend them, bring them in and out.",
)
app.command("headrace.cli.completion:completion", help="Print a shell's completion script.")
app.register_install_completion_command(add_to_startup=True)


@app.command
def version() -> None:
    """Print the version."""
    print(f"headrace {__version__}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; ends the process with its exit code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code. Nothing a user does ends in a traceback."""
    try:
        result = app(
            list(arguments), exit_on_error=False, print_error=False, result_action="return_value"
        )
        sys.stdout.flush()
    except CycloptsError as error:
        return _complain(_usage_line(error), EXIT_USAGE)
    except HeadraceError as error:
        return _complain(*line_of(error))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return EXIT_BROKEN_PIPE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}{(error.strerror or str(error)).lower()}", EXIT_FAILED)
    return result if isinstance(result, int) else 0


def _complain(text: str, code: int) -> int:
    for line in text.splitlines() or [""]:
        print(f"headrace: {line}", file=sys.stderr)
    return code


def _usage_line(error: CycloptsError) -> str:
    """Cyclopts' complaint on one line, with the way to the help."""
    text = " ".join(str(error).split())
    command = " ".join(["headrace", *(error.command_chain or ())])
    return f"{text.rstrip('.')}; see: {command} --help"


def _silence_stdout() -> None:
    """Keep Python's own flush at exit from complaining about the same broken pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()

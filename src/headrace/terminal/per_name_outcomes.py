"""Commands for several names: each name has its own result, whatever the others' are."""

from collections.abc import Callable, Sequence
from typing import Any

from headrace.client.transport.port import ClientError
from headrace.model.errors import HeadraceError
from headrace.terminal.failure import error_json, line_of
from headrace.terminal.output import note_error, print_json, print_line


def do_to_each(
    noun: str,
    names: Sequence[str],
    done: str,
    act: Callable[[str], tuple[bool, str]],
    more: Callable[[str], dict[str, Any]] = lambda name: {},
    *,
    json: bool,
) -> int:
    """Apply `act` to each name and print the results.

    Return the exit code of the first failure, or 0.

    `act` returns whether something was done, and the line to print, or raises. A failure does not
    stop the names after it, unless no broker answers. With `json` one list is printed: `noun`,
    `done` (true or false), `more` and `error` of each name.
    """
    answers: list[dict[str, Any]] = []
    code = 0
    gone: ClientError | None = None
    for name in names:
        failure: HeadraceError | None = gone
        was_done, line = False, ""
        if gone is None:
            try:
                was_done, line = act(name)
            except ClientError as error:
                failure = gone = error
            except HeadraceError as error:
                failure = error
        error_told = None if failure is None else error_json(failure)
        answers.append({noun: name, done: was_done, **more(name), "error": error_told})
        if failure is not None:
            text, its_code = line_of(failure)
            code = code or its_code
            if not json:
                note_error(text if failure is not gone or len(names) == 1 else f"{name}: {text}")
        elif not json:
            print_line(line)
    if json:
        print_json(answers)
    return code


def describe_each(
    noun: str,
    names: Sequence[str],
    look: Callable[[str], Any],
    show: Callable[[Any], None],
    as_json: Callable[[Any], dict[str, Any]],
    *,
    json: bool,
) -> int:
    """Print the description of each name, or its error.

    Return the exit code of the first failure, or 0.

    `look` returns the description or raises, `show` prints it, `as_json` converts it. ClientError:
    no broker answers.
    """
    answers: list[dict[str, Any]] = []
    code, shown = 0, 0
    for name in names:
        try:
            found = look(name)
        except ClientError:
            raise
        except HeadraceError as error:
            text, its_code = line_of(error)
            code = code or its_code
            answers.append({noun: name, "error": error_json(error)})
            if not json:
                note_error(text)
            continue
        if json:
            answers.append({**as_json(found), "error": None})
            continue
        if shown:
            print_line("")
        show(found)
        shown += 1
    if json:
        print_json(answers)
    return code

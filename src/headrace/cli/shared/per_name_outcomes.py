"""Verbs that do the same to several names: each has its outcome, whatever became of the others."""

from collections.abc import Callable, Sequence
from typing import Any

from headrace.cli.shared.failure import error_json, line_of
from headrace.cli.shared.output import note_error, print_json, print_line
from headrace.client.transport.port import ClientError
from headrace.model.errors import HeadraceError


def do_to_each(
    noun: str,
    names: Sequence[str],
    done: str,
    act: Callable[[str], tuple[bool, str]],
    more: Callable[[str], dict[str, Any]] = lambda name: {},
    *,
    json: bool,
) -> int:
    """Do `act` to each name and print what came of it; returns the exit code.

    `act` returns whether it was done and the line that says so, or raises; the names behind one
    that failed are done nevertheless, unless no broker answers. With `json` one list is printed:
    `noun`, `done` (true or false), `more` and `error` of each.
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
    """Look at each name and show it, those that are missing with their error; the exit code."""
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

"""Repeated output: the option `--watch`."""

import sys
import time
from collections.abc import Callable
from typing import Annotated

from cyclopts import Parameter

from headrace.model.errors import HeadraceError
from headrace.terminal.broker_options import check_seconds
from headrace.terminal.failure import line_of
from headrace.terminal.output import is_terminal, note, print_line

Watch = Annotated[
    float | None,
    Parameter(name=["--watch", "-w"], help="Refresh at this interval in seconds, until Ctrl-C."),
]
CLEAR_SCREEN = "\x1b[2J\x1b[H"


def shown(watch: float | None, show: Callable[[], None], *, parted: bool) -> None:
    """Call `show` once, or every `watch` seconds until Ctrl-C.

    `parted`: print an empty line between two outputs in a pipe; on a terminal the screen is
    cleared.
    """
    if watch is None:
        show()
        return
    check_seconds("--watch", watch)
    show_on = show
    while True:
        if is_terminal():
            sys.stdout.write(CLEAR_SCREEN)
        show_on()
        sys.stdout.flush()
        time.sleep(watch)
        if parted and not is_terminal():
            print_line("")
        show_on = _going_on(show)


def _going_on(show: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls `show`; a HeadraceError is printed as a note, not raised."""

    def again() -> None:
        try:
            show()
        except HeadraceError as error:
            note(f"headrace: {line_of(error)[0]}")

    return again

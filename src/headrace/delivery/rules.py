"""What a cursor is told beside where it begins."""

from typing import TypedDict


class Rules(TypedDict, total=False):
    """The rules of a cursor; what is not given is not so."""

    deliveries_max: int | None
    """A record that comes back from its last try is given up."""
    window: int | None
    """Offsets from the start on that may be unsettled or in between; None: any number."""
    dead_letters: bool
    """What is given up is archived by the caller, once stored elsewhere; else at once."""
    ahead: int | None
    """Offsets handed out at most before the next state is durable (`Cursor.kept`); None: any."""

"""`Rules`: the settings of a cursor."""

from typing import TypedDict


class Rules(TypedDict, total=False):
    """The settings of a cursor; an omitted one is off."""

    deliveries_max: int | None
    """Deliveries after which a record is given up; None: no limit."""
    window: int | None
    """Offsets from the start on within which records are delivered; None: any number."""
    dead_letters: bool
    """Whether given-up records are archived only once the caller has stored their dead letters."""
    ahead: int | None
    """Offsets delivered at most before the next state is durable (`Cursor.kept`); None: any."""

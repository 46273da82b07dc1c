"""What goes wrong with a table, each in one line for the person who runs the query."""

from pathlib import Path

from headrace.model.errors import HeadraceError


class TableError(HeadraceError):
    """The table cannot be written as asked: says why and what to do."""


class Conflict(Exception):
    """Somebody else committed to the table meanwhile: read its marker again, then try again."""


def gone(location: Path) -> TableError:
    """Say that a table that was written to is not there any more."""
    return TableError(
        f"there is no table at {location} any more: bring it back and start the query again, or "
        "give the query a new checkpointLocation to write the table anew"
    )

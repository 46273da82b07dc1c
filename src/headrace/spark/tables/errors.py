"""Errors of tables, each one line for the person who runs the query."""

from pathlib import Path

from headrace.model.errors import HeadraceError


class TableError(HeadraceError):
    """The table cannot be written as requested; the text says why and what to do."""


class Conflict(Exception):
    """Another commit came first: read the table's marker again, then retry."""


def gone(location: Path) -> TableError:
    """Return the error for a table that was written before and no longer exists."""
    return TableError(
        f"there is no table at {location} any more: bring it back and start the query again, or "
        "give the query a new checkpointLocation to write the table anew"
    )

"""What goes wrong with a table, each in one line for the person who runs the query."""

from headrace.model.errors import HeadraceError


class TableError(HeadraceError):
    """The table cannot be written as asked: says why and what to do."""


class Conflict(Exception):
    """Somebody else committed to the table meanwhile: read its marker again, then try again."""

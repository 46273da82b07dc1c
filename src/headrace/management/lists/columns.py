"""Columns: the fields of objects that a request asks for (`columns=name,message_stats.ack`)."""

from collections.abc import Collection, Mapping

Columns = Collection[str] | None
"""Names of fields; None: all."""


def columns_of(query: Mapping[str, str]) -> Columns:
    """Return the fields that a query asks for.

    A path names its first field: RabbitMQ 4.3 returns `arguments` whole to
    `columns=arguments.x-expires`.
    """
    text = query.get("columns", "")
    return frozenset(path.partition(".")[0] for path in text.split(",")) if text else None


def of_object(row: Mapping[str, object], columns: Columns) -> Mapping[str, object]:
    """Return an object with these fields only; those that it lacks are left out."""
    if columns is None:
        return row
    return {name: value for name, value in row.items() if name in columns}

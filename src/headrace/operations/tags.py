"""Tags of users: RabbitMQ's rights on its management API (ADR 82)."""

from collections.abc import Collection
from enum import Enum


class Tag(Enum):
    """The tag of a user that a request or an operation requires."""

    ANYONE = ""
    """No credentials at all."""
    MANAGEMENT = "management"
    POLICYMAKER = "policymaker"
    MONITORING = "monitoring"
    ADMINISTRATOR = "administrator"


_SUFFICIENT = {
    Tag.MANAGEMENT: frozenset({"management", "policymaker", "monitoring", "administrator"}),
    Tag.POLICYMAKER: frozenset({"policymaker", "administrator"}),
    Tag.MONITORING: frozenset({"monitoring", "administrator"}),
    Tag.ADMINISTRATOR: frozenset({"administrator"}),
}
"""The tags of which a user needs one."""


def suffices(tags: Collection[str], required: Tag) -> bool:
    """Return whether a user with `tags` has the right of a tag; no tag is needed for ANYONE."""
    return required is Tag.ANYONE or not _SUFFICIENT[required].isdisjoint(tags)

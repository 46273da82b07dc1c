"""Tags of users: which requests they allow, and RabbitMQ's reasons of a refusal (ADR 82)."""

from collections.abc import Collection
from enum import Enum

from headrace.management.requests.errors import not_authorised


class Tag(Enum):
    """The tag of a user that a request requires."""

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
_REASONS = {
    Tag.MANAGEMENT: "Not management user",
    Tag.POLICYMAKER: "User not authorised to access object",
    Tag.MONITORING: "Not monitor user",
    Tag.ADMINISTRATOR: "Not administrator user",
}


def require_tag(tag: Tag, tags: Collection[str]) -> None:
    """Raise ManagementError 401 if a user with `tags` may not send requests that require `tag`.

    A user without any of the tags is refused as `Not management user`, whatever is required.
    """
    for required in (Tag.MANAGEMENT, tag) if tag is not Tag.ANYONE else ():
        if _SUFFICIENT[required].isdisjoint(tags):
            raise not_authorised(_REASONS[required])

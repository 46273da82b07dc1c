"""RabbitMQ's reasons of a refusal for a missing tag (ADR 82)."""

from collections.abc import Collection

from headrace.management.requests.errors import not_authorised
from headrace.operations.tags import Tag, suffices

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
        if not suffices(tags, required):
            raise not_authorised(_REASONS[required])

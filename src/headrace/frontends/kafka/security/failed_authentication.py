"""Delayed answers to clients that failed to authenticate."""

from typing import TYPE_CHECKING

from headrace.frontends.kafka.connection.response_entities import Entity
from headrace.net.pending import Pending
from headrace.wire.kafka import kio_codec

if TYPE_CHECKING:
    from headrace.frontends.kafka.authentication.authentication import Authentication


def or_later(authentication: "Authentication | None", answer: Entity) -> Entity | Pending:
    """Return the answer at once, or after a delay if it reports a failed authentication.

    The delay (connection.failed.authentication.delay.ms) slows down guessing, and no other client.
    """
    if authentication is None or not authentication.failed:
        return answer
    pending, body = Pending(), kio_codec.encode_body(answer)
    authentication.later(lambda: pending.resolve(body))
    return pending

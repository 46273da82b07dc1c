"""When an answer leaves that tells a client that it failed to authenticate."""

from typing import TYPE_CHECKING

from headrace.frontends.kafka.connection.response_entities import Entity
from headrace.net.pending import Pending
from headrace.wire.kafka import kio_codec

if TYPE_CHECKING:
    from headrace.frontends.kafka.authentication.authentication import Authentication


def or_later(authentication: "Authentication | None", answer: Entity) -> Entity | Pending:
    """Return the answer at once, or after a delay where the client has failed with it.

    Guessing is slow for who guesses (connection.failed.authentication.delay.ms), and for nobody
    else.
    """
    if authentication is None or not authentication.failed:
        return answer
    pending, body = Pending(), kio_codec.encode_body(answer)
    authentication.later(lambda: pending.resolve(body))
    return pending

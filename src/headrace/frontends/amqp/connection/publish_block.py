"""The block of a connection that publishes during a memory or disk alarm.

As in RabbitMQ, a publisher is sent connection.blocked once, at its first publish after the alarm,
and its connection is not read any more. Clients that do not publish are not affected.
"""

from headrace.frontends.amqp.connection import negotiation
from headrace.wire.amqp.control_methods import ConnectionBlocked
from headrace.wire.amqp.field_table import FieldTable
from headrace.wire.amqp.frames import FRAME_METHOD
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import BasicPublish

_IDS = slice(7, 11)
_PUBLISH = encode_method(0, BasicPublish())[_IDS]


class PublishHold:
    """The state of one connection's block by a resource alarm."""

    def __init__(self) -> None:
        self.on = False
        """Whether the client publishes during an alarm, so that its connection is not read."""
        self.told = False
        """Whether connection.blocked was sent."""
        self.reason: str | None = None
        """The resource that is low; None: no alarm."""

    def begins_at(self, data: bytes, at: int) -> bool:
        """Tell whether a publish begins at `at`, which must not be read now."""
        if self.reason is None or data[at : at + 1] != _METHOD:
            return False
        ids = data[at + _IDS.start : at + _IDS.stop]
        self.on = self.on or ids == _PUBLISH
        return self.on

    def tell(self, client_properties: FieldTable) -> ConnectionBlocked | None:
        """Return connection.blocked once, for a client that supports it."""
        known = negotiation.capability(client_properties, "connection.blocked")
        if not known or self.told or self.reason is None:
            return None
        self.told = True
        return ConnectionBlocked(self.reason)


_METHOD = bytes((FRAME_METHOD,))

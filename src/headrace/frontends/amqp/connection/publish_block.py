"""Whether a client that publishes is held up because the broker is out of a resource.

As in RabbitMQ, who publishes is told once, by its first publish after the resource ran out, and
nothing more is taken of that connection; who does not publish notices nothing.
"""

from headrace.wire.amqp.frames import FRAME_METHOD
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import BasicPublish

_IDS = slice(7, 11)
_PUBLISH = encode_method(0, BasicPublish())[_IDS]


class PublishHold:
    """One connection's."""

    def __init__(self) -> None:
        self.on = False
        """Whether the client publishes though the broker is out of a resource: read no more."""
        self.told = False
        """Whether the client was told."""
        self.reason: str | None = None
        """What the broker is out of; None: nothing."""

    def begins_at(self, data: bytes, at: int) -> bool:
        """Tell whether a publish begins at `at`, which is to stay where it is."""
        if self.reason is None or data[at : at + 1] != _METHOD:
            return False
        ids = data[at + _IDS.start : at + _IDS.stop]
        self.on = self.on or ids == _PUBLISH
        return self.on


_METHOD = bytes((FRAME_METHOD,))

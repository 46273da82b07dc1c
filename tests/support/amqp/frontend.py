"""A frontend for listeners of AMQP that echoes frames: what `server.frontends` imports by name."""

from headrace.net.connection import Connection
from headrace.server.frontends import Parts
from tests.support.amqp.echo import AmqpEcho, amqp_frame

FAREWELL = amqp_frame(b"the broker stops")


class EchoFrontend:
    """`server.frontends.Frontend`."""

    administration = None
    """Administrators ask nothing of it."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.sessions: list[AmqpEcho] = []

    def open(self, connection: Connection) -> AmqpEcho:
        """Return a session that echoes."""
        self.sessions.append(AmqpEcho(connection))
        return self.sessions[-1]

    async def start(self) -> None:
        """There is nothing to be put back."""

    async def stop(self) -> None:
        """Say farewell."""
        for session in self.sessions:
            session.stream.push(FAREWELL)


def frontend(parts: Parts) -> EchoFrontend:
    """Make it."""
    return EchoFrontend(parts)

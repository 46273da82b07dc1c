"""Methods done for an administrator, who has no connection and no channel.

Each method is encoded and decoded as if a client had sent it, so it can name only objects that a
client can name. Channel handlers execute it with all permissions in its vhost, or with those of a
user of the management API. Exclusive queues of clients are not accessible to it.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from headrace.frontends.amqp.channel.channel import QueueChannel
from headrace.frontends.amqp.client import Client
from headrace.queues.permissions.access import FULL_ACCESS
from headrace.security.identity import USER, Identity, Principal
from headrace.vhosts.users.logins import Peer
from headrace.wire.amqp.frames import FRAME_HEADER_BYTES
from headrace.wire.amqp.methods import Method, MethodId, decode_method, encode_method

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.frontends.amqp.connection.deferred_output import Release
    from headrace.frontends.amqp.queue_broker import QueueBroker
    from headrace.queues.engine.queue_host import QueueHost
    from headrace.wire.amqp.reply_codes import AmqpError

METHOD_BYTES_MAX = 131_072
"""Largest frame of a method in bytes: the default frame size of clients."""
_NUMBER = 1
_ADMINISTRATOR = Principal(USER, "an administrator")
_NOWHERE = Peer("", "")


class _Answer:
    """The pending answer of a method done for an administrator. Implements `ports.Outlet`."""

    number = _NUMBER
    frame_bytes_max = METHOD_BYTES_MAX

    def __init__(self) -> None:
        self.done: asyncio.Future[Method] = asyncio.get_running_loop().create_future()
        self._method: Method | None = None
        self._holds = 0

    def answer(self, method: Method) -> None:
        """Store the answer; it completes `done` once nothing holds it back."""
        self._method = method
        self._look()

    def write(self, frames: bytes) -> None:
        """Drop frames: deliveries are for consumers, and an administrator has none."""

    def hold(self) -> "Release":
        """Hold the answer back until the returned function is called, perhaps with a new answer."""
        self._holds += 1

        def release(before: bytes) -> None:
            self._holds -= 1
            if before:
                self._method = decode_method(before[FRAME_HEADER_BYTES:-1])
            self._look()

        return release

    def hold_input(self) -> "Callable[[], None]":
        """Return a function that does nothing: an administrator sends one method."""
        return lambda: None

    def takes_more(self) -> bool:
        """Return True: an answer needs no room."""
        return True

    def fail(self, error: "AmqpError", ids: MethodId) -> None:
        """Fail the pending answer: the method's changes could not be stored."""
        if not self.done.done():
            self.done.set_exception(error)

    def _look(self) -> None:
        if self._method is not None and not self._holds and not self.done.done():
            self.done.set_result(self._method)


def as_client_sends(method: Method) -> Method:
    """Return a method as decoded from a client's frame; raise ValueError if no frame can hold it.

    Tables nested deeper than a frame allows are refused.
    """
    try:
        frame = encode_method(_NUMBER, method)
    except UnicodeEncodeError as error:
        raise ValueError(f"a text is not to be written in UTF-8: {error.reason}") from None
    if len(frame) > METHOD_BYTES_MAX:
        raise ValueError(f"{len(frame)} bytes: at most {METHOD_BYTES_MAX} may be asked at once")
    return decode_method(frame[FRAME_HEADER_BYTES:-1])


async def do_method(
    queues: "QueueBroker", host: "QueueHost", method: Method, user: Identity | None = None
) -> Any:  # noqa: ANN401 - a method's own answer
    """Execute a method in a vhost; return its answer once its declarations are stored.

    `user`: whose permissions it needs; None: it needs none. Raises AmqpError or Refused if the
    method is refused, AmqpError if it could not be stored.
    """
    access = FULL_ACCESS if user is None else queues.access(user, host.name)
    principal = _ADMINISTRATOR if user is None else user.principal
    client = Client(
        queues, host, principal, {}, access, _NOWHERE, lambda reason: None, identity=user
    )
    answer = _Answer()
    QueueChannel(answer, client).method(method)
    # Consumers of a deleted queue are notified, and queues deliver.
    queues.soon()
    return await answer.done

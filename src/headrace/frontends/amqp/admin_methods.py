"""Methods that an administrator has done, as a client's are: he has no connection and no channel.

Each is read as from a frame, so that nothing comes to be that no client could name, and done by the
handlers of channels, with all rights in its vhost. His are no exclusive queues.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from headrace.frontends.amqp.channel.channel import QueueChannel
from headrace.frontends.amqp.client import Client
from headrace.frontends.amqp.connection.ports import Peer
from headrace.queues.permissions.access import FULL_ACCESS
from headrace.security.identity import USER, Principal
from headrace.wire.amqp.frames import FRAME_HEADER_BYTES
from headrace.wire.amqp.methods import Method, MethodId, decode_method, encode_method

if TYPE_CHECKING:
    from headrace.frontends.amqp.connection.deferred_output import Release
    from headrace.frontends.amqp.queue_broker import QueueBroker
    from headrace.queues.engine.queue_host import QueueHost
    from headrace.wire.amqp.reply_codes import AmqpError

METHOD_BYTES_MAX = 131_072
"""Of a method's frame: what a client's has room for where nothing is set."""
_NUMBER = 1
_ADMINISTRATOR = Principal(USER, "an administrator")
_NOWHERE = Peer("", "")


class _Answer:
    """The answer of one method, once it may be told. `ports.Outlet`."""

    number = _NUMBER
    frame_bytes_max = METHOD_BYTES_MAX

    def __init__(self) -> None:
        self.done: asyncio.Future[Method] = asyncio.get_running_loop().create_future()
        self._method: Method | None = None
        self._holds = 0

    def answer(self, method: Method) -> None:
        """Take the answer."""
        self._method = method
        self._look()

    def write(self, frames: bytes) -> None:
        """Drop it: who consumes nothing is delivered nothing."""

    def hold(self) -> "Release":
        """Tell nothing until it is released."""
        self._holds += 1

        def release(before: bytes) -> None:
            self._holds -= 1
            if before:
                self._method = decode_method(before[FRAME_HEADER_BYTES:-1])
            self._look()

        return release

    def takes_more(self) -> bool:
        """Tell that there is room."""
        return True

    def fail(self, error: "AmqpError", ids: MethodId) -> None:
        """Tell that it was not done after all."""
        if not self.done.done():
            self.done.set_exception(error)

    def _look(self) -> None:
        if self._method is not None and not self._holds and not self.done.done():
            self.done.set_result(self._method)


def as_client_sends(method: Method) -> Method:
    """Return a method as it is read from a client's frame; ValueError where no frame holds it.

    Its tables are nested no deeper than frames' may be.
    """
    try:
        frame = encode_method(_NUMBER, method)
    except UnicodeEncodeError as error:
        raise ValueError(f"a text is not to be written in UTF-8: {error.reason}") from None
    if len(frame) > METHOD_BYTES_MAX:
        raise ValueError(f"{len(frame)} bytes: at most {METHOD_BYTES_MAX} may be asked at once")
    return decode_method(frame[FRAME_HEADER_BYTES:-1])


async def do_method(queues: "QueueBroker", host: "QueueHost", method: Method) -> Any:  # noqa: ANN401 - a method's own answer
    """Have a method done in a vhost; its answer, once what it declares is kept for good.

    AmqpError: it is refused, or could not be kept.
    """
    client = Client(queues, host, _ADMINISTRATOR, {}, FULL_ACCESS, _NOWHERE, lambda reason: None)
    answer = _Answer()
    QueueChannel(answer, client).method(method)
    # Consumers of a deleted queue are told, and queues look at what changed.
    queues.soon()
    return await answer.done

"""Publish a home's messages to a queue: as one batch where the queue's log recognises it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.queue_stores.queue_settings import Published
from headrace.queues.engine.closed_queue import ClosedQueue
from headrace.queues.model.published_properties import traits_of
from headrace.remote_queues.messages import Publish

if TYPE_CHECKING:
    from headrace.queues.awaited import Awaited
    from headrace.queues.engine.delivery_turns import AnyQueue
    from headrace.queues.engine.queue_host import QueueHost


class Taken(NamedTuple):
    """The part of a publish call that a queue has taken."""

    refused: Sequence[int] = ()
    """The numbers of messages that it has refused."""
    room: int | None = None
    """How many messages it has room for: it has taken none; None: it has taken all others."""


def published_to(host: "QueueHost", queue: "AnyQueue", call: Publish, awaited: "Awaited") -> Taken:
    """Publish the messages of a call.

    A batch that the log has already, from an earlier attempt of its home, is not appended again.
    """
    contents = _contents(call)
    numbers = range(call.first, call.first + len(contents))
    if call.producer.producer_id >= 0:
        if isinstance(queue, ClosedQueue) or not queue.takes_batch(contents):
            return Taken(numbers)  # without a batch the log would not recognise it later
        room = host.publish_batch(queue, contents, call.batch, awaited)
        if room is None:
            return Taken(numbers)
        return Taken() if room == len(contents) else Taken(room=room)
    route = (queue.name,)
    refused = [
        number
        for number, content in zip(numbers, contents, strict=True)
        if not host.publish(route, content, awaited, queues=host.queues)
    ]
    return Taken(refused)


def _contents(call: Publish) -> list[Published]:
    """Return the messages of a call with the properties that queues need.

    Neighbours mostly have equal headers, which are decoded once.
    """
    contents: list[Published] = []
    header, traits = b"", None
    for message in call.messages:
        if traits is None or message.header != header:
            header, traits = message.header, traits_of(message.header)
        contents.append(
            Published(
                message,
                traits.priority,
                traits.expiration_ms,
                traits.persistent,
                call.over_length,
            )
        )
    return contents

"""Publish a home's messages to a queue: as one batch where the queue's log recognises it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.queues.engine.hosted_queue import HostedQueue
from headrace.queues.model.published_properties import published, traits_of
from headrace.remote_queues.messages import Publish

if TYPE_CHECKING:
    from headrace.queues.awaited import Awaited
    from headrace.queues.engine.delivery_turns import AnyQueue
    from headrace.queues.engine.queue_host import QueueHost


def published_to(
    host: "QueueHost", queue: "AnyQueue", call: Publish, awaited: "Awaited"
) -> Sequence[int]:
    """Publish the messages of a call; return the numbers that are refused.

    A batch that the log has already, from an earlier attempt of its home, is not appended again.
    """
    contents = [
        published(message, traits_of(message.header))._replace(over_length=call.over_length)
        for message in call.messages
    ]
    numbers = range(call.first, call.first + len(contents))
    known = call.producer.producer_id >= 0
    if known and isinstance(queue, HostedQueue) and queue.takes_batches:
        taken = host.publish_batch(queue, contents, call.batch, awaited)
        return () if taken else numbers
    route = (queue.name,)
    return [
        number
        for number, content in zip(numbers, contents, strict=True)
        if not host.publish(route, content, awaited)
    ]

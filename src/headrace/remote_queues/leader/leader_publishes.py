"""Publish a home's messages to a queue: as one batch where the queue's log recognises it."""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from headrace.queue_stores.queue_settings import PublishedRun
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
    runs = _runs(call)
    count = len(call.messages)
    numbers = range(call.first, call.first + count)
    if call.producer.producer_id >= 0:
        if isinstance(queue, ClosedQueue) or not queue.takes_batch(runs):
            return Taken(numbers)  # without a batch the log would not recognise it later
        room = host.publish_batch(queue, runs, call.batch, awaited)
        if room is None:
            return Taken(numbers)
        return Taken() if room == count else Taken(room=room)
    route = (queue.name,)
    contents = (content for run in runs for content in run.each())
    refused = [
        number
        for number, content in zip(numbers, contents, strict=True)
        if not host.publish(route, content, awaited, queues=host.queues)
    ]
    return Taken(refused)


def _runs(call: Publish) -> list[PublishedRun]:
    """Return the messages of a call in runs with equal properties.

    Neighbours mostly have equal headers, which are decoded once.
    """
    runs: list[PublishedRun] = []
    for header, some in groupby(call.messages, attrgetter("header")):
        messages, traits = list(some), traits_of(header)
        properties = (
            traits.priority, traits.expiration_ms, traits.persistent, call.over_length,
        )  # fmt: skip
        if runs and runs[-1][1:] == properties:
            runs[-1].messages.extend(messages)
        else:
            runs.append(PublishedRun(messages, *properties))
    return runs

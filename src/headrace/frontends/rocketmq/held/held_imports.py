"""Import of messages that wait: delayed ones, and those of transactions that are not decided.

They come as stored messages, whose topic and queue are those they wait for.
"""

import asyncio
import base64
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.frontends.rocketmq.answers import RequestRefused
from headrace.frontends.rocketmq.held.held_topics import QueueName, held_message
from headrace.frontends.rocketmq.held.transactions import first_ask_ms, half_of
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.model.nouns import TopicPartition
from headrace.operations.arguments import Arguments
from headrace.posix.awaiting import called_back
from headrace.wire.rocketmq.store.moved_messages import sent_message_of
from headrace.wire.rocketmq.stored_messages import PulledMessage, decode_messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.frontends.rocketmq.serving import ServedBroker
    from headrace.held.topic_targets import HeldTopicMessage
    from headrace.ports.callbacks import Done
    from headrace.wire.rocketmq.sent_messages import SentMessage


class HeldCount(NamedTuple):
    """How many messages an import has stored."""

    messages: int


@dataclass(frozen=True)
class ImportHeld(Arguments[HeldCount]):
    """Store messages that wait. On disk when it returns; a repeated import stores them again."""

    OPERATION = "rocketmq.held.import"
    SECRETS = frozenset({"messages"})
    messages: str
    """Base64 of stored messages, one after another."""
    times: str = ""
    """When each is due, ms since 1970, separated by commas; empty: their producers decide."""


async def import_held(broker: "ServedBroker", asked: ImportHeld) -> HeldCount:
    """Answer ImportHeld. Raises ApiError."""
    try:
        messages = list(decode_messages(base64.b64decode(asked.messages, validate=True)))
        times = [int(text) for text in asked.times.split(",")] if asked.times else None
        if times is not None and len(times) != len(messages):
            raise ValueError(f"{len(messages)} messages, but {len(times)} times")
        if times is None:
            stores = [_half_store(broker, message) for message in messages]
        else:
            stores = [
                partial(broker.held.delay, _held(broker, message, sent_message_of(message)), due_ms)
                for message, due_ms in zip(messages, times, strict=True)
            ]
    except (Malformed, RequestRefused, ValueError) as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"not held messages: {error}") from None
    await asyncio.gather(*map(called_back, stores))
    return HeldCount(len(stores))


def _half_store(
    broker: "ServedBroker", message: PulledMessage
) -> "Callable[[Done[int | ApiError]], None]":
    now_ms, after_ms = broker.broker.clock.wall_ms(), broker.settings.asked_after_ms
    waiting = _held(broker, message, half_of(sent_message_of(message)))
    return partial(
        broker.held.half_message, waiting, first_ask_ms(message.properties, now_ms, after_ms)
    )


def _held(
    broker: "ServedBroker", message: PulledMessage, sent: "SentMessage"
) -> "HeldTopicMessage":
    """Return a message as it waits. Raises RequestRefused, ValueError."""
    topic = broker.topic(message.topic.decode())
    if not 0 <= message.queue_id < topic.queues:
        raise ValueError(f"topic {topic.name} has no queue {message.queue_id}")
    place = TopicPartition(topic.info.name, message.queue_id)
    return held_message(place, QueueName(topic.name, message.queue_id), sent)

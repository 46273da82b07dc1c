"""RESUME_CHECK_HALF_MESSAGE (323): a message of a transaction that was given up waits again.

A message whose producer never decided is in a topic for operators. Once its producer is there
again, an operator has it asked: the message is stored as an undecided one, asked about from then
on as a new one is, and stays in that topic.
"""

from functools import partial
from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.answers import RemotingAnswer, RequestRefused
from headrace.frontends.rocketmq.held.held_topics import GIVEN_UP_TOPIC, QueueName, held_message
from headrace.frontends.rocketmq.held.lookup import find_message
from headrace.model.errors import ApiError, Malformed
from headrace.model.nouns import TopicPartition
from headrace.operations.permissions import AdminOperation
from headrace.posix.awaiting import called_back
from headrace.security.authorizer import Operation
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.delays import REAL_QUEUE_ID, REAL_TOPIC
from headrace.wire.rocketmq.later_properties import CHECK_TIMES
from headrace.wire.rocketmq.message_ids import physical_offset_of
from headrace.wire.rocketmq.properties import find_property, without_property
from headrace.wire.rocketmq.record_header import NAME, decode_facts
from headrace.wire.rocketmq.requests import Fields
from headrace.wire.rocketmq.sent_messages import SentMessage

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall
    from headrace.record.record import Record


def resume_half(call: "RemotingCall") -> None:
    """Answer RESUME_CHECK_HALF_MESSAGE (323) once the message is undecided again."""
    text = Fields(call.command).text("msgId")
    call.require_admin(AdminOperation.ALTER_CLUSTER_CONFIGS)
    try:
        physical_offset = physical_offset_of(text)
    except Malformed as error:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None
    call.change({"msgId": text}, _resume(call, physical_offset), RemotingAnswer())


async def _resume(call: "RemotingCall", physical_offset: int) -> None:
    """Store a message as undecided. Raises RequestRefused, ApiError."""
    broker = call.broker
    found = await find_message(broker, physical_offset)
    sent = None if found is None or found.topic.name != GIVEN_UP_TOPIC else _sent(found.record)
    name, queue = (
        b"" if sent is None else find_property(sent.facts.properties, wanted) or b""
        for wanted in (REAL_TOPIC, REAL_QUEUE_ID)
    )
    if sent is None or not name or not queue.isdigit():
        text = f"no message of {GIVEN_UP_TOPIC} is at {physical_offset}"
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, text)
    topic = broker.topic(name.decode("utf-8", "replace"))
    broker.require_topic(call.identity, Operation.WRITE, topic)
    properties = without_property(sent.facts.properties, CHECK_TIMES)
    sent = sent._replace(facts=sent.facts._replace(properties=properties))
    place = TopicPartition(topic.info.name, int(queue))
    held = held_message(place, QueueName(topic.name, place.partition), sent)
    ask_ms = broker.broker.clock.wall_ms() + broker.settings.asked_after_ms
    stored = await called_back(partial(broker.held.half_message, held, ask_ms))
    if isinstance(stored, ApiError):
        raise stored


def _sent(record: "Record") -> SentMessage | None:
    """Return a stored message as it was sent, None if another protocol's producer wrote it."""
    header = next((value for name, value in record.headers if name == NAME), None)
    facts = decode_facts(header)
    return None if facts is None else SentMessage(record.value or b"", facts)

"""Stored messages of a RocketMQ broker as those that a broker of ours stores.

The body is decompressed, and the properties that each broker adds itself are left out: a pull adds
them again. The time of storing becomes the record's.
"""

from headrace.record.record import Record, new_record
from headrace.wire.rocketmq.delays import REAL_QUEUE_ID, REAL_TOPIC
from headrace.wire.rocketmq.properties import KEYS, find_property, without_property
from headrace.wire.rocketmq.record_header import NAME, STORED_FLAGS, MessageFacts, encode_facts
from headrace.wire.rocketmq.sent_messages import MessageIllegal, SentMessage, plain_body
from headrace.wire.rocketmq.stored_messages import PulledMessage

_ADDED = (b"MSG_REGION", b"CLUSTER", b"TRACE_ON")
"""Properties that a pull adds."""


def moved_message(message: PulledMessage) -> PulledMessage:
    """Return a message with a plain body and the client's properties.

    MessageIllegal: the body does not decompress.
    """
    properties = message.properties
    for name in _ADDED:
        properties = without_property(properties, name)
    return message._replace(
        body=plain_body(message.body, message.system_flag),
        properties=properties,
        system_flag=message.system_flag & STORED_FLAGS,
    )


def awaited_message(message: PulledMessage) -> PulledMessage:
    """Return a message that waits, with the topic and the queue that it waits for as its own.

    MessageIllegal: it does not say them.
    """
    topic = find_property(message.properties, REAL_TOPIC)
    queue = find_property(message.properties, REAL_QUEUE_ID)
    if not topic or queue is None or not queue.isdigit():
        raise MessageIllegal("it does not say for which queue it waits")
    return message._replace(topic=topic, queue_id=int(queue))


def sent_message_of(message: PulledMessage) -> SentMessage:
    """Return a moved message as one to be stored."""
    facts = MessageFacts(
        message.flag, message.system_flag, message.born_at_ms, message.reconsume_times,
        message.born_host, message.properties,
    )  # fmt: skip
    return SentMessage(message.body, facts)


def record_of(message: PulledMessage) -> Record:
    """Return the record that stores a moved message."""
    body, facts = sent_message_of(message)
    key = find_property(facts.properties, KEYS)
    return new_record(body, key or None, message.stored_at_ms, ((NAME, encode_facts(facts)),))

"""Properties that the broker adds to messages which are retried, held, asked about or committed.

All others stay byte for byte, in their order. A property is left out where the others leave no
room for it, but for those that a retry needs.
"""

from headrace.wire.rocketmq.delays import DELAY, REAL_QUEUE_ID, REAL_TOPIC
from headrace.wire.rocketmq.properties import (
    PROPERTIES_BYTES_MAX,
    UNIQUE_KEY,
    find_property,
    with_property,
    with_property_if_room,
    without_property,
)
from headrace.wire.rocketmq.sent_messages import MessageIllegal

RETRY_TOPIC = b"RETRY_TOPIC"
ORIGIN_MESSAGE_ID = b"ORIGIN_MESSAGE_ID"
"""The topic and the id of a message's first attempt."""
TRANSACTION_ID = b"__transactionId__"
CHECK_TIMES = b"TRANSACTION_CHECK_TIMES"
"""How often the producer of a message was asked about it."""
WAITS_FOR_STORE = b"WAIT"


def sent_back_properties(properties: bytes, topic: str, origin_id: str, level: int) -> bytes:
    """Return the properties of a message that is sent back from a topic; level 0: it is dead.

    The topic and the id of the first attempt stay. Raises MessageIllegal: they leave no room.
    """
    if find_property(properties, RETRY_TOPIC) is None:
        properties = with_property(properties, RETRY_TOPIC, topic.encode())
    properties = with_property(properties, DELAY, b"%d" % level)
    if len(properties) > PROPERTIES_BYTES_MAX:
        raise MessageIllegal(
            f"the message properties have {len(properties)} bytes, max {PROPERTIES_BYTES_MAX}"
        )
    if not find_property(properties, ORIGIN_MESSAGE_ID):
        properties = with_property_if_room(properties, ORIGIN_MESSAGE_ID, origin_id.encode())
    return with_property_if_room(properties, WAITS_FOR_STORE, b"false")


def held_properties(properties: bytes, topic: str, queue_id: int) -> bytes:
    """Return the properties of a message that waits, with the queue for which it does."""
    properties = with_property_if_room(properties, REAL_TOPIC, topic.encode())
    return with_property_if_room(properties, REAL_QUEUE_ID, b"%d" % queue_id)


def half_properties(properties: bytes) -> bytes:
    """Return the properties of a message that is undecided."""
    unique = find_property(properties, UNIQUE_KEY)
    return (
        properties if unique is None else with_property_if_room(properties, TRANSACTION_ID, unique)
    )


def asked_properties(properties: bytes, count: int) -> bytes:
    """Return the properties of a message about which a producer was asked; 0: never."""
    return with_property_if_room(properties, CHECK_TIMES, b"%d" % count) if count else properties


def committed_properties(properties: bytes, asked: int) -> bytes:
    """Return the properties of a message that is committed, after so many questions."""
    properties = without_property(properties, REAL_TOPIC)
    return asked_properties(without_property(properties, REAL_QUEUE_ID), asked)

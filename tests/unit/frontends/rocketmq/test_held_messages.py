"""Held messages as messages of RocketMQ: also those that other programs wrote into the log."""

from headrace.frontends.rocketmq.held.held_topics import QueueName, held_message, sent_message
from headrace.held.held_records import HeldMessage
from headrace.model.nouns import TopicPartition
from headrace.wire.rocketmq.record_header import MessageFacts
from headrace.wire.rocketmq.sent_messages import SentMessage

PLACE = TopicPartition("orders", 3)


def test_a_held_message_comes_back_with_its_queue() -> None:
    facts = MessageFacts(7, 0, 5, 2, bytes(range(8)), b"KEYS\x01k\x02")
    held = held_message(PLACE, QueueName("orders", 3), SentMessage(b"body", facts))
    assert (held.target, held.body) == (PLACE, b"body")
    properties = b"KEYS\x01k\x02REAL_TOPIC\x01orders\x02REAL_QID\x013\x02"
    assert sent_message(held, 9) == SentMessage(b"body", facts._replace(properties=properties))


def test_properties_without_room_stay_as_they_are() -> None:
    full = b"a\x01" + b"x" * 32_763 + b"\x02"
    facts = MessageFacts(0, 0, 5, 0, bytes(8), full)
    held = held_message(PLACE, QueueName("orders", 3), SentMessage(b"body", facts))
    assert sent_message(held, 9).facts.properties == full


def test_a_message_of_another_program_has_no_properties() -> None:
    expected = SentMessage(b"x", MessageFacts(0, 0, 9, 0, bytes(8), b""))
    assert sent_message(HeldMessage(PLACE, b"x"), 9) == expected
    foreign = HeldMessage(PLACE, b"x", (("rocketmq", b"short"),))
    assert sent_message(foreign, 9) == expected

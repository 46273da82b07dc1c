"""Questions to a broker on the new directory, which store all that its logs do not say.

Topics' and groups' settings, offsets, and the messages that wait, as operations with arguments.
"""

import base64
from collections.abc import Iterator
from typing import NamedTuple

from headrace.logtools.rocketmq.plan import MovePlan
from headrace.logtools.rocketmq.waiting import Waiting
from headrace.wire.rocketmq.fastjson import FastJson, encode_body
from headrace.wire.rocketmq.group_configs import group_config_json
from headrace.wire.rocketmq.stored_messages import encode_message
from headrace.wire.rocketmq.topic_configs import topic_config_json

CHUNK_BYTES = 512 * 1024
"""Bytes of waiting messages in one question, unless one message has more."""
_OFFSETS_AT_ONCE = 10_000
_TOPICS_AT_ONCE = 200


class Question(NamedTuple):
    """An operation, its arguments, and how many waiting messages it stores."""

    operation: str
    arguments: dict[str, object]
    waiting: int = 0


def questions(plan: MovePlan) -> Iterator[Question]:
    """Yield the operations in the order in which they are to be run."""
    for at in range(0, len(plan.topics), _TOPICS_AT_ONCE):
        topics: dict[str, FastJson] = {
            topic.name: topic_config_json(topic.name, topic.config, len(topic.queues))
            for topic in plan.topics[at : at + _TOPICS_AT_ONCE]
        }
        text = _text("topicConfigTable", topics)
        yield Question("rocketmq.topics.import", {"topics": text, "found": True})
    groups: dict[str, FastJson] = {
        name: group_config_json(config) for name, config in plan.groups.items()
    }
    text = _text("subscriptionGroupTable", groups)
    yield Question("rocketmq.groups.import", {"groups": text})
    for at in range(0, len(plan.offsets), _OFFSETS_AT_ONCE):
        offsets: dict[str, dict[str, FastJson]] = {}
        for group, topic, queue, offset in plan.offsets[at : at + _OFFSETS_AT_ONCE]:
            offsets.setdefault(f"{topic}@{group}", {})[str(queue)] = offset
        text = _text("offsetTable", dict(offsets))
        yield Question("rocketmq.offsets.import", {"offsets": text})
    for messages in _chunks(plan.waiting.delayed()):
        yield _held(messages)
    for messages in _chunks(plan.waiting.undecided()):
        yield _held(messages)


def _text(table: str, rows: dict[str, FastJson]) -> str:
    return encode_body({table: rows}).decode()


def _held(messages: list[Waiting]) -> Question:
    content = b"".join(encode_message(each.message) for each in messages)
    times = ",".join(str(each.due_ms) for each in messages if each.due_ms >= 0)
    arguments = {"messages": base64.b64encode(content).decode(), "times": times}
    return Question("rocketmq.held.import", dict(arguments), len(messages))


def _chunks(messages: Iterator[Waiting]) -> Iterator[list[Waiting]]:
    """Yield messages together, as many as one question has; a large one comes alone."""
    some: list[Waiting] = []
    size = 0
    for each in messages:
        more = len(each.message.body) + len(each.message.properties)
        if some and size + more > CHUNK_BYTES:
            yield some
            some, size = [], 0
        some.append(each)
        size += more
    if some:
        yield some

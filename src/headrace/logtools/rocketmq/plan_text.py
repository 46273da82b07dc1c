"""A plan of a move as JSON, and as lines."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from headrace.logtools.rocketmq.plan import MovedTopic, MovePlan

TITLES = ("TOPIC", "QUEUES", "READ", "WRITE", "PERM", "MESSAGES", "BYTES")
_DAMAGES_SHOWN = 20


def topic_cells(topic: MovedTopic) -> list[str | int]:
    """Return a topic's values below `TITLES`."""
    partitions = len(topic.queues)
    return [
        topic.name, partitions, topic.config.read(partitions), topic.config.written(partitions),
        topic.config.permission, sum(queue.messages for queue in topic.queues),
        sum(queue.bytes for queue in topic.queues),
    ]  # fmt: skip


def plan_lines(plan: MovePlan) -> Iterator[str]:
    """Yield the lines below the table of topics."""
    yield (
        f"{plan.messages:,} messages, {len(plan.groups):,} groups, {len(plan.offsets):,} offsets,"
        f" {plan.delayed:,} delayed messages, {plan.undecided:,} undecided messages"
    )
    if plan.raised:
        text = "are of messages that are expired: those groups go on at their queue's first message"
        yield f"{plan.raised:,} of the offsets {text}"
    for each in plan.left_out:
        yield f"not moved: {each.what} ({each.count:,}): {each.why}"
    for damage in plan.damages[:_DAMAGES_SHOWN]:
        yield f"damaged: {damage.place}: {damage.why}"
    if plan.damaged > _DAMAGES_SHOWN:
        yield f"damaged: {plan.damaged - _DAMAGES_SHOWN:,} more messages"


def plan_json(plan: MovePlan, data: str) -> dict[str, Any]:
    """Return a plan for scripts (docs/schemas/rocketmq-move.json)."""
    topics = []
    for topic in plan.topics:
        name, _, read, write, permission, *_ = topic_cells(topic)
        topics.append(
            {
                "topic": name,
                "read_queues": read,
                "write_queues": write,
                "permission": permission,
                "queues": [queue._asdict() for queue in topic.queues],
            }
        )
    return {
        "data": data,
        "topics": topics,
        "messages": plan.messages,
        "groups": sorted(plan.groups),
        "offsets": [entry._asdict() for entry in plan.offsets],
        "raised_offsets": plan.raised,
        "delayed_messages": plan.delayed,
        "undecided_messages": plan.undecided,
        "left_out": [asdict(each) for each in plan.left_out],
        "damaged_messages": plan.damaged,
        "damages": [{"place": each.place, "why": each.why} for each in plan.damages],
    }

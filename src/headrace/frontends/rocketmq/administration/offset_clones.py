"""CLONE_GROUP_OFFSET (314): a group gets the offsets of another one."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.answers import RemotingAnswer
from headrace.model.errors import ApiError, ErrorCode
from headrace.posix.awaiting import called_back
from headrace.security.authorizer import Operation
from headrace.wire.rocketmq.requests import Fields
from headrace.wire.rocketmq.topic_names import rocketmq_name

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall
    from headrace.frontends.rocketmq.serving import ServedBroker, ServedTopic


def clone_offsets(call: "RemotingCall") -> None:
    """Answer CLONE_GROUP_OFFSET (314) once the offsets of `topic`, or of all, are on disk.

    Topics that do not exist are left out, and so are those that the live members of the source do
    not subscribe to, unless `offline` is true.
    """
    fields = Fields(call.command)
    source, target = fields.text("srcGroup"), fields.text("destGroup")
    broker = call.broker
    broker.require_group(call.identity, source, Operation.DESCRIBE)
    broker.require_group(call.identity, target)
    broker.check_group_is_free(target)
    topics = _topics(broker, source, fields.text("topic", ""), fields.boolean("offline"))
    for topic in topics:
        broker.require_topic(call.identity, Operation.READ, topic)
    names: list[str] = [topic.name for topic in topics]
    detail = {"group": target, "from": source, "topics": ",".join(names)}
    call.change(detail, _clone(broker, source, target, topics), RemotingAnswer())


def _topics(broker: "ServedBroker", source: str, wanted: str, offline: bool) -> list["ServedTopic"]:
    stored = broker.commits().offsets(source)
    names = [wanted] if wanted else [name for each in stored if (name := rocketmq_name(each))]
    subscribed = {} if offline else broker.members.topics(source)
    found = (broker.topic_if_any(name) for name in names)
    return [
        topic
        for topic in found
        if topic is not None and (not subscribed or topic.name in subscribed)
    ]


async def _clone(
    broker: "ServedBroker", source: str, target: str, topics: list["ServedTopic"]
) -> None:
    """Store the offsets that the source has. ApiError: at least one is not stored."""
    stores = []
    for topic in topics:
        for queue in range(topic.queues):
            offset = broker.offsets.read(source, topic.info.name, queue)
            if offset is not None:
                place = target, topic.info.name, queue, offset
                stores.append(called_back(partial(broker.offsets.store, *place)))
    for code in await asyncio.gather(*stores):
        if code is not ErrorCode.NONE:
            raise ApiError(
                code, f"not all offsets of group {target} are stored; repeat the request"
            )

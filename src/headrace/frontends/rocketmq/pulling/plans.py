"""`PullPlan`: what all pulls of a group from one queue have in common, checked once."""

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from headrace.frontends.rocketmq.answers import FORBIDDEN, TOPIC_FORBIDDEN, RequestRefused
from headrace.frontends.rocketmq.filters import PullFilter, filter_of
from headrace.frontends.rocketmq.pulling.reading import READ_BYTES, ReadLimits
from headrace.security.authorizer import Operation
from headrace.subscriptions.group_offsets import QueuePlace
from headrace.subscriptions.tag_filters import TAG_TYPE
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.pulled_messages import PulledQueue
from headrace.wire.rocketmq.requests import PullFlag, PullRequest

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall
    from headrace.frontends.rocketmq.serving import ServedBroker, ServedTopic
    from headrace.subscriptions.members import TopicSubscription
    from headrace.wire.rocketmq.group_configs import GroupConfig

_HELP = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
NO_MEMBERS = f"the consumer's group info not exist{_HELP}"
NO_SUBSCRIPTION = f"the consumer's subscription not exist{_HELP}"
MESSAGES_MAX = 1024
"""Messages of one pull at most; clients ask for 32."""
QUEUES_MAX = 1024
"""Queues whose messages' fixed fields are kept."""


class PullPlan(NamedTuple):
    """A pull, checked, but for its offsets."""

    request: PullRequest
    topic: "ServedTopic"
    wanted: PullFilter
    place: QueuePlace
    limits: ReadLimits
    group_config: "GroupConfig | None"
    subscription: "TopicSubscription | None"
    """Of the group's heartbeat, where the filter is from it."""

    def is_current(self, broker: "ServedBroker") -> bool:
        """Return whether nothing has changed since the checks; no, where permissions are."""
        request, topic = self.request, self.topic
        group = request.consumer_group
        return (
            broker.broker.authorizer.allows_all
            and broker.broker.image.topics.get(topic.info.name) is topic.info
            and broker.config_of(topic.info) is topic.config
            and broker.configs.groups.get(group) is self.group_config
            and (
                self.subscription is None
                or broker.members.subscription(group, request.topic) is self.subscription
            )
        )


def plan_of(call: "RemotingCall", request: PullRequest, topic: "ServedTopic") -> PullPlan:
    """Check a pull and return its plan. Raises RequestRefused."""
    broker = call.broker
    broker.require_topic(call.identity, Operation.READ, topic)
    broker.note_group(request.consumer_group)
    if topic.config is not None and not topic.config.is_readable:
        text = f"the topic[{topic.name}] pulling message is forbidden"
        raise RequestRefused(ResponseCode.NO_PERMISSION, text, {FORBIDDEN: TOPIC_FORBIDDEN})
    queues = topic.read_queues
    if not 0 <= request.queue_id < queues:
        text = f"queueId[{request.queue_id}] is illegal, topic:[{topic.name}] has {queues}"
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, text)
    subscription = None
    if not request.system_flag & PullFlag.SUBSCRIPTION:
        subscription = _subscription(broker, request)
    wanted = _filter(request, subscription)
    limits = ReadLimits(
        min(max(request.messages_max, 1), MESSAGES_MAX),
        min(max(request.bytes_max, 1), READ_BYTES),
        wanted.records_max,
    )
    return PullPlan(
        request,
        topic,
        wanted,
        (request.consumer_group, topic.info.name, request.queue_id),
        limits,
        broker.configs.groups.get(request.consumer_group),
        subscription,
    )


def _subscription(broker: "ServedBroker", request: PullRequest) -> "TopicSubscription":
    known = broker.members.subscription(request.consumer_group, request.topic)
    if known is None:
        raise RequestRefused(
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            NO_SUBSCRIPTION if broker.members.topics(request.consumer_group) else NO_MEMBERS,
        )
    return known


def _filter(request: PullRequest, known: "TopicSubscription | None") -> PullFilter:
    """Return the pull's own filter, or that of the group's heartbeat. Raises RequestRefused.

    A client that shares the queues again gives its subscription a new number, and its heartbeat
    with that number may fail: Java's does if another heartbeat is under way. RocketMQ then answers
    SUBSCRIPTION_NOT_LATEST until the next heartbeat, for up to 30 s. Here such a pull gets all
    messages: clients filter tags themselves, too. They do not filter by SQL92, so a pull with an
    older SQL92 filter, or with one in place of tags, is answered as by RocketMQ.
    """
    if known is None:
        return filter_of(request.expression_type, request.subscription)
    if known.version >= request.subscription_version:
        return filter_of(known.expression_type, known.expression)
    if {known.expression_type, request.expression_type} <= {TAG_TYPE, ""}:
        return filter_of(TAG_TYPE, "")
    raise RequestRefused(
        ResponseCode.SUBSCRIPTION_NOT_LATEST,
        f"the filter of group {request.consumer_group} for {request.topic} is older than the pull; "
        "the next heartbeat brings the newer one",
    )


def queue_of(call: "RemotingCall", topic: "ServedTopic", queue_id: int, number: int) -> PulledQueue:
    """Return a queue whose messages a client gets; `number`: that of its partition."""
    return _queue(topic.name, queue_id, number, call.peer.store_host, call.broker.added_properties)


@lru_cache(QUEUES_MAX)
def _queue(
    topic: str, queue_id: int, number: int, store_host: bytes, added_properties: bytes
) -> PulledQueue:
    return PulledQueue(topic.encode(), queue_id, number, store_host, added_properties)

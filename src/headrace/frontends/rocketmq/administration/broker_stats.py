"""Statistics of the broker by RocketMQ's names (315): messages of a minute, an hour, a day."""

from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.answers import RemotingAnswer, RequestRefused
from headrace.operations.permissions import AdminOperation
from headrace.subscriptions.message_rates import MessageRate, RateSpan
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.fastjson import FastJson, encode_body
from headrace.wire.rocketmq.requests import Fields

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall
    from headrace.frontends.rocketmq.serving import ServedBroker

TOPIC_STORED, GROUP_PULLED = "TOPIC_PUT_NUMS", "GROUP_GET_NUMS"
BROKER_STORED, BROKER_PULLED = "BROKER_PUT_NUMS", "BROKER_GET_NUMS"
_SPANS = {
    "statsDay": RateSpan.DAY,
    "statsHour": RateSpan.HOUR,
    "statsMinute": RateSpan.MINUTE,
}


def broker_stats(call: "RemotingCall") -> RemotingAnswer:
    """Answer VIEW_BROKER_STATS_DATA (315): a sum and a rate for each of three times.

    Of a topic, of `TOPIC@GROUP` or of the cluster; RocketMQ's other statistics, which tell sizes
    and latencies, do not exist. `avgpt`, the messages of one call, is not counted.
    """
    fields = Fields(call.command)
    name, key = fields.text("statsName"), fields.text("statsKey")
    call.require_admin(AdminOperation.DESCRIBE_CLUSTER_CONFIGS)
    spans: dict[str, FastJson] = {}
    for shown, span in _SPANS.items():
        rate = _rate(call.broker, name, key, span)
        if rate is None:
            text = f"The stats <{name}> <{key}> not exist"
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, text)
        spans[shown] = {"avgpt": 0.0, "sum": rate.messages, "tps": rate.per_second}
    return RemotingAnswer(body=encode_body(spans))


def _rate(broker: "ServedBroker", name: str, key: str, span: RateSpan) -> MessageRate | None:
    """Return the rate that a statistic's name and key mean, None if there is no such one."""
    traffic = broker.traffic
    if name in (BROKER_STORED, BROKER_PULLED) and key == broker.settings.cluster:
        return (
            traffic.stored_rate("", span)
            if name == BROKER_STORED
            else traffic.pulled_rate(span=span)
        )
    topic_name, _, group = key.partition("@")
    topic = broker.topic_if_any(topic_name)
    if topic is None:
        return None
    if name == TOPIC_STORED and not group:
        return traffic.stored_rate(topic.info.name, span)
    if name == GROUP_PULLED and group:
        return traffic.pulled_rate(group, topic.info.name, span)
    return None

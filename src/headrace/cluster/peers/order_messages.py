"""Encode a controller's orders as Kafka 3.9's inter-broker requests, and decode them. Pure.

    LeaderAndIsr     replicas to lead or to follow
    UpdateMetadata   metadata that clients are shown; a deleted topic's partitions have leader -2
    StopReplica      replicas to stop, and perhaps delete

One `Orders` becomes up to three requests, in this order. None of them carries a topic's settings:
the receiving broker reads those of an unknown topic in the store.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from headrace.broker.metadata_image import (
    NO_LEADER,
    BrokerInfo,
    Endpoint,
    ImageDelta,
    PartitionInfo,
    TopicInfo,
)
from headrace.cluster.decisions.facts import ClusterFacts, with_epoch
from headrace.cluster.decisions.orders import Follow, Lead, Orders, Replication, Stop
from headrace.cluster.peers.peer_call import Fields
from headrace.config.listeners import PROTOCOLS
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition, shown_as_internal
from headrace.wire.kafka.api import ApiKey

LEADER_OF_WHAT_GOES = BrokerId(-2)
"""Leader id of each partition of a topic that is being deleted (Kafka's LeaderDuringDelete)."""
_INCREMENTAL, _FULL = 1, 2
"""Request types: the request contains changes only; or what it does not name is removed."""
_NO_ID = bytes(16)
PARTITIONS_OF_TOPIC_MAX = 100_000
"""A partition index from this on is refused: all lower indexes would be shown to clients too."""


class Told(NamedTuple):
    """A request of a controller: its API key and its fields."""

    key: ApiKey
    fields: Fields


class Teller(NamedTuple):
    """The sending controller's broker id, and the name of the inter-broker listener."""

    controller: BrokerId
    listener: str


def requests_of(orders: Orders, facts: ClusterFacts, teller: Teller) -> list[Told]:
    """Return orders as requests, in the order in which they must be sent."""
    head = {
        "controllerId": teller.controller,
        "isKRaftController": False,
        "controllerEpoch": orders.controller_epoch,
        "brokerEpoch": orders.broker_epoch,
    }
    held = [order.replication for order in orders.orders if not isinstance(order, Stop)]
    stops = [order for order in orders.orders if isinstance(order, Stop)]
    told: list[Told] = []
    if held:
        fields = _leader_and_isr(held, orders.controller_epoch, facts, teller.listener)
        told.append(Told(ApiKey.LEADER_AND_ISR, head | fields))
    if any(orders.delta[:3]) or orders.delta.brokers is not None:
        shown = _update_metadata(orders, facts)
        told.append(Told(ApiKey.UPDATE_METADATA, head | shown))
    if stops:
        told.append(Told(ApiKey.STOP_REPLICA, head | _stop_replica(stops)))
    return told


def _leader_and_isr(
    held: Sequence[Replication], controller_epoch: int, facts: ClusterFacts, listener: str
) -> dict[str, Any]:
    leaders = {replication.leader for replication in held}
    return {
        "type": _INCREMENTAL,
        "topicStates": [
            {
                "topicName": name,
                "topicId": topic_id,
                "partitionStates": [
                    {
                        "partitionIndex": replication.topic_partition.partition,
                        "controllerEpoch": controller_epoch,
                        "leader": replication.leader,
                        "leaderEpoch": replication.leader_epoch,
                        "isr": replication.isr,
                        "partitionEpoch": replication.partition_epoch,
                        "replicas": replication.replicas,
                        "addingReplicas": replication.adding,
                        "removingReplicas": (),
                        "isNew": replication.is_new,
                        "leaderRecoveryState": int(replication.recovering),
                    }
                    for replication in some
                ],
            }
            for (name, topic_id), some in groupby(held, _topic_of)
        ],
        "liveLeaders": [
            {"brokerId": broker.broker_id, "hostName": endpoint.host, "port": endpoint.port}
            for broker in facts.brokers.values()
            if broker.broker_id in leaders
            for endpoint in (broker.endpoint(listener),)
            if endpoint is not None
        ],
    }


def _topic_of(replication: Replication) -> tuple[str, bytes]:
    return replication.topic_partition.topic, replication.topic_id


def _stop_replica(stops: Sequence[Stop]) -> dict[str, Any]:
    return {
        "topicStates": [
            {
                "topicName": name,
                "partitionStates": [
                    {
                        "partitionIndex": stop.topic_partition.partition,
                        "leaderEpoch": stop.leader_epoch,
                        "deletePartition": stop.delete,
                    }
                    for stop in some
                ],
            }
            for name, some in groupby(stops, lambda stop: stop.topic_partition.topic)
        ]
    }


def _update_metadata(orders: Orders, facts: ClusterFacts) -> dict[str, Any]:
    delta = orders.delta
    shown: dict[str, Iterable[PartitionInfo]] = {
        **{name: _going(facts, name) for name in delta.removed},
        **delta.partitions,
        **{topic.name: topic.partitions for topic in delta.topics},
    }
    brokers = facts.brokers.values() if delta.brokers is None else delta.brokers
    return {
        "type": _FULL if delta.is_whole else _INCREMENTAL,
        "topicStates": [
            {
                "topicName": name,
                "topicId": facts.topics[name].node.topic_id or _NO_ID,
                "partitionStates": [
                    _shown_fields(orders.controller_epoch, facts, name, partition)
                    for partition in partitions
                ],
            }
            for name, partitions in shown.items()
            if name in facts.topics
        ],
        "liveBrokers": [_broker_fields(broker) for broker in brokers],
    }


def _going(facts: ClusterFacts, name: str) -> Iterator[PartitionInfo]:
    """Yield the partitions of a topic that is being deleted, with leader -2 as in Kafka."""
    topic = facts.topics.get(name)
    for index in () if topic is None else topic.node.partitions:
        yield PartitionInfo(index, LEADER_OF_WHAT_GOES, LeaderEpoch(0), (), ())


def _shown_fields(
    controller_epoch: int, facts: ClusterFacts, name: str, partition: PartitionInfo
) -> dict[str, Any]:
    return {
        "partitionIndex": partition.index,
        "controllerEpoch": controller_epoch,
        "leader": partition.leader,
        "leaderEpoch": partition.leader_epoch,
        "isr": partition.isr,
        "zkVersion": facts.topics[name].versions.get(partition.index, 0),
        "replicas": partition.replicas,
        "offlineReplicas": partition.offline,
    }


def _broker_fields(broker: BrokerInfo) -> dict[str, Any]:
    return {
        "id": broker.broker_id,
        "endpoints": [
            {
                "port": endpoint.port,
                "host": endpoint.host,
                "listener": endpoint.listener,
                "securityProtocol": PROTOCOLS.index(endpoint.protocol),
            }
            for endpoint in broker.endpoints
        ],
        "rack": broker.rack,
    }


# --- and back ------------------------------------------------------------------------------------


def led_and_followed(request: Fields, own: BrokerId) -> Orders:
    """Decode a LeaderAndIsr request: `Lead` where broker `own` is the leader, else `Follow`."""
    orders = [
        Lead(replication) if replication.leader == own else Follow(replication)
        for topic in request["topicStates"]
        for replication in _replications(topic)
    ]
    return Orders(request["controllerEpoch"], request["brokerEpoch"], orders)


def _replications(topic: Fields) -> Iterator[Replication]:
    for state in topic["partitionStates"]:
        yield Replication(
            TopicPartition(topic["topicName"], state["partitionIndex"]),
            topic["topicId"],
            BrokerId(state["leader"]),
            LeaderEpoch(state["leaderEpoch"]),
            tuple(map(BrokerId, state["isr"])),
            tuple(map(BrokerId, state["replicas"])),
            state["partitionEpoch"],
            state["isNew"],
            state.get("leaderRecoveryState") == 1,  # not in versions before 6
            tuple(map(BrokerId, state.get("addingReplicas", ()))),  # not in versions before 3
        )


def stopped(request: Fields, topics: Mapping[str, TopicInfo]) -> Orders:
    """Decode a StopReplica request; topic ids, which it lacks, are taken from `topics`."""
    orders = [
        Stop(
            TopicPartition(topic["topicName"], state["partitionIndex"]),
            topics[topic["topicName"]].topic_id if topic["topicName"] in topics else _NO_ID,
            LeaderEpoch(state["leaderEpoch"]),
            state["deletePartition"],
        )
        for topic in request["topicStates"]
        for state in topic["partitionStates"]
    ]
    return Orders(request["controllerEpoch"], request["brokerEpoch"], orders)


def unknown_topics(request: Fields, topics: Mapping[str, TopicInfo]) -> list[str]:
    """Return the names of the request's topics that `topics` lacks or has with another id.

    `request`: LeaderAndIsr or UpdateMetadata.
    """
    return [
        topic["topicName"]
        for topic in request["topicStates"]
        if topic["topicName"] not in topics
        or topics[topic["topicName"]].topic_id != topic["topicId"]
    ]


def shown(
    request: Fields,
    topics: Mapping[str, TopicInfo],
    configs: Mapping[str, Mapping[str, str]],
    registered: Mapping[BrokerId, BrokerInfo],
) -> ImageDelta:
    """Decode an UpdateMetadata request into a delta of the metadata image.

    `topics`: those of the image; `configs`: settings of topics that it lacks; `registered`: brokers
    with their epochs, which the request lacks. ApiError INVALID_REQUEST: a partition index is out
    of range.
    """
    removed: list[str] = []
    whole: list[TopicInfo] = []
    partitions: dict[str, list[PartitionInfo]] = {}
    for topic in request["topicStates"]:
        name, topic_id = topic["topicName"], topic["topicId"]
        states = topic["partitionStates"]
        known = topics.get(name)
        if any(state["leader"] == LEADER_OF_WHAT_GOES for state in states):
            removed.append(name)
            continue
        found = {state["partitionIndex"]: _partition_shown(state) for state in states}
        if not all(0 <= index < PARTITIONS_OF_TOPIC_MAX for index in found):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if known is None or known.topic_id != topic_id:
            if known is not None:
                removed.append(name)
            whole.append(_topic_shown(name, topic_id, (), found, configs.get(name, {})))
        elif max(found, default=-1) >= len(known.partitions):
            whole.append(_topic_shown(name, topic_id, known.partitions, found, known.config))
        else:
            partitions[name] = list(found.values())
    brokers = [_broker_shown(broker, registered) for broker in request["liveBrokers"]]
    controller, is_whole = BrokerId(request["controllerId"]), request.get("type") == _FULL
    return ImageDelta(whole, removed, partitions, brokers, controller, is_whole)


def _partition_shown(state: Fields) -> PartitionInfo:
    return PartitionInfo(
        state["partitionIndex"],
        BrokerId(state["leader"]),
        LeaderEpoch(state["leaderEpoch"]),
        tuple(map(BrokerId, state["replicas"])),
        tuple(map(BrokerId, state["isr"])),
        tuple(map(BrokerId, state["offlineReplicas"])),
    )


def _topic_shown(
    name: str,
    topic_id: bytes,
    known: Sequence[PartitionInfo],
    found: Mapping[int, PartitionInfo],
    config: Mapping[str, str],
) -> TopicInfo:
    """Return the topic; partitions that no request has named yet are without a leader."""
    present = {partition.index: partition for partition in known} | dict(found)
    all_of_it = tuple(
        present.get(index) or PartitionInfo(index, NO_LEADER, LeaderEpoch(-1), (), ())
        for index in range(max(present, default=-1) + 1)
    )
    return TopicInfo(name, topic_id, all_of_it, shown_as_internal(name), config)


def _broker_shown(broker: Fields, registered: Mapping[BrokerId, BrokerInfo]) -> BrokerInfo:
    endpoints = tuple(
        Endpoint(
            endpoint["listener"],
            endpoint["host"],
            endpoint["port"],
            _protocol(endpoint["securityProtocol"]),
        )
        for endpoint in broker["endpoints"]
    )
    told = BrokerInfo(BrokerId(broker["id"]), endpoints, broker["rack"])
    return with_epoch(told, registered)


def _protocol(number: int) -> str:
    return PROTOCOLS[number] if 0 <= number < len(PROTOCOLS) else ""

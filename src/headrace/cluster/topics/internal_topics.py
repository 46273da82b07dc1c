"""The settings with which internal topics are created, as by Kafka's coordinators."""

from headrace.broker.broker import Broker
from headrace.cluster.topics.creation import USE_DEFAULT, NewTopic
from headrace.config.broker import BrokerConfig
from headrace.model.nouns import (
    INTERNAL_TOPICS,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
)
from headrace.model.protocols import feature_of, reserved_topics

OWN_STATE_REPLICAS = 3
"""Replicas of a topic with a protocol's own state, where there are so many brokers; writes need a
majority of them."""


def internal_config(name: str, config: BrokerConfig) -> dict[str, str]:
    """Return the topic settings of internal topic `name`, of any protocol; none for another."""
    if name == OFFSETS_TOPIC:
        return {
            "compression.type": "producer",
            "cleanup.policy": "compact",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        }
    if name == TRANSACTIONS_TOPIC:
        return {
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        }
    if name == SHARE_STATE_TOPIC:
        return {
            "compression.type": "producer",
            "cleanup.policy": "delete",
            "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
            "retention.bytes": "-1",
            "retention.ms": "-1",
            "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
        }
    reserved = reserved_topics(name)
    return {} if reserved is None else dict(reserved.internal.get(name, {}))


def completed(wanted: NewTopic, broker: Broker) -> NewTopic:
    """Return `wanted` with the settings that an internal topic needs and the request lacks.

    An internal topic created by an administrator is then as safe: without cleanup.policy=compact,
    retention would delete committed offsets.
    """
    if wanted.name not in INTERNAL_TOPICS:
        return wanted
    needed = new_topic(wanted.name, broker).config
    return wanted._replace(config={**needed, **wanted.config})


def new_topic(name: str, broker: Broker) -> NewTopic:
    """Return the topic to create automatically: internal ones with their own settings.

    If there are fewer brokers than an internal topic's replication factor, each broker has a
    replica; min.insync.replicas is then at most their number.
    """
    config = broker.config
    brokers = max(len(broker.image.brokers), 1)
    settings: dict[str, str | None] = dict(internal_config(name, config))
    if name == OFFSETS_TOPIC:
        factor = min(config.offsets_topic_replication_factor, brokers)
        return NewTopic(name, config.offsets_topic_num_partitions, factor, config=settings)
    if name == TRANSACTIONS_TOPIC:
        factor = min(config.transaction_state_log_replication_factor, brokers)
        least = min(config.transaction_state_log_min_isr, factor)
        settings["min.insync.replicas"] = str(least)
        return NewTopic(name, config.transaction_state_log_num_partitions, factor, config=settings)
    if name == SHARE_STATE_TOPIC:
        factor = min(config.share_coordinator_state_topic_replication_factor, brokers)
        least = min(config.share_coordinator_state_topic_min_isr, factor)
        settings["min.insync.replicas"] = str(least)
        partitions = config.share_coordinator_state_topic_num_partitions
        return NewTopic(name, partitions, factor, config=settings)
    reserved = reserved_topics(name)
    if reserved is not None and name in reserved.internal:
        able = broker.image.brokers_with(feature_of(name))
        factor = min(OWN_STATE_REPLICAS, max(len(able), 1))
        settings["min.insync.replicas"] = str(factor // 2 + 1)
        partitions = min(reserved.internal_partitions, config.partitions_per_topic_max)
        return NewTopic(name, partitions, factor, config=settings)
    return NewTopic(name, USE_DEFAULT, USE_DEFAULT)

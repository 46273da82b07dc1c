"""Assembly of the RocketMQ frontend of a broker; `server.frontends` imports this file by name."""

from functools import partial
from typing import TYPE_CHECKING, Protocol

from headrace.broker.broker import Broker
from headrace.cluster.controller_port import ControllerPort
from headrace.config.listeners import parse_address
from headrace.coordination.coordinators import Coordinators
from headrace.frontends.rocketmq.administration.disk_watermark import CleaningRules
from headrace.frontends.rocketmq.administration.operations import operations_of
from headrace.frontends.rocketmq.administration.stored_configs import RemotingConfigs
from headrace.frontends.rocketmq.held.held_topics import MS_AN_HOUR, topic_config
from headrace.frontends.rocketmq.held.own_topics import OwnTopics
from headrace.frontends.rocketmq.held.transactions import ask_producer
from headrace.frontends.rocketmq.partition_numbers import PartitionNumbers
from headrace.frontends.rocketmq.send_modes import SendMode
from headrace.frontends.rocketmq.serving import ServedBroker
from headrace.frontends.rocketmq.session import RemotingFrontend
from headrace.frontends.rocketmq.settings import RemotingSettings
from headrace.frontends.rocketmq.signed_requests import SignedRequests
from headrace.model.errors import ConfigError
from headrace.model.protocols import ROCKETMQ_TOPICS
from headrace.net.write_pass import WritePass, Writes
from headrace.operations.registry import Operations
from headrace.ports.store import Store
from headrace.subscriptions.half_messages import AskingRules, HalfMessages
from headrace.subscriptions.new_groups import ZeroOffsetRule
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.settings import RocketmqKeys, parse_access_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.held.delays import Delays
    from headrace.model.nouns import TopicPartition
    from headrace.observe.metrics import Metrics


class RemotingParts(Protocol):
    """The objects that the frontend is made of. Implemented by `server.frontends.Parts`."""

    @property
    def broker(self) -> Broker:
        """The broker whose clients are served."""

    @property
    def coordinators(self) -> Coordinators:
        """The coordinators, of which groups keep the offsets."""

    @property
    def writes(self) -> Writes:
        """The writes of a pass, gathered until its end."""

    @property
    def controller(self) -> ControllerPort:
        """The controller, which creates topics."""

    @property
    def operations(self) -> Operations:
        """Registry for the operations of administrators."""

    @property
    def store(self) -> Store | None:
        """The open metadata store, which has the partitions' numbers; None: not available."""


def _address(text: str) -> tuple[str, int] | None:
    try:
        return parse_address(text) if text else None
    except ValueError as error:
        raise ConfigError(f"rocketmq.advertised.address: {error}") from error


def frontend(parts: RemotingParts) -> RemotingFrontend:
    """Return the RocketMQ frontend; raise ConfigError if the broker belongs to a cluster."""
    config = parts.broker.config
    if parts.store is None or config.zookeeper_connect:
        raise ConfigError(
            "listeners: a ROCKETMQ listener needs a single broker, and zookeeper.connect names a"
            " cluster: remove the ROCKETMQ listener or zookeeper.connect"
        )
    keys = RocketmqKeys.of(config.values)
    settings = RemotingSettings(
        keys.rocketmq_cluster_name,
        keys.rocketmq_region_id,
        _address(keys.rocketmq_advertised_address),
        ZeroOffsetRule(keys.rocketmq_zero_offset_rule),
        keys.rocketmq_zero_offset_memory_bytes,
        keys.rocketmq_default_topic_queues,
        keys.rocketmq_timer_max_delay_seconds * 1000,
        keys.rocketmq_recall_message_enable,
        keys.rocketmq_transaction_timeout_ms,
        AskingRules(
            keys.rocketmq_transaction_check_interval_ms,
            keys.rocketmq_transaction_check_max,
            keys.rocketmq_file_reserved_hours * MS_AN_HOUR,
        ),
        keys.rocketmq_server_side_reset,
        SendMode(
            keys.rocketmq_flush_disk_type == "SYNC_FLUSH" and config.log_flush_on_ack,
            keys.rocketmq_broker_role == "SYNC_MASTER",
            keys.rocketmq_below_min_insync == "store",
            keys.rocketmq_sync_flush_timeout_ms / 1000,
            keys.rocketmq_slave_timeout_ms / 1000,
        ),
        CleaningRules(
            keys.rocketmq_disk_clean_used_percent,
            keys.rocketmq_disk_clean_forcibly_used_percent,
            keys.rocketmq_clean_file_forcibly_enable,
        ),
        keys.rocketmq_disk_max_used_percent,
        topic_config(keys.rocketmq_file_reserved_hours),
        keys.rocketmq_trace_topic_enable,
    )
    parts.broker.topic_keepers.add(ROCKETMQ_TOPICS, OwnTopics(parts.broker, parts.controller))
    broker = ServedBroker(
        parts.broker,
        parts.controller,
        parts.coordinators,
        PartitionNumbers(parts.store, parts.broker.clock),
        RemotingConfigs.of(parts.store),
        settings,
    )
    parts.operations.add(operations_of(broker))
    broker.held.ask = partial(ask_producer, broker)
    _add_metrics(parts.broker.metrics, broker)
    secrets = parse_access_keys(keys.rocketmq_access_keys)
    signed = SignedRequests(secrets, parts.broker.audit)
    return RemotingFrontend(broker, WritePass(parts.writes), signed)


# Metrics (docs/operate.md)

_LATE = (
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)


def _add_metrics(metrics: "Metrics", broker: "ServedBroker") -> None:
    """Register the metrics of requests, waiting messages and deletions."""
    _add_requests(metrics, broker)
    _add_held(metrics, broker)
    cleaner, traffic = broker.cleaner, broker.traffic
    metrics.gauge(
        "headrace_rocketmq_messages_pulled_total",
        "Messages that RocketMQ consumers have pulled",
        lambda: traffic.pulled_count,
        counter=True,
    )
    metrics.gauge(
        "headrace_rocketmq_clients",
        "RocketMQ clients that have sent a heartbeat on an open connection",
        lambda: len(broker.clients),
    )
    metrics.gauge(
        "headrace_rocketmq_unexpired_deleted_bytes_total",
        "Bytes of unexpired segments deleted above rocketmq.disk.clean.forcibly.used.percent",
        lambda: cleaner.deleted_bytes,
        counter=True,
    )
    metrics.gauge(
        "headrace_rocketmq_unexpired_deleted_segments_total",
        "Unexpired segments deleted above rocketmq.disk.clean.forcibly.used.percent",
        lambda: cleaner.deleted_segments,
        counter=True,
    )


def _add_requests(metrics: "Metrics", broker: "ServedBroker") -> None:
    counts, late = broker.counts, broker.sending.waits.counts
    metrics.gauge(
        "headrace_rocketmq_requests_total",
        "Requests of RocketMQ clients by code, one-way ones included",
        counts.by_request,
        label="request",
        counter=True,
    )
    metrics.gauge(
        "headrace_rocketmq_errors_total",
        "Errors answered to RocketMQ clients by codes of request and response",
        counts.by_error,
        label=("request", "response"),
        counter=True,
    )
    metrics.gauge(
        "headrace_rocketmq_stored_late_total",
        "RocketMQ messages that are stored, but not flushed or replicated in time",
        lambda: {code.name.lower(): late[code] for code in _LATE},
        label="status",
        counter=True,
    )


def _add_held(metrics: "Metrics", broker: "ServedBroker") -> None:
    held = broker.held

    def half(count: "Callable[[HalfMessages], int]") -> int:
        return 0 if held.half.value is None else count(held.half.value)

    def delays(count: "Callable[[Delays[TopicPartition]], int]") -> int:
        return 0 if held.delays.value is None else count(held.delays.value)

    metrics.gauge(
        "headrace_rocketmq_delayed_messages",
        "RocketMQ messages that wait for their time",
        lambda: delays(len),
    )
    metrics.gauge(
        "headrace_rocketmq_undecided_messages",
        "RocketMQ messages of transactions that are neither committed nor rolled back",
        lambda: half(len),
    )
    metrics.gauge(
        "headrace_rocketmq_discarded_messages_total",
        "Delayed RocketMQ messages whose topic was deleted before their time",
        lambda: delays(lambda each: each.discarded),
        counter=True,
    )
    metrics.gauge(
        "headrace_rocketmq_given_up_messages_total",
        "RocketMQ messages of transactions that went to TRANS_CHECK_MAX_TIME_TOPIC",
        lambda: half(lambda each: each.given_up),
        counter=True,
    )

"""Metrics of the RocketMQ listener (docs/operate.md)."""

from typing import TYPE_CHECKING

from headrace.wire.rocketmq.codes import ResponseCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.frontends.rocketmq.serving import ServedBroker
    from headrace.observe.metrics import Metrics
    from headrace.subscriptions.held.delays import Delays
    from headrace.subscriptions.held.half_messages import HalfMessages

_LATE = (
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)


def add_metrics(metrics: "Metrics", broker: "ServedBroker") -> None:
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

    def delays(count: "Callable[[Delays], int]") -> int:
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

"""The arguments (`x-...`) of queues and consumers: those each queue type accepts, their values.

Checked as RabbitMQ 4.0 does, in its order and with its texts. Unknown names are ignored.
`argument_checks` has the checks of the values.
"""

from functools import cache
from typing import cast

from headrace.queue_stores.queue_settings import (
    DELIVERIES_COUNTED_MAX,
    DELIVERY_LIMIT_DEFAULT,
    ConsumerSettings,
    Overflow,
    QueueSettings,
    QueueType,
    StreamOffset,
    StreamStart,
)
from headrace.queues.field_values import INTEGER_KINDS, kind_of, text
from headrace.queues.model import exchange_topic
from headrace.queues.model.argument_checks import (
    CONSUMER_CHECKS,
    DEAD_LETTER_EXCHANGE,
    QUEUE_CHECKS,
    RETENTION,
    RETENTION_ARGUMENTS,
    RETENTION_BYTES,
    Arguments,
    Check,
    age_ms,
    queue_type_problem,
    stream_offset,
)
from headrace.queues.refusals import precondition_failed

QUEUE_TYPE = "x-queue-type"
STREAM_SEGMENT_BYTES_MAX = 3_000_000_000
STREAM_FILTER_BYTES = range(16, 256)

QUEUE_ARGUMENTS: dict[QueueType, tuple[str, ...]] = {
    QueueType.CLASSIC: (
        "x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key",
        "x-max-length", "x-max-length-bytes", "x-max-priority", "x-overflow", "x-queue-mode",
        "x-queue-version", "x-single-active-consumer", "x-queue-type", "x-queue-master-locator",
        "x-queue-leader-locator", *RETENTION_ARGUMENTS,
    ),
    QueueType.QUORUM: (
        "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy",
        "x-expires", "x-max-length", "x-max-length-bytes", "x-max-in-memory-length",
        "x-max-in-memory-bytes", "x-overflow", "x-single-active-consumer", "x-queue-type",
        "x-quorum-initial-group-size", "x-delivery-limit", "x-message-ttl",
        "x-queue-leader-locator", *RETENTION_ARGUMENTS,
    ),
    QueueType.STREAM: (
        "x-max-length-bytes", "x-queue-type", "x-max-age", "x-stream-max-segment-size-bytes",
        "x-initial-cluster-size", "x-queue-leader-locator", *exchange_topic.ARGUMENTS,
    ),
}  # fmt: skip
"""Accepted arguments of each type, in the order in which a redeclaration is compared."""
_CONSUMER_ARGUMENTS: dict[QueueType, tuple[str, ...]] = {
    QueueType.CLASSIC: ("x-priority",),
    QueueType.QUORUM: ("x-priority",),
    QueueType.STREAM: ("x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered"),
}
_INSTEAD = {
    (QueueType.STREAM, RETENTION): "it is 'x-max-age' there",
    (QueueType.STREAM, RETENTION_BYTES): "it is 'x-max-length-bytes' there",
    **{
        (queue_type, name): "a stream reads a Kafka topic"
        for queue_type in (QueueType.CLASSIC, QueueType.QUORUM)
        for name in exchange_topic.ARGUMENTS
    },
}
"""Hints for arguments that a type does not accept."""
OF_OWN_TOPIC = ("x-max-length-bytes", "x-max-age", "x-stream-max-segment-size-bytes")
"""Arguments that configure a stream's own topic."""
_OF_ANY_TYPE = frozenset(name for names in QUEUE_ARGUMENTS.values() for name in names)
_OF_ANY_CONSUMER = frozenset(name for names in _CONSUMER_ARGUMENTS.values() for name in names)


def queue_settings(arguments: Arguments, resource: str) -> QueueSettings:
    """Return the settings that a new queue's arguments ask for.

    Raises Refused PRECONDITION_FAILED for an invalid argument. `resource` names the queue in texts.
    """
    _check_value(QUEUE_TYPE, queue_type_problem, arguments, resource)
    queue_type = queue_type_of(arguments)
    if len(arguments) == 1 and QUEUE_TYPE in arguments:
        return _plain_settings(queue_type)
    taken = QUEUE_ARGUMENTS[queue_type]
    for name, check in QUEUE_CHECKS.items():
        if name in taken:
            _check_value(name, check, arguments, resource)
    _check_names(arguments, _OF_ANY_TYPE.difference(taken), queue_type, resource)
    if queue_type is QueueType.STREAM:
        _check_stream(arguments)
        _check_read_topic(arguments, resource)
    return settings_of(arguments, queue_type)


def consumer_settings(
    arguments: Arguments, queue_type: QueueType, resource: str
) -> ConsumerSettings:
    """Return the settings that a consumer's arguments ask for.

    Raises Refused PRECONDITION_FAILED for an invalid argument.
    """
    taken = _CONSUMER_ARGUMENTS[queue_type]
    for name, check in CONSUMER_CHECKS.items():
        if name in taken:
            _check_value(name, check, arguments, resource)
    _check_names(arguments, _OF_ANY_CONSUMER.difference(taken), queue_type, resource)
    if queue_type is QueueType.STREAM:
        offset = arguments.get("x-stream-offset", StreamStart.NEXT.value)
        return ConsumerSettings(
            stream_offset=cast("StreamOffset", stream_offset(offset)),
            stream_filter=_stream_filter(arguments),
        )
    return ConsumerSettings(priority=_integer(arguments, "x-priority") or 0)


def with_queue_type(
    arguments: Arguments, default: QueueType = QueueType.CLASSIC
) -> dict[str, object]:
    """Return a declaration's arguments with its queue type: `default` if they name none."""
    return {**arguments, QUEUE_TYPE: arguments.get(QUEUE_TYPE, default.value)}


def queue_type_of(arguments: Arguments) -> QueueType:
    """Return the queue type of arguments; classic if none or an unknown one is named."""
    return queue_type_named(arguments.get(QUEUE_TYPE, QueueType.CLASSIC.value))


def queue_type_named(name: object) -> QueueType:
    """Return the queue type of a name; classic if it is unknown."""
    try:
        return QueueType(name)
    except ValueError:
        return QueueType.CLASSIC


def _check_value(name: str, check: Check, arguments: Arguments, resource: str) -> None:
    if name in arguments and (problem := check(arguments[name], arguments)) is not None:
        raise precondition_failed(f"invalid arg '{name}' for {resource}: {problem}")


def _check_names(
    arguments: Arguments, not_taken: frozenset[str], queue_type: QueueType, resource: str
) -> None:
    for name in arguments:
        if name in not_taken:
            instead = _INSTEAD.get((queue_type, name))
            raise precondition_failed(
                f"invalid arg '{name}' for {resource} of queue type {queue_type.title}"
                f"{f': {instead}' if instead else ''}"
            )


def _check_stream(arguments: Arguments) -> None:
    if (_integer(arguments, "x-stream-max-segment-size-bytes") or 0) > STREAM_SEGMENT_BYTES_MAX:
        raise precondition_failed("Exceeded max value for x-stream-max-segment-size-bytes")
    filter_bytes = arguments.get("x-stream-filter-size-bytes")
    if filter_bytes is not None and filter_bytes not in STREAM_FILTER_BYTES:
        raise precondition_failed("Invalid value for  x-stream-filter-size-bytes")


def _check_read_topic(arguments: Arguments, resource: str) -> None:
    if exchange_topic.exchange_topic(arguments, resource) is None:
        return
    for name in OF_OWN_TOPIC:
        if name in arguments:
            raise precondition_failed(
                f"invalid arg '{name}' for {resource}: the Kafka topic that it reads has settings"
                " of its own; leave it out"
            )


@cache
def _plain_settings(queue_type: QueueType) -> QueueSettings:
    """Return the settings of a queue with no arguments but its type, the usual case."""
    return settings_of({}, queue_type)


def settings_of(arguments: Arguments, queue_type: QueueType) -> QueueSettings:
    """Return the settings of checked arguments."""
    overflow = Overflow(arguments.get("x-overflow", Overflow.DROP_HEAD.value))
    delivery_limit = None
    at_least_once = False
    if queue_type is QueueType.QUORUM:
        if overflow is Overflow.REJECT_PUBLISH_DLX:
            # As in RabbitMQ, a quorum queue accepts the name and drops its head.
            overflow = Overflow.DROP_HEAD
        delivery_limit = _integer(arguments, "x-delivery-limit")
        if delivery_limit is None:
            delivery_limit = DELIVERY_LIMIT_DEFAULT
        elif not 0 <= delivery_limit <= DELIVERIES_COUNTED_MAX:
            # Returns are counted without a limit, too, for x-delivery-count.
            delivery_limit = DELIVERIES_COUNTED_MAX
        at_least_once = (
            arguments.get("x-dead-letter-strategy") == "at-least-once"
            and overflow is Overflow.REJECT_PUBLISH
        )
    timeout_ms = _integer(arguments, "x-consumer-timeout")
    bytes_max = _integer(arguments, "x-max-length-bytes")
    is_stream = queue_type is QueueType.STREAM
    return QueueSettings(
        queue_type=queue_type,
        ttl_ms=_integer(arguments, "x-message-ttl"),
        expires_ms=_integer(arguments, "x-expires"),
        length_max=_integer(arguments, "x-max-length"),
        length_bytes_max=None if is_stream else bytes_max,
        overflow=overflow,
        dead_letter_exchange=_string(arguments, DEAD_LETTER_EXCHANGE),
        dead_letter_routing_key=_string(arguments, "x-dead-letter-routing-key"),
        dead_letter_at_least_once=at_least_once,
        priority_max=_integer(arguments, "x-max-priority"),
        single_active_consumer=arguments.get("x-single-active-consumer") is True,
        delivery_limit=delivery_limit,
        consumer_timeout_ms=None if timeout_ms is None else max(0, timeout_ms),
        retention_ms=age_ms(arguments.get("x-max-age" if is_stream else RETENTION)),
        retention_bytes=bytes_max if is_stream else _integer(arguments, RETENTION_BYTES),
        segment_bytes_max=_integer(arguments, "x-stream-max-segment-size-bytes"),
        topic=exchange_topic.stored_in(arguments),
    )


def _integer(arguments: Arguments, name: str) -> int | None:
    """Return an integer argument, or None if absent or of another type (unchecked arguments)."""
    value = arguments.get(name)
    return int(cast("int", value)) if kind_of(value) in INTEGER_KINDS else None


def _string(arguments: Arguments, name: str) -> str | None:
    value = arguments.get(name)
    return None if value is None else text(value)


def _stream_filter(arguments: Arguments) -> frozenset[str] | None:
    """Return the filter values of a consumer, strings only; None: no filter."""
    asked = arguments.get("x-stream-filter")
    values = asked if isinstance(asked, list) else [asked]
    wanted = {text(value) for value in values if kind_of(value) == "longstr"}
    if wanted and arguments.get("x-stream-match-unfiltered") is True:
        wanted.add("")
    return frozenset(wanted) or None

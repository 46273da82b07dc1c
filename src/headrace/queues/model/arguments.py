"""The arguments (`x-...`) of queues and consumers: those each queue type accepts, their values.

Checked as RabbitMQ 4.0 does, in its order and with its texts. Unknown names are ignored. Some
values that crash RabbitMQ are refused here: an invalid stream offset, a filter without a string.
"""

import re
from collections.abc import Callable, Mapping
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
from headrace.queues.field_values import INTEGER_KINDS, kind_of, term, text
from headrace.queues.model import exchange_topic
from headrace.queues.refusals import precondition_failed

Arguments = Mapping[str, object]

QUEUE_TYPE = "x-queue-type"
RETENTION = "x-headrace-retention"
RETENTION_BYTES = "x-headrace-retention-bytes"
RETENTION_ARGUMENTS = (RETENTION, RETENTION_BYTES)
"""Time and bytes for which a queue retains settled messages, for readers of its topic."""
DEAD_LETTER_EXCHANGE = "x-dead-letter-exchange"
MS_MAX = 315_360_000_000
"""Ten years in milliseconds: the longest message TTL and queue expiry."""
PRIORITY_MAX = 255
STREAM_SEGMENT_BYTES_MAX = 3_000_000_000
STREAM_FILTER_BYTES = range(16, 256)
_QUEUE_TYPE_UNSET = "undefined"
_LEADER_LOCATORS = ("client-local", "balanced", "random", "least-leaders", "min-masters")
_QUEUE_MODES = ("default", "lazy")
_DEAD_LETTER_STRATEGIES = ("at-most-once", "at-least-once")
_AGE = re.compile(r"([0-9]{1,18})([YMDhms])")
_AGE_MS = {
    "Y": 365 * 86_400_000,
    "M": 30 * 86_400_000,
    "D": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
}

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
_OF_OWN_TOPIC = ("x-max-length-bytes", "x-max-age", "x-stream-max-segment-size-bytes")
"""Arguments that configure a stream's own topic."""
_OF_ANY_TYPE = frozenset(name for names in QUEUE_ARGUMENTS.values() for name in names)
_OF_ANY_CONSUMER = frozenset(name for names in _CONSUMER_ARGUMENTS.values() for name in names)

_Check = Callable[[object, Arguments], str | None]
"""Returns what is wrong with a value, in RabbitMQ's terms; None: valid."""


def queue_settings(arguments: Arguments, resource: str) -> QueueSettings:
    """Return the settings that a new queue's arguments ask for.

    Raises Refused PRECONDITION_FAILED for an invalid argument. `resource` names the queue in texts.
    """
    _check_value(QUEUE_TYPE, _queue_type_problem, arguments, resource)
    queue_type = queue_type_of(arguments)
    if len(arguments) == 1 and QUEUE_TYPE in arguments:
        return _plain_settings(queue_type)
    taken = QUEUE_ARGUMENTS[queue_type]
    for name, check in _QUEUE_CHECKS.items():
        if name in taken:
            _check_value(name, check, arguments, resource)
    _check_names(arguments, _OF_ANY_TYPE.difference(taken), queue_type, resource)
    if queue_type is QueueType.STREAM:
        _check_stream(arguments)
        _check_read_topic(arguments, resource)
    return _settings(arguments, queue_type)


def consumer_settings(
    arguments: Arguments, queue_type: QueueType, resource: str
) -> ConsumerSettings:
    """Return the settings that a consumer's arguments ask for.

    Raises Refused PRECONDITION_FAILED for an invalid argument.
    """
    taken = _CONSUMER_ARGUMENTS[queue_type]
    for name, check in _CONSUMER_CHECKS.items():
        if name in taken:
            _check_value(name, check, arguments, resource)
    _check_names(arguments, _OF_ANY_CONSUMER.difference(taken), queue_type, resource)
    if queue_type is QueueType.STREAM:
        offset = arguments.get("x-stream-offset", StreamStart.NEXT.value)
        return ConsumerSettings(
            stream_offset=cast("StreamOffset", _stream_offset(offset)),
            stream_filter=_stream_filter(arguments),
        )
    return ConsumerSettings(priority=_integer(arguments, "x-priority") or 0)


def with_queue_type(arguments: Arguments) -> dict[str, object]:
    """Return a declaration's arguments with its queue type, classic if it names none."""
    return {**arguments, QUEUE_TYPE: arguments.get(QUEUE_TYPE, QueueType.CLASSIC.value)}


def queue_type_of(arguments: Arguments) -> QueueType:
    """Return the queue type of arguments; classic if none or an unknown one is named."""
    try:
        return QueueType(arguments.get(QUEUE_TYPE, QueueType.CLASSIC.value))
    except ValueError:
        return QueueType.CLASSIC


def _check_value(name: str, check: _Check, arguments: Arguments, resource: str) -> None:
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
    for name in _OF_OWN_TOPIC:
        if name in arguments:
            raise precondition_failed(
                f"invalid arg '{name}' for {resource}: the Kafka topic that it reads has settings"
                " of its own; leave it out"
            )


@cache
def _plain_settings(queue_type: QueueType) -> QueueSettings:
    """Return the settings of a queue with no arguments but its type, the usual case."""
    return _settings({}, queue_type)


def _settings(arguments: Arguments, queue_type: QueueType) -> QueueSettings:
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
        retention_ms=_age_ms(arguments.get("x-max-age" if is_stream else RETENTION)),
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


def _age_ms(age: object) -> int | None:
    """Return an age such as `7D` or `12h` in milliseconds, or None if it is no age."""
    match = _AGE.fullmatch(age) if isinstance(age, str) else None
    return int(match[1]) * _AGE_MS[match[2]] or None if match else None


def _stream_offset(value: object) -> StreamOffset | None:
    """Return the offset that a stream consumer begins at, or None if the value is invalid."""
    kind = kind_of(value)
    if kind == "timestamp":
        return StreamOffset(StreamStart.TIMESTAMP, int(cast("int", value)) * 1000)
    if kind in INTEGER_KINDS:
        return StreamOffset(StreamStart.OFFSET, max(0, int(cast("int", value))))
    if value in {"first", "last", "next"} if kind == "longstr" else False:
        return StreamOffset(StreamStart(value))
    age_ms = _age_ms(value)
    return None if age_ms is None else StreamOffset(StreamStart.AGE, age_ms)


def _stream_filter(arguments: Arguments) -> frozenset[str] | None:
    """Return the filter values of a consumer, strings only; None: no filter."""
    asked = arguments.get("x-stream-filter")
    values = asked if isinstance(asked, list) else [asked]
    wanted = {text(value) for value in values if kind_of(value) == "longstr"}
    if wanted and arguments.get("x-stream-match-unfiltered") is True:
        wanted.add("")
    return frozenset(wanted) or None


def _integer_problem(value: object, _: Arguments) -> str | None:
    kind = kind_of(value)
    return None if kind in INTEGER_KINDS else f'"expected integer, got {kind}"'


def _not_negative_problem(value: object, arguments: Arguments) -> str | None:
    problem = _integer_problem(value, arguments)
    return f"{{value_negative,{term(value)}}}" if not problem and _below(value, 0) else problem


def _positive_problem(value: object, arguments: Arguments) -> str | None:
    problem = _not_negative_problem(value, arguments)
    return f"{{value_zero,{term(value)}}}" if not problem and value == 0 else problem


def _time_to_live_problem(value: object, arguments: Arguments) -> str | None:
    problem = _not_negative_problem(value, arguments)
    return problem or (None if _below(value, MS_MAX + 1) else f"{{value_too_large,{term(value)}}}")


def _expires_problem(value: object, arguments: Arguments) -> str | None:
    return _positive_problem(value, arguments) or _time_to_live_problem(value, arguments)


def _priority_problem(value: object, arguments: Arguments) -> str | None:
    problem = _not_negative_problem(value, arguments)
    return problem or (
        None if _below(value, PRIORITY_MAX + 1) else f"{{max_value_exceeded,{term(value)}}}"
    )


def _version_problem(value: object, arguments: Arguments) -> str | None:
    problem = _not_negative_problem(value, arguments)
    return problem or (
        None if value in {1, 2} else f"\"unsupported queue version '{term(value)}'\""
    )


def _below(value: object, bound: int) -> bool:
    return cast("int", value) < bound


def _string_problem(value: object, _: Arguments) -> str | None:
    kind = kind_of(value)
    return None if kind == "longstr" else f"{{unacceptable_type,{kind}}}"


def _boolean_problem(value: object, _: Arguments) -> str | None:
    return None if isinstance(value, bool) else f"{{unacceptable_type,{kind_of(value)}}}"


def _known(known: tuple[str, ...], unknown: str) -> _Check:
    def problem(value: object, arguments: Arguments) -> str | None:
        wrong_kind = _string_problem(value, arguments)
        return wrong_kind or (None if value in known else unknown.format(text(value)))

    return problem


def _routing_key_problem(value: object, arguments: Arguments) -> str | None:
    problem = _string_problem(value, arguments)
    return problem or (
        None if DEAD_LETTER_EXCHANGE in arguments else "routing_key_but_no_dlx_defined"
    )


def _age_problem(value: object, arguments: Arguments) -> str | None:
    problem = _string_problem(value, arguments)
    return problem or (None if _age_ms(value) else "invalid_max_age")


def _retention_problem(value: object, arguments: Arguments) -> str | None:
    problem = _string_problem(value, arguments)
    return problem or (None if _age_ms(value) else '"expected an age such as 7D or 12h"')


def _stream_offset_problem(value: object, _: Arguments) -> str | None:
    if _stream_offset(value) is not None:
        return None
    return f"{{invalid_stream_offset_arg,{{{kind_of(value)},{term(value)}}}}}"


def _stream_filter_problem(value: object, _: Arguments) -> str | None:
    if not isinstance(value, list) or any(kind_of(each) == "longstr" for each in value):
        return None
    return '"expected a string, or an array with one"'


_queue_type_problem = _known(
    (*(queue_type.value for queue_type in QueueType), _QUEUE_TYPE_UNSET),
    "\"unsupported queue type '{}'\"",
)
_QUEUE_CHECKS: dict[str, _Check] = {
    "x-expires": _expires_problem,
    "x-message-ttl": _time_to_live_problem,
    DEAD_LETTER_EXCHANGE: _string_problem,
    "x-dead-letter-routing-key": _routing_key_problem,
    "x-dead-letter-strategy": _known(_DEAD_LETTER_STRATEGIES, "invalid_dlx_strategy"),
    "x-max-length": _not_negative_problem,
    "x-max-length-bytes": _not_negative_problem,
    "x-max-in-memory-length": _not_negative_problem,
    "x-max-in-memory-bytes": _not_negative_problem,
    "x-max-priority": _priority_problem,
    "x-overflow": _known(tuple(mode.value for mode in Overflow), "invalid_overflow"),
    "x-queue-mode": _known(_QUEUE_MODES, "\"unsupported queue mode '{}'\""),
    "x-queue-version": _version_problem,
    "x-single-active-consumer": _boolean_problem,
    "x-quorum-initial-group-size": _positive_problem,
    "x-max-age": _age_problem,
    "x-stream-max-segment-size-bytes": _not_negative_problem,
    "x-initial-cluster-size": _positive_problem,
    "x-queue-leader-locator": _known(_LEADER_LOCATORS, "invalid_queue_locator_arg"),
    RETENTION: _retention_problem,
    RETENTION_BYTES: _positive_problem,
}
"""The check of each argument's value, in RabbitMQ's order."""
_CONSUMER_CHECKS: dict[str, _Check] = {
    "x-priority": _integer_problem,
    "x-stream-offset": _stream_offset_problem,
    "x-stream-filter": _stream_filter_problem,
}

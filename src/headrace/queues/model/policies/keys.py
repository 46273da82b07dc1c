"""The keys of policies' definitions: valid values, queue types that have none, and joins.

As RabbitMQ 4.3 (`rabbit_policies.erl`, `rabbit_quorum_queue.erl`, and each queue type's
`capabilities`). A join chooses between two values of a key: a policy's and an operator policy's, or
a policy's and an argument's. The join with an argument depends on the queue type for some keys.

| key | with an operator policy | with an argument |
|---|---|---|
| expires, message-ttl, max-length | smaller | smaller |
| max-length-bytes | smaller | smaller; a stream: the policy's |
| delivery-limit | smaller; larger if one is negative, which is unlimited | the same |
| overflow | the operator's | the argument; a quorum queue: the policy's |
| dead-letter-* | not permitted | the argument |
| max-age, stream-*, initial-cluster-size, queue-leader-locator | not permitted | the policy's |
| consumer-timeout, consumer-disconnected-timeout | not permitted | smaller |
| target-group-size | larger | larger |
| delayed-retry-type | the operator's | the policy's |
| delayed-retry-min, delayed-retry-max | larger, smaller | smaller, smaller |
| alternate-exchange | not permitted | the argument |
| max-in-memory-*, queue-version, queue-mode | smaller, the operator's, not permitted | no effect |
"""

from collections.abc import Callable, Container, Mapping
from typing import NamedTuple, cast

from headrace.queue_stores.queue_settings import Overflow, QueueType
from headrace.queues.model.argument_checks import age_ms
from headrace.queues.model.arguments import STREAM_FILTER_BYTES, STREAM_SEGMENT_BYTES_MAX
from headrace.queues.model.exchanges import ALTERNATE_EXCHANGE

Join = Callable[[object, object], object]
"""Chooses between the value of a policy and that of an operator policy or an argument."""
_Valid = Callable[[object], bool]


def _first(value: object, _: object) -> object:
    return value


def _second(_: object, other: object) -> object:
    return other


def _smaller(value: object, other: object) -> object:
    return min(cast("int", value), cast("int", other))


def _larger(value: object, other: object) -> object:
    return max(cast("int", value), cast("int", other))


def _delivery_limit(value: object, other: object) -> object:
    unlimited = cast("int", value) < 0 or cast("int", other) < 0
    return _larger(value, other) if unlimited else _smaller(value, other)


def is_integer(value: object) -> bool:
    """Tell whether a value is an integer; JSON's `true`, `1.0` and `null` are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def _at_least(least: int) -> _Valid:
    return lambda value: is_integer(value) and cast("int", value) >= least


def _within(bounds: Container[object]) -> _Valid:
    return lambda value: is_integer(value) and value in bounds


def _named(*names: str) -> _Valid:
    return lambda value: isinstance(value, str) and value in names


def _is_string(value: object) -> bool:
    return isinstance(value, str)


_CLASSIC, _QUORUM, _STREAM = QueueType.CLASSIC, QueueType.QUORUM, QueueType.STREAM
_NO_JOINS: Mapping[QueueType, Join] = {}


class PolicyKey(NamedTuple):
    """A key of definitions: its valid values and how it is joined."""

    valid: _Valid
    invalid: str
    """RabbitMQ's text about an invalid value, after the value."""
    unsupported: frozenset[QueueType] = frozenset()
    """The queue types that a definition with this key does not match at all."""
    operators: Join | None = None
    """The join with an operator policy's value; None: operator policies must not have the key."""
    join: Join = _second
    """The join with an argument's value."""
    joins: Mapping[QueueType, Join] = _NO_JOINS
    """The join of the queue types that have another one."""
    argument: str = ""
    """The name of the argument; empty: `x-` and the key."""


def _lengths(what: str, unsupported: frozenset[QueueType] = frozenset()) -> PolicyKey:
    return PolicyKey(
        _at_least(0), f"is not a valid {what}", unsupported, operators=_smaller, join=_smaller
    )


def _of_streams(valid: _Valid, what: str) -> PolicyKey:
    unsupported = frozenset({_CLASSIC, _QUORUM})
    return PolicyKey(valid, f"is not a valid {what}", unsupported, join=_first)


def _timeout(what: str) -> PolicyKey:
    return PolicyKey(_at_least(0), f"is not a valid {what} timeout", join=_smaller)


def _retry_delay(which: str, operators: Join) -> PolicyKey:
    text = f"is not a valid delayed retry {which} delay. Must be a positive integer"
    return PolicyKey(_at_least(1), text, operators=operators, join=_smaller)


_NO_STREAM = frozenset({_STREAM})
_QUORUM_ONLY = frozenset({_CLASSIC, _STREAM})
_RETRY_TYPES = ("all", "failed", "returned", "disabled")

COMMON_KEYS: dict[str, PolicyKey] = {
    ALTERNATE_EXCHANGE: PolicyKey(
        _is_string, "is not a valid alternate exchange name", argument=ALTERNATE_EXCHANGE
    ),
    "consumer-disconnected-timeout": _timeout("consumer disconnected"),
    "consumer-timeout": _timeout("consumer"),
    "dead-letter-exchange": PolicyKey(
        _is_string, "is not a valid dead letter exchange name", _NO_STREAM
    ),
    "dead-letter-routing-key": PolicyKey(
        _is_string, "is not a valid dead letter routing key", _NO_STREAM
    ),
    "dead-letter-strategy": PolicyKey(
        _named("at-most-once", "at-least-once"),
        "is not a valid dead letter strategy",
        _QUORUM_ONLY,
    ),
    "delivery-limit": PolicyKey(
        is_integer,
        "is not a valid delivery limit",
        _QUORUM_ONLY,
        operators=_delivery_limit,
        join=_delivery_limit,
    ),
    "expires": PolicyKey(
        _at_least(1), "is not a valid queue expiry", _NO_STREAM, operators=_smaller, join=_smaller
    ),
    "initial-cluster-size": _of_streams(_at_least(0), "cluster size"),
    "max-age": _of_streams(lambda value: age_ms(value) is not None, "max age"),
    # RabbitMQ's text is about bytes for the length, too.
    "max-in-memory-bytes": _lengths("maximum memory in bytes", _QUORUM_ONLY),
    "max-in-memory-length": _lengths("maximum memory in bytes", _QUORUM_ONLY),
    "max-length": _lengths("maximum length", _NO_STREAM),
    "max-length-bytes": _lengths("maximum length in bytes")._replace(joins={_STREAM: _first}),
    "message-ttl": _lengths("message TTL", _NO_STREAM),
    "overflow": PolicyKey(
        _named(*(mode.value for mode in Overflow)),
        "is not a valid overflow value",
        _NO_STREAM,
        operators=_second,
        joins={_QUORUM: _first},
    ),
    "queue-leader-locator": PolicyKey(
        _named("client-local", "balanced", "random", "least-leaders"),
        "is not a valid queue leader locator value",
        join=_first,
    ),
    "queue-mode": PolicyKey(
        _named("default", "lazy"), "is not a valid queue-mode value", frozenset({_QUORUM, _STREAM})
    ),
    "queue-version": PolicyKey(
        _within((1, 2)), "is not a valid queue-version value", operators=_second
    ),
    "stream-filter-size-bytes": PolicyKey(
        _within(STREAM_FILTER_BYTES),
        "is not a valid filter size. Valid range is 16-255",
        join=_first,
    ),
    "stream-max-segment-size-bytes": _of_streams(
        _within(range(STREAM_SEGMENT_BYTES_MAX + 1)), "segment size"
    ),
}
"""Keys that RabbitMQ checks first, by name."""
QUORUM_KEYS: dict[str, PolicyKey] = {
    "delayed-retry-max": _retry_delay("maximum", _smaller),
    "delayed-retry-min": _retry_delay("minimum", _larger),
    "delayed-retry-type": PolicyKey(
        _named(*_RETRY_TYPES),
        f"is not a valid delayed retry type. Must be one of: {', '.join(_RETRY_TYPES)}",
        operators=_second,
        join=_first,
    ),
    "target-group-size": PolicyKey(
        _at_least(1),
        "is not a valid qq target count value",
        _QUORUM_ONLY,
        operators=_larger,
        join=_larger,
        argument="x-quorum-target-group-size",
    ),
}
"""Keys of quorum queues, which RabbitMQ checks together."""
KEYS: dict[str, PolicyKey] = {**COMMON_KEYS, **QUORUM_KEYS}
"""All keys that a definition can have."""


def operator_keys(keys: Mapping[str, PolicyKey]) -> dict[str, PolicyKey]:
    """Return the keys that operator policies may have."""
    return {name: key for name, key in keys.items() if key.operators is not None}

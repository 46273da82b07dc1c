"""Checks of the values of arguments (`x-...`): what is wrong with one, in RabbitMQ's terms.

The checks stand in RabbitMQ's order. Some values that crash RabbitMQ are refused here: an invalid
stream offset, a filter without a string.
"""

import re
from collections.abc import Callable, Mapping
from typing import cast

from headrace.queue_stores.queue_settings import Overflow, QueueType, StreamOffset, StreamStart
from headrace.queues.field_values import INTEGER_KINDS, kind_of, term, text

Arguments = Mapping[str, object]
Check = Callable[[object, Arguments], str | None]
"""Returns what is wrong with a value, in RabbitMQ's terms; None: valid."""

RETENTION = "x-headrace-retention"
RETENTION_BYTES = "x-headrace-retention-bytes"
RETENTION_ARGUMENTS = (RETENTION, RETENTION_BYTES)
"""Time and bytes for which a queue retains settled messages, for readers of its topic."""
DEAD_LETTER_EXCHANGE = "x-dead-letter-exchange"
MS_MAX = 315_360_000_000
"""Ten years in milliseconds: the longest message TTL and queue expiry."""
PRIORITY_MAX = 255
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


def age_ms(age: object) -> int | None:
    """Return an age such as `7D` or `12h` in milliseconds, or None if it is no age."""
    match = _AGE.fullmatch(age) if isinstance(age, str) else None
    return int(match[1]) * _AGE_MS[match[2]] or None if match else None


def stream_offset(value: object) -> StreamOffset | None:
    """Return the offset that a stream consumer begins at, or None if the value is invalid."""
    kind = kind_of(value)
    if kind == "timestamp":
        return StreamOffset(StreamStart.TIMESTAMP, int(cast("int", value)) * 1000)
    if kind in INTEGER_KINDS:
        return StreamOffset(StreamStart.OFFSET, max(0, int(cast("int", value))))
    if value in {"first", "last", "next"} if kind == "longstr" else False:
        return StreamOffset(StreamStart(value))
    age = age_ms(value)
    return None if age is None else StreamOffset(StreamStart.AGE, age)


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


def _known(known: tuple[str, ...], unknown: str) -> Check:
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
    return problem or (None if age_ms(value) else "invalid_max_age")


def _retention_problem(value: object, arguments: Arguments) -> str | None:
    problem = _string_problem(value, arguments)
    return problem or (None if age_ms(value) else '"expected an age such as 7D or 12h"')


def _stream_offset_problem(value: object, _: Arguments) -> str | None:
    if stream_offset(value) is not None:
        return None
    return f"{{invalid_stream_offset_arg,{{{kind_of(value)},{term(value)}}}}}"


def _stream_filter_problem(value: object, _: Arguments) -> str | None:
    if not isinstance(value, list) or any(kind_of(each) == "longstr" for each in value):
        return None
    return '"expected a string, or an array with one"'


queue_type_problem = _known(
    (*(queue_type.value for queue_type in QueueType), _QUEUE_TYPE_UNSET),
    "\"unsupported queue type '{}'\"",
)
QUEUE_CHECKS: dict[str, Check] = {
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
CONSUMER_CHECKS: dict[str, Check] = {
    "x-priority": _integer_problem,
    "x-stream-offset": _stream_offset_problem,
    "x-stream-filter": _stream_filter_problem,
}

"""Later delivery of messages: the 18 levels, any time, and the handles that recall them.

A message names its delay by properties. The first of these that it has counts:

    DELAY               a level, 1 to 18; a higher one counts as 18
    TIMER_DELAY_SEC     seconds from now
    TIMER_DELAY_MS      milliseconds from now
    TIMER_DELIVER_MS    a time, ms since 1970; one that has passed is now

A recall handle is text for the client, Base64 of `v1 <topic> <broker> <time, ms> <unique key>`.
"""

import base64
import re
from typing import NamedTuple

from headrace.model.errors import Malformed
from headrace.wire.rocketmq.properties import find_property, with_property_if_room
from headrace.wire.rocketmq.sent_messages import MessageIllegal

DELAY = b"DELAY"
TIMER_DELAY_SECONDS = b"TIMER_DELAY_SEC"
TIMER_DELAY_MS = b"TIMER_DELAY_MS"
TIMER_DELIVER_MS = b"TIMER_DELIVER_MS"
TIMER_OUT_MS = b"TIMER_OUT_MS"
"""The time at which a delayed message is due, added by the broker."""
REAL_TOPIC = b"REAL_TOPIC"
REAL_QUEUE_ID = b"REAL_QID"
"""The topic and the queue for which a message waits, added by the broker."""
LEVEL_SECONDS = (
    1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200,
)  # fmt: skip
"""The delay of each level from 1 on: RocketMQ's default `messageDelayLevel`."""
LEVEL_MAX = len(LEVEL_SECONDS)
_TIMERS = ((TIMER_DELAY_SECONDS, 1000), (TIMER_DELAY_MS, 1))
_NUMBER = re.compile(rb"[+-]?[0-9]{1,18}")
_HANDLE_VERSION = "v1"
_HANDLE_WORDS = 5


class LaterDelivery(NamedTuple):
    """When a message is due, and its properties with those that the broker adds."""

    due_ms: int
    properties: bytes
    is_timer: bool
    """Whether the message named a time, not a level: it has a recall handle."""


def later_delivery(properties: bytes, now_ms: int, delay_ms_max: int) -> LaterDelivery | None:
    """Return when a message with these properties is due; None: at once.

    MessageIllegal: a number does not parse, or the delay is more than `delay_ms_max`, which does
    not apply to levels.
    """
    level = _level(properties)
    if level > 0:
        if level > LEVEL_MAX:
            level = LEVEL_MAX
            properties = with_property_if_room(properties, DELAY, b"%d" % LEVEL_MAX)
        return LaterDelivery(now_ms + LEVEL_SECONDS[level - 1] * 1000, properties, False)
    due_ms = _timer_due_ms(properties, now_ms)
    if due_ms is None or due_ms <= now_ms or find_property(properties, TIMER_OUT_MS) is not None:
        return None
    if due_ms - now_ms > delay_ms_max:
        raise MessageIllegal(
            "timer message illegal, the delay time should not be bigger than the max delay"
            f" {delay_ms_max}ms; or if set del msg, the delay time should be bigger than the"
            " current time"
        )
    return LaterDelivery(
        due_ms, with_property_if_room(properties, TIMER_OUT_MS, b"%d" % due_ms), True
    )


def asks_for_delay(properties: bytes) -> bool:
    """Return whether a message has any property of a delay."""
    names = (DELAY, TIMER_DELAY_SECONDS, TIMER_DELAY_MS, TIMER_DELIVER_MS)
    return any(find_property(properties, name) for name in names)


def _level(properties: bytes) -> int:
    raw = find_property(properties, DELAY)
    return 0 if raw is None else _number(DELAY, raw)


def _timer_due_ms(properties: bytes, now_ms: int) -> int | None:
    for name, unit_ms in _TIMERS:
        raw = find_property(properties, name)
        if raw is not None:
            return now_ms + _number(name, raw) * unit_ms
    raw = find_property(properties, TIMER_DELIVER_MS)
    return None if raw is None else _number(TIMER_DELIVER_MS, raw)


def _number(name: bytes, raw: bytes) -> int:
    if not _NUMBER.fullmatch(raw):
        raise MessageIllegal(f"property {name.decode()} of the message is not a number")
    return int(raw)


class RecallHandle(NamedTuple):
    """A delayed message, as its producer names it to recall it."""

    topic: str
    broker_name: str
    due_ms: int
    unique_key: str


def encode_recall_handle(handle: RecallHandle) -> str:
    """Encode a handle."""
    words = (_HANDLE_VERSION, handle.topic, handle.broker_name, str(handle.due_ms))
    return base64.urlsafe_b64encode(" ".join((*words, handle.unique_key)).encode()).decode()


def decode_recall_handle(text: str) -> RecallHandle:
    """Decode a handle. Malformed: the text has another form."""
    try:
        words = (
            base64.b64decode(text, altchars=b"-_", validate=True)
            .decode()
            .split(" ", _HANDLE_WORDS - 1)
        )
    except ValueError:
        words = []
    if len(words) != _HANDLE_WORDS or words[0] != _HANDLE_VERSION:
        raise Malformed("recall handle is invalid")
    _, topic, broker_name, due, unique_key = words
    if not _NUMBER.fullmatch(due.encode()):
        raise Malformed("recall handle is invalid")
    return RecallHandle(topic, broker_name, int(due), unique_key)

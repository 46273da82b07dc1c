"""The fields of the requests that Headrace handles, read from a command's header.

A field that is missing or does not parse is Malformed for this request alone: it is answered with
SYSTEM_ERROR and the text, as RocketMQ answers with the text of a Java exception.

Codes 310 and 320 name the fields of a send by letters, code 10 by words; they are the same fields.
"""

from typing import NamedTuple

from headrace.model.errors import Malformed
from headrace.wire.rocketmq.codes import RequestCode
from headrace.wire.rocketmq.commands import RemotingCommand, utf8

_INT32 = range(-(1 << 31), 1 << 31)
_INT64 = range(-(1 << 63), 1 << 63)
_DIGITS_MAX = 20
_DIGITS_OF_32_BITS = 10
"""Numbers of fewer digits have 32 bits."""
_TRUE = ("true", "1", "True")
DEFAULT_QUEUES_MAX = 8
"""Queues of a topic that a send creates, at most: RocketMQ's `defaultTopicQueueNums`."""


class InvalidField(Malformed):
    """A request's field that is missing or does not parse; only this request fails."""


class Fields:
    """The fields of one request, read by name."""

    __slots__ = ("_fields",)

    def __init__(self, command: RemotingCommand) -> None:
        self._fields = command.fields or {}

    def text(self, name: str, default: str | None = None) -> str:
        """Return a field. InvalidField: it is missing, and there is no default."""
        value = self._fields.get(name, default)
        if value is None:
            raise InvalidField(f"the request has no field {name}")
        return value

    def number(self, name: str, default: int | None = None, *, within: range = _INT32) -> int:
        """Return an integer. InvalidField: it is missing without a default, or out of range."""
        raw = self._fields.get(name)
        if raw and len(raw) < _DIGITS_OF_32_BITS and raw.isascii() and raw.isdigit():
            return int(raw)  # nearly every field
        if raw is None or not raw:
            if default is None:
                raise InvalidField(f"the request has no field {name}")
            return default
        digits = raw.removeprefix("-")
        if len(digits) > _DIGITS_MAX or not (digits.isascii() and digits.isdigit()):
            raise InvalidField(f"field {name} of the request is not a number")
        value = int(raw)
        if value not in within:
            raise InvalidField(f"field {name} of the request is out of range: {value}")
        return value

    def number_if_any(self, name: str) -> int | None:
        """Return an integer, None if the field is missing. InvalidField: it does not parse."""
        return self.number(name) if self._fields.get(name) else None

    def long(self, name: str, default: int | None = None) -> int:
        """Return an integer of 64 bits, as `number`."""
        return self.number(name, default, within=_INT64)

    def boolean(self, name: str) -> bool:
        """Return a boolean; the C++ client writes 1 and 0. A missing one is False."""
        return self._fields.get(name) in _TRUE


class SendRequest(NamedTuple):
    """Requests 10, 310 and 320, and 324 and 325."""

    producer_group: str
    topic: str
    default_topic: str
    """The topic whose settings a missing one is created with."""
    default_queues: int
    queue_id: int
    system_flag: int
    born_at_ms: int
    flag: int
    properties: bytes
    reconsume_times: int
    reconsume_times_max: int | None
    """Of a consumer's send to its retry topic: the attempts before a message is dead."""
    is_batch: bool


_WORDS = (
    "producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag",
    "bornTimestamp", "flag", "properties", "reconsumeTimes", "maxReconsumeTimes", "batch",
)  # fmt: skip
_LETTERS = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "l", "m")


_NAMED_BY_WORDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE)


def send_request(command: RemotingCommand) -> SendRequest:
    """Read a send. Raises InvalidField."""
    fields = Fields(command)
    names = _WORDS if command.code in _NAMED_BY_WORDS else _LETTERS
    (
        group, topic, default_topic, queues, queue_id, system_flag, born, flag, raw, again, limit,
        batch,
    ) = names  # fmt: skip
    return SendRequest(
        fields.text(group),
        fields.text(topic),
        fields.text(default_topic),
        fields.number(queues),
        fields.number(queue_id),
        fields.number(system_flag),
        fields.long(born),
        fields.number(flag),
        utf8(fields.text(raw, "")),
        fields.number(again, 0),
        fields.number_if_any(limit),
        command.code == RequestCode.SEND_BATCH_MESSAGE or fields.boolean(batch),
    )


class PullFlag:
    """The bits of a pull's system flag: plain integers, as each pull is asked for them."""

    COMMIT_OFFSET = 0x1
    SUSPEND = 0x2
    SUBSCRIPTION = 0x4
    CLASS_FILTER = 0x8
    LITE_PULL = 0x10


class PullRequest(NamedTuple):
    """Requests 11 and 361."""

    consumer_group: str
    topic: str
    queue_id: int
    queue_offset: int
    messages_max: int
    system_flag: int
    commit_offset: int
    suspend_ms: int
    """How long the request may wait for messages; counts with PullFlag.SUSPEND only."""
    subscription: str
    subscription_version: int
    expression_type: str
    bytes_max: int


def pull_request(command: RemotingCommand) -> PullRequest:
    """Read a pull. Raises InvalidField."""
    fields = Fields(command)
    return PullRequest(
        fields.text("consumerGroup"),
        fields.text("topic"),
        fields.number("queueId"),
        fields.long("queueOffset"),
        fields.number("maxMsgNums"),
        fields.number("sysFlag"),
        fields.long("commitOffset"),
        fields.long("suspendTimeoutMillis"),
        fields.text("subscription", ""),
        fields.long("subVersion"),
        fields.text("expressionType", "TAG"),
        fields.number("maxMsgBytes", _INT32[-1]),
    )


class QueueRequest(NamedTuple):
    """Requests 29 to 32, which name a queue."""

    topic: str
    queue_id: int


def queue_request(command: RemotingCommand) -> QueueRequest:
    """Read the queue that a request names. Raises InvalidField."""
    fields = Fields(command)
    return QueueRequest(fields.text("topic"), fields.number("queueId"))


class OffsetRequest(NamedTuple):
    """Requests 14 and 15: a group's offset of a queue."""

    consumer_group: str
    topic: str
    queue_id: int
    commit_offset: int
    """Of request 15."""
    zero_if_missing: bool
    """Of request 14: whether the rule for new groups may answer 0."""


def offset_request(command: RemotingCommand) -> OffsetRequest:
    """Read a query or an update of an offset. Raises InvalidField."""
    fields = Fields(command)
    update = command.code == RequestCode.UPDATE_CONSUMER_OFFSET
    return OffsetRequest(
        fields.text("consumerGroup"),
        fields.text("topic"),
        fields.number("queueId"),
        fields.long("commitOffset") if update else -1,
        fields.text("setZeroIfNotFound", "true") != "false",
    )

"""Names of RocketMQ's topics as names of Kafka's topics, and back.

RocketMQ allows letters, digits, `_`, `-`, `%` and `|`, Kafka letters, digits, `.`, `_` and `-`. A
RocketMQ name has no dot, so the dot escapes: `%` is `.25` and `|` is `.7C`, as in a URL. RocketMQ's
own topics, which begin with `%` or `RMQ_SYS_`, lie below the reserved prefix:

    orders                 orders
    INST%orders            INST.25orders
    %RETRY%billing         __rocketmq..25RETRY.25billing
    RMQ_SYS_TRACE_TOPIC    __rocketmq.RMQ_SYS_TRACE_TOPIC

The encoding is injective. Kafka's topics with other dots in their names have no RocketMQ name, nor
have those that begin with `RMQ_SYS_` themselves.
"""

import re

from headrace.model.errors import Malformed

RESERVED_PREFIX = "__rocketmq."
"""The first characters of the topics that RocketMQ's clients cannot create."""
TOPIC_CHARACTERS_MAX = 127
GROUP_CHARACTERS_MAX = 120
RETRY_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
"""The topic to which clients send the traces of messages."""
AUTO_CREATE_TOPIC = "TBW102"
"""The name whose route a producer asks for when its topic does not exist."""
NOT_SENDABLE = frozenset(
    (
        "OFFSET_MOVED_EVENT",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "SCHEDULE_TOPIC_XXXX",
        "SELF_TEST_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
    )
)
"""RocketMQ's topics that clients may not send to."""
_NOT_CREATABLE = NOT_SENDABLE | {AUTO_CREATE_TOPIC, "BenchmarkTest"}
_KAFKA_CHARACTERS_MAX = 249
_OWN = re.compile(r"%|rmq_sys_", re.IGNORECASE)
SHOWN_MAX = 255
"""Characters of a wrong name in an error at most."""
_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")
_ESCAPED = re.compile(r"\.(25|7C)")
_CHARACTERS = {"25": "%", "7C": "|"}


def check_name(name: str, characters_max: int, noun: str) -> None:
    """Raise Malformed if `name` is no RocketMQ name of a topic or a group; `noun` says of which."""
    if not name:
        raise Malformed(f"The specified {noun} is blank.")
    if len(name) > characters_max:
        raise Malformed(
            f"The specified {noun}: {name[:SHOWN_MAX]}, is longer than {noun} max length:"
            f" {characters_max}"
        )
    if not _LEGAL.fullmatch(name):
        raise Malformed(
            f"The specified {noun}: {name}, contains illegal characters, allowing only"
            " ^[%|a-zA-Z0-9_-]+$"
        )


def is_own(topic: str) -> bool:
    """Return whether a RocketMQ name is that of a topic of RocketMQ's own, below the prefix."""
    return _OWN.match(topic) is not None


def is_creatable(topic: str) -> bool:
    """Return whether clients may create a topic of this RocketMQ name by request 17."""
    return not is_own(topic) and topic not in _NOT_CREATABLE


def kafka_name(topic: str) -> str:
    """Return Kafka's name of a RocketMQ topic. Malformed: Kafka has no name for it."""
    name = topic.replace("%", ".25").replace("|", ".7C")
    if is_own(topic):
        name = RESERVED_PREFIX + name
    if not _LEGAL.fullmatch(topic) or len(name) > _KAFKA_CHARACTERS_MAX:
        raise Malformed(f"topic {topic!r} has no Kafka name")
    return name


def rocketmq_name(topic: str) -> str | None:
    """Return RocketMQ's name of a Kafka topic, None if it has none."""
    own = topic.removeprefix(RESERVED_PREFIX)
    is_reserved = own != topic and (own.startswith(".25") or is_own(own))
    escaped = own if is_reserved else topic
    name = _ESCAPED.sub(lambda found: _CHARACTERS[found[1]], escaped)
    if "." in name or is_own(name) is not is_reserved:
        return None
    return name


def group_of(topic: str) -> str | None:
    """Return the group whose retries or dead letters a topic has, None if it has none."""
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if topic.startswith(prefix) and len(topic) > len(prefix):
            return topic.removeprefix(prefix)
    return None

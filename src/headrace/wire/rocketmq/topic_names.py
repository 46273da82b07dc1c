"""Names of RocketMQ's topics as names of Kafka's topics, and back.

RocketMQ allows letters, digits, `_`, `-`, `%` and `|`, Kafka letters, digits, `.`, `_` and `-`. A
RocketMQ name has no dot, so the dot escapes: `%` is `.25` and `|` is `.7C`, as in a URL. RocketMQ's
own topics, which begin with `%`, lie below the reserved prefix:

    orders            orders
    INST%orders       INST.25orders
    %RETRY%billing    __rocketmq..25RETRY.25billing

The encoding is injective. Kafka's topics with other dots in their names have no RocketMQ name.
"""

import re

from headrace.model.errors import Malformed

RESERVED_PREFIX = "__rocketmq."
"""The first characters of the topics that RocketMQ's clients cannot create."""
TOPIC_CHARACTERS_MAX = 127
GROUP_CHARACTERS_MAX = 120
RETRY_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"
_KAFKA_CHARACTERS_MAX = 249
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


def kafka_name(topic: str) -> str:
    """Return Kafka's name of a RocketMQ topic. Malformed: Kafka has no name for it."""
    name = topic.replace("%", ".25").replace("|", ".7C")
    if topic.startswith("%"):
        name = RESERVED_PREFIX + name
    if not _LEGAL.fullmatch(topic) or len(name) > _KAFKA_CHARACTERS_MAX:
        raise Malformed(f"topic {topic!r} has no Kafka name")
    return name


def rocketmq_name(topic: str) -> str | None:
    """Return RocketMQ's name of a Kafka topic, None if it has none."""
    reserved = topic.startswith(RESERVED_PREFIX + ".25")
    escaped = topic.removeprefix(RESERVED_PREFIX) if reserved else topic
    name = _ESCAPED.sub(lambda found: _CHARACTERS[found[1]], escaped)
    if "." in name or name.startswith("%") is not reserved:
        return None
    return name


def group_of(topic: str) -> str | None:
    """Return the group whose retries or dead letters a topic has, None if it has none."""
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if topic.startswith(prefix) and len(topic) > len(prefix):
            return topic.removeprefix(prefix)
    return None

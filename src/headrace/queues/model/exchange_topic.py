"""Exchanges that store messages in a Kafka topic, and streams that read one: their arguments.

`x-headrace-topic` names the topic. A record's key is the routing key, or the value of the header
that `x-headrace-key-header` names; an empty or missing value is no key. Routes name such a topic by
a text that no queue can have as its name (`target_name`). Messages published to a stream that reads
a topic are stored in the topic: in routes the topic stands for the stream.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from headrace.model.errors import HeadraceError
from headrace.model.nouns import INTERNAL_TOPICS, METADATA_TOPIC, topic_name_problem
from headrace.model.protocols import is_closed
from headrace.queue_stores.queue_settings import ExchangeTopic
from headrace.queues.field_values import kind_of
from headrace.queues.permissions.access import FULL_ACCESS, Access, Permission
from headrace.queues.queue_names import is_queue_topic
from headrace.queues.refusals import KAFKA_TOPIC, precondition_failed
from headrace.wire.amqp.field_table import SHORT_STRING_BYTES_MAX

TOPIC = "x-headrace-topic"
KEY_HEADER = "x-headrace-key-header"
ARGUMENTS = (TOPIC, KEY_HEADER)
_MARK = "\n"
"""First character of a target's name: line ends are removed from queues' names."""


TopicReady = Callable[[HeadraceError | None], None]


class KafkaTopics(Protocol):
    """The broker's topics, for exchanges that store in them and streams that read them."""

    def check(self, topic: str, resource: str, access: Access) -> None:
        """Raise Refused if a topic does not exist and is not created automatically."""

    def check_read(self, topic: str, resource: str) -> None:
        """Raise Refused if a topic does not exist, or a stream cannot read it."""

    def make(self, topic: str, done: TopicReady) -> None:
        """Create a topic if missing; `done` takes None or the error, now or later."""


class NoTopics:
    """No topics, for vhosts in memory only. Implements `KafkaTopics`."""

    def check(self, topic: str, resource: str, access: Access) -> None:
        """Raise Refused: exchanges cannot store messages here."""
        raise precondition_failed(f"invalid arg '{TOPIC}' for {resource}: nothing is stored here")

    def check_read(self, topic: str, resource: str) -> None:
        """Raise Refused: streams cannot read topics here."""
        self.check(topic, resource, FULL_ACCESS)

    def make(self, topic: str, done: TopicReady) -> None:
        """Call `done(None)`: no topic is to be created."""
        done(None)


def exchange_topic(arguments: Mapping[str, object], resource: str) -> ExchangeTopic | None:
    """Return the topic that arguments name, or None; raise Refused for an invalid one."""
    for name in ARGUMENTS:
        if name in arguments and not isinstance(arguments[name], str):
            kind = kind_of(arguments[name])
            raise precondition_failed(f"invalid type '{kind}' for arg '{name}' in {resource}")
    stored = stored_in(arguments)
    if stored is None:
        if KEY_HEADER in arguments:
            raise precondition_failed(
                f"invalid arg '{KEY_HEADER}' for {resource}: it needs '{TOPIC}' beside it"
            )
        return None
    problem = _problem(stored)
    if problem is not None:
        raise precondition_failed(f"invalid {problem} for {resource}")
    return stored


def stored_in(arguments: Mapping[str, object]) -> ExchangeTopic | None:
    """Return the Kafka topic in an exchange's or a stream's checked arguments, or None."""
    topic, key_header = arguments.get(TOPIC), arguments.get(KEY_HEADER)
    if not isinstance(topic, str):
        return None
    return ExchangeTopic(topic, key_header if isinstance(key_header, str) else None)


def check_reads(
    topics: KafkaTopics, read: ExchangeTopic | None, resource: str, access: Access
) -> None:
    """Raise Refused if the user may not read a stream's topic, or a stream cannot read it."""
    if read is not None:
        access.check(Permission.READ, KAFKA_TOPIC, read.topic)
        topics.check_read(read.topic, resource)


def _problem(stored: ExchangeTopic) -> str | None:
    topic, key_header = stored
    why = topic_name_problem(topic)
    if why is None and is_queue_topic(topic):
        why = "it is kept for a queue's messages: publish to the queue"
    elif topic in INTERNAL_TOPICS or topic == METADATA_TOPIC or is_closed(topic):
        why = "it is the broker's own"
    if why is not None:
        return f"arg '{TOPIC}' '{topic}' ({why})"
    if key_header is None:
        return None
    size = len(key_header.encode("utf-8", "surrogateescape"))
    if not 0 < size <= SHORT_STRING_BYTES_MAX:
        return f"arg '{KEY_HEADER}' (a header's name has 1 to {SHORT_STRING_BYTES_MAX} bytes)"
    return None


def target_name(stored: ExchangeTopic) -> str:
    """Return the name, in routes, of a Kafka topic with its key header (None: no header)."""
    topic, key_header = stored
    return f"{_MARK}{topic}" if key_header is None else f"{_MARK}{topic}{_MARK}{key_header}"


def is_target(name: str) -> bool:
    """Tell whether a name in a route stands for a Kafka topic."""
    return name.startswith(_MARK)


def topic_of_target(name: str) -> ExchangeTopic:
    """Return the Kafka topic and key header of a name made by `target_name`."""
    topic, _, key_header = name.removeprefix(_MARK).partition(_MARK)
    return ExchangeTopic(topic, key_header or None)

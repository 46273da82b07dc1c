"""The names of queues' topics: each queue is a topic, named by its vhost and its name.

A topic's name has letters, digits, `.`, `_` and `-`, at most 249 characters; a queue's name has any
255 bytes. So `_` is doubled, and other bytes become `_` and two hexadecimal digits. A name that
becomes too long is a hash, from which the queue cannot be derived.

    __amqp.queue.orders             the queue `orders` of the vhost `/`
    __amqp.vhost.shop.my__orders    the queue `my_orders` of the vhost `shop`
    __amqp.hash.9f86d081...         a longer one
    __amqp.declarations             no queue: the log of durable declarations

Kafka's CreateTopics refuses names with this prefix. Kafka's rule that `a.b` and `a_b` exclude each
other does not apply to them. Exchanges hold no messages and have no topics.
"""

import re
from hashlib import sha256
from typing import NamedTuple

from headrace.model.nouns import TOPIC_NAME_CHARS_MAX
from headrace.model.protocols import AMQP_TOPICS

DEFAULT_VHOST = "/"
DECLARATIONS_TOPIC = f"{AMQP_TOPICS.prefix}declarations"
"""The topic of durable exchanges, queues and bindings of all vhosts; closed to clients."""
_OF_DEFAULT_VHOST = f"{AMQP_TOPICS.prefix}queue."
_OF_VHOST = f"{AMQP_TOPICS.prefix}vhost."
_HASHED = f"{AMQP_TOPICS.prefix}hash."
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.")
_ESCAPED = re.compile("__|_[0-9a-f]{2}")


class QueueName(NamedTuple):
    """A queue by its vhost's name and its own."""

    vhost: str
    queue: str


def is_queue_topic(topic: str) -> bool:
    """Return whether a topic's name is reserved for queues."""
    return topic.startswith(AMQP_TOPICS.prefix) and topic != DECLARATIONS_TOPIC


def queue_topic(vhost: str, queue: str) -> str:
    """Return the name of the Kafka topic that stores a queue."""
    if vhost == DEFAULT_VHOST:
        topic = f"{_OF_DEFAULT_VHOST}{_encoded(queue)}"
    else:
        # The first dot ends the vhost, so a dot in the vhost's name is escaped.
        topic = f"{_OF_VHOST}{_encoded(vhost).replace('.', '_2e')}.{_encoded(queue)}"
    return topic if len(topic) <= TOPIC_NAME_CHARS_MAX else f"{_HASHED}{_digest(vhost, queue)}"


def queue_of_topic(topic: str) -> QueueName | None:
    """Return the queue that a topic's name encodes; None: it encodes none, or is a hash."""
    name = None
    if topic.startswith(_OF_DEFAULT_VHOST):
        name = QueueName(DEFAULT_VHOST, _decoded(topic.removeprefix(_OF_DEFAULT_VHOST)))
    elif topic.startswith(_OF_VHOST):
        vhost, _, queue = topic.removeprefix(_OF_VHOST).partition(".")
        name = QueueName(_decoded(vhost), _decoded(queue))
    # A name that `queue_topic` would not return names no queue: names are unique.
    return name if name is not None and queue_topic(*name) == topic else None


def _encoded(name: str) -> str:
    encoded = (
        chr(byte) if byte in _PLAIN else "__" if byte == ord("_") else f"_{byte:02x}"
        for byte in name.encode("utf-8", "surrogateescape")
    )
    return "".join(encoded)


def _decoded(encoded: str) -> str:
    plain = _ESCAPED.sub(_byte, encoded)
    return plain.encode("latin-1", "replace").decode("utf-8", "surrogateescape")


def _byte(escape: re.Match[str]) -> str:
    return "_" if escape[0] == "__" else chr(int(escape[0][1:], 16))


def _digest(vhost: str, queue: str) -> str:
    first = vhost.encode("utf-8", "surrogateescape")
    second = queue.encode("utf-8", "surrogateescape")
    return sha256(b"%d:%b%b" % (len(first), first, second)).hexdigest()

"""Plain values of the log of declarations: changes to append, and loaded declarations."""

from typing import NamedTuple

from headrace.model.protocols import AMQP_TOPICS
from headrace.queues.model.stored_model import Record
from headrace.queues.queue_names import DECLARATIONS_TOPIC

PARTITIONS = AMQP_TOPICS.internal_partitions
OFFLINE = f"{DECLARATIONS_TOPIC} is offline: repair its log directory, then restart the broker"
"""The text of an error if the log cannot be appended to."""


class Change(NamedTuple):
    """The new value of a declaration's key."""

    vhost: str
    value: bytes | None
    """None: the declaration is deleted."""


class Loaded(NamedTuple):
    """The durable declarations as the log has them."""

    records: dict[bytes, tuple[str, Record]]
    """Vhost and record of each declaration by its key."""
    all_read: bool
    """False: some records could not be read, so their queues are unknown."""
    is_empty: bool
    """Whether no record was ever appended, or all were lost: topics of queues prove the latter."""

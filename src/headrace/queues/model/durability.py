"""The port to durable storage: declarations of vhosts, messages of durable queues.

Without an implementation everything is in memory.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from headrace.model.errors import HeadraceError
from headrace.queues.model.bindings import Removed
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.model.exchange_topic import KafkaTopics, NoTopics
from headrace.queues.model.exchanges import Binding, Exchange
from headrace.queues.model.policies.vhost_policy import PolicyId, VhostPolicy

if TYPE_CHECKING:
    from headrace.queue_stores.message_store import MessageStore, TopicStore

Declared = Exchange | DeclaredQueue | Binding | VhostPolicy
KeptDone = Callable[[HeadraceError | None], None]


class Model(Protocol):
    """The durable part of a vhost's model. Implemented by `virtual_host.VirtualHost`."""

    @property
    def name(self) -> str: ...

    @property
    def exchanges(self) -> Mapping[str, Exchange]: ...

    @property
    def queues(self) -> Mapping[str, DeclaredQueue]: ...

    @property
    def policies(self) -> Mapping[PolicyId, VhostPolicy]: ...


class Declarations(Protocol):
    """Storage of durable declarations of all vhosts: exchanges, queues, bindings and policies."""

    @property
    def topics(self) -> KafkaTopics:
        """The Kafka topics in which exchanges may store messages."""

    def added(self, host: Model, declared: Declared) -> None:
        """Store a new exchange, queue or binding, if durable, or a policy that is set."""

    def removed(self, host: Model, removed: Removed) -> None:
        """Delete removed declarations, and the logs of deleted queues."""

    def when_kept(self, done: KeptDone) -> None:
        """Call `done` with None once all changes so far are stored, or with the error."""


class Durability(Declarations, Protocol):
    """Storage of durable declarations and of the messages of durable queues."""

    def make_store(self, vhost: str, queue: DeclaredQueue, priority: int) -> "MessageStore":
        """Make the message store of one priority of a durable queue."""

    def topic_store(self, topic: str) -> "TopicStore":
        """Return the store of messages that exchanges store in a Kafka topic."""


class NothingKept:
    """Declarations in memory only. Implements `Declarations`."""

    topics: KafkaTopics = NoTopics()

    def added(self, host: Model, declared: Declared) -> None:
        """Ignore a new declaration: nothing is durable."""

    def removed(self, host: Model, removed: Removed) -> None:
        """Ignore a removed declaration: nothing is durable."""

    def when_kept(self, done: KeptDone) -> None:
        """Call `done(None)` at once: there is nothing to store."""
        done(None)

"""What outlives a broker of its vhosts: durable declarations, and messages of durable queues.

The port of whoever keeps them. Without one, all is in memory.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from headrace.model.errors import HeadraceError
from headrace.queues.model.bindings import Removed
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.model.exchange_topic import KafkaTopics, NoTopics
from headrace.queues.model.exchanges import Binding, Exchange

if TYPE_CHECKING:
    from headrace.queues.message_store import MessageStore, TopicStore

Declared = Exchange | DeclaredQueue | Binding
KeptDone = Callable[[HeadraceError | None], None]


class Model(Protocol):
    """The model of a vhost, as far as it tells what is durable. `virtual_host.VirtualHost`."""

    @property
    def name(self) -> str: ...

    @property
    def exchanges(self) -> Mapping[str, Exchange]: ...

    @property
    def queues(self) -> Mapping[str, DeclaredQueue]: ...


class Declarations(Protocol):
    """Keeps what is declared in virtual hosts, as far as it is durable."""

    @property
    def topics(self) -> KafkaTopics:
        """The topics in which exchanges may store messages."""

    def added(self, host: Model, declared: Declared) -> None:
        """Keep what was declared, or is bound now."""

    def removed(self, host: Model, removed: Removed) -> None:
        """Keep it no longer, and drop the logs of queues."""

    def when_kept(self, done: KeptDone) -> None:
        """Tell `done` once all changes so far are kept for good, or why they are not."""


class Durability(Declarations, Protocol):
    """Keeps declarations, and the messages of durable queues."""

    def make_store(self, vhost: str, queue: DeclaredQueue, priority: int) -> "MessageStore":
        """Make the store of one priority of a durable queue."""

    def topic_store(self, topic: str) -> "TopicStore":
        """Return what stores messages in a Kafka topic."""


class NothingKept:
    """Declarations that live in memory alone."""

    topics: KafkaTopics = NoTopics()

    def added(self, host: Model, declared: Declared) -> None:
        """Keep nothing."""

    def removed(self, host: Model, removed: Removed) -> None:
        """Keep nothing."""

    def when_kept(self, done: KeptDone) -> None:
        """Tell that all there is to keep is kept."""
        done(None)

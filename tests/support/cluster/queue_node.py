"""A broker of `replicated_queue`: its partition, its copies, and the queue while it leads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace.broker.partition import Partition
from headrace.copies.copying import Copying
from headrace.copies.messages import CopyAnswer, CopyQuestion
from headrace.copies.settled_follower import SettledFollower
from headrace.model.errors import ApiError, HeadraceError
from headrace.model.invariant import InvariantError
from headrace.model.nouns import BrokerId
from headrace.ports.callbacks import Done
from headrace.queue_stores.log.log_messages import LogMessages
from headrace.queue_stores.log.message_window import WindowsBytes
from headrace.queue_stores.log.settled_files import SettledFiles
from headrace.queues.engine.message_queue import MessageQueue
from tests.support.amqp.deliveries import ChannelKit
from tests.support.cluster.three_replicas import Node, Violation
from tests.support.queues.log import PLACE
from tests.support.queues.queues import settings

_Heard = Sequence[CopyAnswer] | ApiError


@dataclass
class Request:
    """A request about copies that is on its way, or its answer."""

    source: "QueueNode"
    process: int
    """The process of the source that sent it."""
    target: BrokerId
    questions: Sequence[CopyQuestion]
    done: Done[_Heard]
    answers: Sequence[CopyAnswer] | None = None

    def end(self, answers: _Heard) -> None:
        if self.source.process == self.process and self.source.alive:
            self.done(answers)


class Wire:
    """Carries a broker's requests. Implements `CopyTransport`."""

    def __init__(self, node: "QueueNode", requests: list[Request]) -> None:
        self.node = node
        self.requests = requests

    def ask(self, broker: BrokerId, questions: Sequence[CopyQuestion], done: Done[_Heard]) -> None:
        self.requests.append(Request(self.node, self.node.process, broker, questions, done))


class Listening:
    """The listener of one store of a broker's queue. Implements `StoreListener`."""

    def __init__(self, node: "QueueNode") -> None:
        self.node = node
        self.store: LogMessages | None = None

    @property
    def is_present(self) -> bool:
        """Whether the store is that of the broker's present term."""
        return self.node.store is self.store

    def appended(self) -> None:
        """Note nothing: the turn's end writes."""

    def broke(self, error: InvariantError) -> None:
        raise error

    def confirmed(self, upto: int) -> None:
        if not self.is_present:
            raise Violation(f"{self.node.id} confirms messages after it resigned")
        self.node.confirmed(upto)

    def readable(self) -> None:
        """Note nothing: the next delivery looks again."""

    def arrived(self, count: int, size: int) -> None:
        if self.node.queue is not None and self.is_present:
            self.node.queue.note_arrived(0, count, size, self.node.now)

    def note_held(self, size: int) -> None:
        """Note nothing: no publisher is paused."""

    def failed(self, error: HeadraceError) -> None:
        """Drop the queue: it is loaded again with the next term."""
        if self.is_present:
            self.node.queue = None


@dataclass
class QueueNode(Node):
    """A broker, with the queue while it leads."""

    requests: list[Request] = field(default_factory=list)
    process: int = 0
    store: LogMessages | None = None
    queue: MessageQueue | None = None
    epoch: int = -1
    """The leader epoch in which the queue was hosted, or went on."""
    sent: dict[int, str] = field(default_factory=dict)
    """Published messages that are not confirmed, by the position up to which they will be."""
    held: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Unacknowledged messages and their positions, by delivery tag."""
    acked: dict[str, int] = field(default_factory=dict)
    """Positions of acknowledged messages that are not known to be durably so."""
    stored: "Callable[[QueueNode, str], None]" = lambda *_: None
    """Called with the body of a confirmed message."""
    refused: set[str] = field(default_factory=set)
    """Messages that were not written when the broker resigned: reported as unstored."""
    former: list[tuple[ChannelKit, list[int]]] = field(default_factory=list)
    """Channels of former terms, with the tags that their clients still hold."""

    def open(self) -> None:
        self.process += 1
        self.store = self.queue = None
        self.windows = WindowsBytes()
        self.former.clear()
        log = self.world.log(PLACE)
        self.partition = Partition(log, flusher=self.world.directory.flusher)
        self.files = SettledFiles(self.world.disk, self.world.clock)
        self.followed = SettledFollower(self.files, lambda _: self.partition)
        self.copying = Copying(
            self.id, self.files, self.world.clock, Wire(self, self.requests), self.followed
        )

    @property
    def now(self) -> float:
        return self.world.clock.monotonic()

    def host(self) -> None:
        """Load the queue, as its leader."""
        self.unhost()
        listening = Listening(self)
        store = self.store = listening.store = LogMessages(
            self.partition,
            self.files,
            self.world.clock,
            listening,
            handed_out_ahead=5,
            windows=self.windows,
            copies=self.copying,
        )
        self.channel = ChannelKit(1)

        def loaded(error: HeadraceError | None) -> None:
            if error is None and self.store is store:
                self.queue = MessageQueue("queue 'q'", settings(), lambda _: store, self.now)

        store.load(loaded)

    def unhost(self) -> None:
        """End the queue here: another broker leads."""
        store, self.store = self.store, None
        self.queue = None
        if store is not None:
            logged = {(value or b"").decode() for value in self.content().values()}
            self.refused.update(body for body in self.sent.values() if body not in logged)
            if self.held:
                self.former.append((self.channel, sorted(self.held)))
            store.resign()
        self.sent.clear()
        self.held.clear()
        self.acked.clear()

    def confirmed(self, upto: int) -> None:
        """Note that messages are stored whose positions end at `upto` or before."""
        for end in [end for end in self.sent if end <= upto]:
            self.stored(self, self.sent.pop(end))

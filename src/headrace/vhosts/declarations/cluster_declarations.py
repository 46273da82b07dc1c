"""`ClusterDeclarations`: the declarations of a cluster, as one of its brokers has them (ADR 76).

    a client's method ──► coordinator of the vhost: this broker or another ──► committed, applied
                                                                                  by all brokers
    answered ◄── this broker's table has it ◄──────────────────────────────────── answer

Each broker has the declarations of all vhosts: its own coordinators' changes, and by polls those of
others.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.cluster.peers.peer_call import Fields
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.model.nouns import BrokerId, Offset
from headrace.model.protocols import AMQP
from headrace.ports.callbacks import Done, Once, gather
from headrace.ports.store import StoreError
from headrace.posix.awaiting import called_back
from headrace.queue_stores.message_store import MessageStore, TopicStore
from headrace.queues.engine.virtual_hosts import VirtualHosts
from headrace.queues.model.bindings import Removed
from headrace.queues.model.declaration_table import Applied
from headrace.queues.model.declarations import ConnectionOwner, DeclaredQueue
from headrace.queues.model.durability import Declared, KeptDone, Model
from headrace.queues.model.stored_model import QueueRecord
from headrace.queues.model.stored_records import record_key
from headrace.queues.queue_names import DECLARATIONS_TOPIC, QueueName
from headrace.shards.ask_leader import LEADER_CHANGES, AskLeader, Retry
from headrace.vhosts.declarations.commands import is_known
from headrace.vhosts.declarations.coordinator import AccessOf, Coordinator
from headrace.vhosts.declarations.follower import Follower, Polls
from headrace.vhosts.declarations.messages import (
    Answer,
    Command,
    CommandKind,
    Poll,
    Result,
    Wanted,
    answer_fields,
    command_of,
    part_fields,
)
from headrace.vhosts.declarations.planned_replicas import planned_replicas
from headrace.vhosts.declarations.queue_deletions import ChangeTopics
from headrace.vhosts.declarations.tables import DeclarationTables
from headrace.vhosts.declarations.takeover import ClusterTakeover, DeclarationNodes
from headrace.wire.amqp.methods import Method
from headrace.wire.amqp.model_methods import QueueDelete
from headrace.wire.amqp.settings import AmqpKeys

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.cluster.peers.conversation import Run
    from headrace.queues.model.exchange_topic import KafkaTopics
    from headrace.replication.fetch_dependencies import Running
    from headrace.vhosts.queue_topics import QueueTopics

CLOSED_SECONDS_MAX = 5.0
"""Seconds for which the answer to connection.close waits for the deletion of exclusive queues, and
that to basic.cancel for the deletion of an auto-delete queue."""
RETRY_SECONDS = 1.0
"""Seconds after which a command of the broker itself is repeated."""
ASK_SECONDS = 30.0
"""Seconds for which a command waits for a coordinator, and for this broker to apply the answer."""


class Links(NamedTuple):
    """The broker's other parts, as its declarations use them."""

    ask: Callable[[BrokerId, Command, Done[Answer | ApiError]], None]
    """Sends a command to another broker."""
    poll: Polls
    epoch: Callable[[], int]
    """Returns the epoch of this broker's registration."""
    knows_topics: Callable[[], bool]
    """Returns whether the metadata image has the cluster's topics."""
    create: Callable[[], Awaitable[object]]
    """Creates the topic of the log if it is missing. Raises ApiError."""
    change_topics: ChangeTopics
    """Has the controller delete topics of queues. Raises ApiError."""
    run: "Run"
    """Starts a task on the event loop."""


class ClusterDeclarations:
    """The declarations of a cluster on one broker. On the event loop.

    Implements `queues.model.durability.Durability` for models that change by commands only.
    """

    def __init__(
        self, broker: "Broker", links: Links, access: AccessOf, stores: "QueueTopics"
    ) -> None:
        """Create before the broker leads partitions; `virtual_hosts` must be set before it joins.

        `access` returns a client's permissions in a vhost. `stores` makes those of messages.
        """
        self._broker = broker
        self._links = links
        self._stores = stores
        self.topics: KafkaTopics = stores.of_exchanges
        self.tables = DeclarationTables(broker)
        self.coordinator = Coordinator(broker, self.tables, access, links.change_topics, links.run)
        self._follower = Follower(broker, self.tables, links.poll)
        self._takeover: ClusterTakeover | None = None
        self._taking: Running | None = None
        self._nodes: DeclarationNodes | None = None
        self._creating = False
        self._open = True
        self._connections = 0
        self._deleted: dict[QueueName, list[Once[object]]] = {}
        """Callbacks that wait for the deletion of a queue."""
        self.tables.changed.append(self._changed)
        self._ask: AskLeader[Command, Answer] = AskLeader(
            broker.broker_id,
            self._leader_of,
            self.coordinator.carry_out,
            links.ask,
            broker.clock,
            Retry(LEADER_CHANGES, ASK_SECONDS),
        )

    def apply_to(self, virtual_hosts: VirtualHosts) -> None:
        """Set the vhosts that have the declarations."""
        self.tables.virtual_hosts = virtual_hosts
        virtual_hosts.delete_ended_by(self._queue_ended)

    def take_over(self, nodes: DeclarationNodes) -> None:
        """Move the declarations of nodes to the log, once the broker has joined.

        Until then no declarations are loaded.
        """
        self._nodes = nodes
        self._takeover = ClusterTakeover(nodes, self._create_log, self.coordinator.take_over)

    def start(self) -> None:
        """Begin to follow: the broker has joined the cluster."""
        self._follower.start()
        if self._takeover is not None:
            self._taking = self._links.run(self._takeover.run())

    def close(self) -> None:
        """End all commands and polls: the broker stops."""
        self._open = False
        if self._taking is not None:
            self._taking.cancel()
        self._follower.close()
        self._ask.close(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker stops"))
        self.coordinator.close()

    @property
    def are_loaded(self) -> bool:
        """Whether this broker has applied the declarations of all vhosts."""
        return self._is_taken_over and self.tables.are_loaded

    def has_loaded(self, vhost: str) -> bool:
        """Tell whether this broker has applied the declarations of a vhost."""
        return self._is_taken_over and self.tables.has_loaded(vhost)

    @property
    def _is_taken_over(self) -> bool:
        """Whether the topics are known, and no node has declarations that the log lacks."""
        done = self._takeover is None or self._takeover.is_done
        return done and self._links.knows_topics()

    # Commands

    def new_owner(self) -> ConnectionOwner:
        """Return the name of a new connection of this broker, as other brokers know it."""
        self._connections += 1
        return ConnectionOwner(self._broker.broker_id, self._links.epoch(), self._connections)

    def connection_closed(
        self, vhost: str, owner: ConnectionOwner, done: Callable[[], None]
    ) -> None:
        """Have the queues deleted that are exclusive to a closed connection.

        `done` is called then, or after `CLOSED_SECONDS_MAX`.
        """
        command = self.command(vhost, CommandKind.CONNECTION_CLOSED)._replace(
            epoch=owner.epoch, connection=owner.connection
        )
        once: Once[object] = Once(lambda _: done())
        timer = self._broker.clock.call_later(CLOSED_SECONDS_MAX, partial(once, None))

        def deleted(answer: object) -> None:
            timer.cancel()
            once(answer)

        self._ask_until_done(command, done=deleted)

    def when_deleted(self, vhost: str, queue: DeclaredQueue, done: Callable[[], None]) -> None:
        """Call `done` once this broker has applied the deletion of a queue that has ended.

        After `CLOSED_SECONDS_MAX` at the latest.
        """
        name = QueueName(vhost, queue.name)
        host = self.tables.virtual_hosts.hosts.get(vhost)
        if host is None or host.model.queues.get(queue.name) is not queue:
            done()
            return
        once: Once[object] = Once(lambda _: done())
        self._deleted.setdefault(name, []).append(once)

        def late() -> None:
            waiting = self._deleted.get(name, [])
            if once in waiting:
                waiting.remove(once)
            once(None)

        self._broker.clock.call_later(CLOSED_SECONDS_MAX, late)

    def _changed(self, vhost: str, applied: Applied) -> None:
        for name in applied.removed.queues:
            for done in self._deleted.pop(QueueName(vhost, name), ()):
                done(None)

    async def delete_vhost(self, vhost: str) -> None:
        """Delete all declarations of a vhost, whose definition is deleted next. Raises ApiError."""
        command = self.command(vhost, CommandKind.VHOST_DELETED)

        def ask(done: Done[Answer | ApiError]) -> None:
            self.ask(command, done)

        await called_back(ask)

    def vhost_deleted(self, vhost: str) -> None:
        """Delete what was declared in a vhost until its definition was deleted."""
        self.coordinator.vhost_deleted(vhost)

    def _queue_ended(self, vhost: str, name: str) -> None:
        """Have a queue deleted that has expired, or that its last consumer left."""
        queues = self.tables.virtual_hosts.hosts[vhost].model.queues
        queue = queues.get(name)
        command = self.command(vhost, CommandKind.QUEUE_ENDED, QueueDelete(queue=name))
        # A queue that was declared again since has not ended.
        self._ask_until_done(command, lambda: queue is not None and queues.get(name) is queue)

    def _ask_until_done(
        self,
        command: Command,
        is_due: Callable[[], bool] = lambda: True,
        done: Done[Answer] = lambda _: None,
    ) -> None:
        """Repeat a command of this broker until a coordinator has carried it out."""

        def answered(answer: Answer | ApiError) -> None:
            if not isinstance(answer, ApiError):
                done(answer)
            elif self._open:
                self._broker.clock.call_later(RETRY_SECONDS, again)

        def again() -> None:
            if self._open and is_due():
                self.ask(command, answered)

        again()

    def command(
        self, vhost: str, kind: CommandKind = CommandKind.METHOD, method: Method | None = None
    ) -> Command:
        """Return a command of this broker, without a client."""
        random = self._broker.random.uuid()
        own, epoch = self._broker.broker_id, self._links.epoch()
        return Command(vhost, kind, own, epoch, method=method, name_bytes=random)

    def ask(self, command: Command, done: Done[Answer | ApiError]) -> None:
        """Have a command carried out by the vhost's coordinator.

        `done` gets the answer once this broker has applied it, so it routes by it. ApiError, after
        `ASK_SECONDS`: no coordinator has answered, and the command may or may not be carried out.
        """

        def answered(answer: Answer | ApiError) -> None:
            if isinstance(answer, Result):
                self._when_applied(command.vhost, answer, done)
            else:
                done(answer)

        self._ask.ask(command, answered)

    def _when_applied(self, vhost: str, result: Result, done: Done[Answer | ApiError]) -> None:
        once: Once[Answer | ApiError] = Once(done)
        late = ApiError(ErrorCode.REQUEST_TIMED_OUT, "this broker is behind in its declarations")
        timer = self._broker.clock.call_later(ASK_SECONDS, lambda: once(late))

        def applied(_: None) -> None:
            timer.cancel()
            once(result)

        self.tables.of_vhost(vhost).when_applied(result.offset, applied)

    def _leader_of(self, command: Command) -> BrokerId:
        if DECLARATIONS_TOPIC not in self._broker.image.topics and not self._creating:
            self._creating = True
            self._links.run(self._create())
        return self.coordinator.leader_of(command.vhost)

    async def _create_log(self) -> None:
        """Create the topic of the log if it is missing. Raises ApiError and StoreError.

        Earlier versions are kept from deleting topics of queues that only the log declares.
        """
        if self._nodes is not None:
            await self._nodes.mark_moved()
        await self._links.create()

    async def _create(self) -> None:
        try:
            await self._create_log()
        except (ApiError, StoreError):
            pass  # the commands that wait look for the topic again
        finally:
            self._creating = False

    def record(self, vhost: str, queue: str) -> QueueRecord | None:
        """Return the record of a queue; None: it is not declared."""
        record = self.tables.record(vhost, record_key(vhost, QueueRecord(queue, False, {})))
        return record if isinstance(record, QueueRecord) else None

    def home_of(self, vhost: str, queue: str) -> BrokerId | None:
        """Return the broker that has a transient queue in memory; None: it is not declared."""
        record = self.record(vhost, queue)
        return BrokerId(record.home[0]) if record is not None and record.home else None

    def planned(self, name: QueueName) -> Sequence[int]:
        """Return the brokers that are planned for a durable queue; none: it is not declared."""
        host = self.tables.virtual_hosts.hosts.get(name.vhost)
        queue = None if host is None else host.model.queues.get(name.queue)
        if queue is None:
            return ()
        record = self.record(*name)
        if record is not None and record.replicas:
            return record.replicas
        # It was declared on a single broker, before that one joined a cluster.
        brokers = list(self._broker.image.brokers_with(AMQP.feature))
        keys = AmqpKeys.of(self._broker.config.values)
        return planned_replicas(
            queue, self._broker.broker_id, brokers, {}, keys.amqp_queue_replication_factor
        )

    # `queues.model.durability.Durability`

    def added(self, host: Model, declared: Declared) -> None:
        """Note a declaration by a command that this broker carries out."""
        self.coordinator.added(host, declared)

    def removed(self, host: Model, removed: Removed) -> None:
        """Note deletions by a command that this broker carries out."""
        self.coordinator.removed(host, removed)

    def make_store(self, vhost: str, queue: DeclaredQueue, priority: int) -> MessageStore:
        """Make the message store of one priority of a durable queue. Implements `Durability`."""
        return self._stores.make_store(vhost, queue, priority)

    def topic_store(self, topic: str) -> TopicStore:
        """Return the store of messages that exchanges store in a topic. Implements `Durability`."""
        return self._stores.topic_store(topic)

    def when_kept(self, done: KeptDone) -> None:
        """Call `done(None)` at once: commands are answered once they are committed."""
        done(None)

    # Requests of other brokers: `cluster.peers.peer_port.DeclarationsPort`

    async def commanded(self, request: Fields) -> Fields:
        """Carry out the commands of another broker's clients; return the answers in order."""
        broker = BrokerId(request["brokerId"])
        commands = [command_of(each, broker) for each in request["commands"]]
        if not all(map(is_known, commands)):
            raise Malformed("a command that this version does not know")

        def carry_out(done: Done[dict[int, Answer | ApiError]]) -> None:
            answered = gather(len(commands), done)
            for number, command in enumerate(commands):
                self.coordinator.carry_out(command, partial(answered, number))

        answers: dict[int, Answer | ApiError] = await called_back(carry_out)
        fields = [answer_fields(answers[number]) for number in range(len(commands))]
        return {"errorCode": ErrorCode.NONE, "answers": fields}

    async def polled(self, request: Fields) -> Fields:
        """Answer another broker's long poll."""
        wanted = [
            Wanted(each["partitionIndex"], Offset(each["offset"])) for each in request["partitions"]
        ]
        poll = Poll(wanted, request["waits"])
        parts = await self.coordinator.polled(BrokerId(request["brokerId"]), poll)
        return {"errorCode": ErrorCode.NONE, "partitions": [part_fields(part) for part in parts]}

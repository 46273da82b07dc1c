"""A durable queue whose log is made when the test says so."""

from headrace.broker.partition import Partition
from headrace.model.errors import HeadraceError
from headrace.model.invariant import InvariantError
from headrace.model.nouns import LeaderEpoch
from headrace.ports.deadlines import Deadlines
from headrace.queue_stores.log.durable_messages import DurableMessages
from headrace.queue_stores.log.queue_logs import QueueLogs
from headrace.queue_stores.log.settled_files import SettledFiles
from headrace.queue_stores.queue_settings import Published, QueueSettings
from headrace.queues.engine.delivery_turns import AnyQueue
from headrace.queues.engine.hosted_queue import Hooks, HostedQueue
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.refusals import RefusalKind, Refused
from headrace.record.batch import BatchHeader, check_produced
from tests.support.amqp.deliveries import ChannelKit, Delivery, delivered, getter
from tests.support.log.log import NOW_MS, World, batch_of
from tests.support.queues.log import CONFIG, PLACE, message
from tests.support.queues.queues import settings


class DurableQueue:
    """One durable queue, and what it was told and asked."""

    def __init__(self, queue_settings: QueueSettings | None = None) -> None:
        self.world = World(config=CONFIG)
        self.asked: list[DurableMessages] = []
        self.logs = QueueLogs(
            SettledFiles(self.world.disk, self.world.clock), self.world.clock, self.asked.append
        )
        self.stores: list[DurableMessages] = []
        self.channel = ChannelKit(1)
        self.told: list[bool] = []
        self.broken: list[str] = []
        """Broken invariants, for which the queue is closed."""
        self.got: list[Delivery | HeadraceError | None] = []
        self.partition: Partition
        self.queue = HostedQueue(
            DeclaredQueue("q", True, False, None, {}, queue_settings or settings()),
            "queue 'q' in vhost '/'",
            self._make_store,
            Deadlines(self.world.clock),
            Hooks(lambda queue: None, self._readable, self._broke),
        )

    def _make_store(self, queue: DeclaredQueue, priority: int) -> DurableMessages:
        self.stores.append(DurableMessages(self.logs, "/", queue, priority))
        return self.stores[-1]

    def _broke(self, queue: AnyQueue, error: InvariantError) -> None:
        self.broken.append(str(error))
        queue.abandon(Refused(RefusalKind.BROKEN, "queue", "it is broken"))

    def _readable(self, queue: AnyQueue) -> None:
        self.world.clock.call_later(0, lambda: self._deliver(queue))

    def _deliver(self, queue: AnyQueue) -> None:
        if not queue.deleted and not queue.paused:
            delivered(queue, self.now)

    @property
    def now(self) -> float:
        return self.world.clock.monotonic()

    @property
    def store(self) -> DurableMessages:
        """That of the first priority."""
        return self.stores[0]

    def publish(self, *bodies: str) -> None:
        """Publish, note when that is kept, and end the pass."""
        for body in bodies:
            self.queue.publish(Published(message(body), 0, None, True), self.now)
        self.store.when_stored(self.told.append)
        self.logs.write()

    def make_log(self, *produced: str) -> None:
        """Make the log, in which a Kafka producer has written; then let all be done."""
        log = self.world.log(PLACE)
        self.partition = Partition(log, flusher=self.world.directory.flusher)
        self.partition.role.lead(LeaderEpoch(1))
        if produced:
            self.produce(*produced)
            self.world.settle()
        self.store.have_log(self.partition)
        self.world.settle()

    def produce(self, *values: str) -> None:
        """Write as a Kafka producer does."""
        batch = batch_of(*(value.encode() for value in values))
        header: BatchHeader = check_produced(memoryview(batch))
        self.partition.append(memoryview(batch), header, now_ms=NOW_MS)

    def ask(self) -> None:
        """Ask for a message."""
        asked = getter(self.queue, self.channel, self.got.append, self.now, no_ack=True)
        self.queue.get(asked, self.now)

    def bodies(self) -> list[str | None]:
        """What was got, as bodies; None: there was nothing."""
        return [
            None
            if got is None
            else str(got)
            if isinstance(got, HeadraceError)
            else got[2].body.decode()
            for got in self.got
        ]

"""A story: clients publish to queues and consume from them at any broker while brokers fail.

The queues are led by three brokers. At its end all messages are consumed, and the judge reads what
the clients have noted.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.model.errors import ApiError
from headrace.queues.queue_names import queue_topic
from headrace.testing.sim.cluster import LAG_SECONDS, SimCluster
from headrace.testing.sim.faults.ground import Ground
from headrace.testing.sim.faults.requests import Requests
from headrace.testing.sim.faults.swarm import Faults, Mix
from headrace.testing.sim.history import Broken
from headrace.testing.sim.replica_watch import ReplicaWatch
from headrace.testing.sim.stories import Story
from headrace.wire.amqp.field_table import FieldTable
from headrace.wire.amqp.model_methods import ExchangeDeclare, QueueBind, QueueDeclare
from tests.support.sim.amqp import serve_amqp
from tests.support.sim.queues.amqp_client import AmqpClient, Closed
from tests.support.sim.queues.clients import (
    Consumer,
    Getter,
    Manner,
    Notes,
    Place,
    Publisher,
    Route,
)
from tests.support.sim.queues.delivery_watch import DeliveryWatch
from tests.support.sim.queues.events import Fault, Played, Promises
from tests.support.sim.queues.judge import firm_acks, violations
from tests.support.sim.queues.recreating import QUEUE, Recreating

if TYPE_CHECKING:
    from headrace.wire.amqp.methods import Method

BROKERS = (1, 2, 3)
FAN = ("fan.1", "fan.2", "fan.3")
DEAD = "dead"
QUEUES: Mapping[str, Promises] = {
    **dict.fromkeys(FAN, Promises()),
    "active": Promises(single_active=True),
    "work": Promises(dead=DEAD, in_order=False),
    "short": Promises(dead=DEAD),
    "full": Promises(dead=DEAD),
    "pulled": Promises(in_order=False),
    DEAD: Promises(in_order=False, holds_dead=True),
}
_QUORUM: FieldTable = {"x-queue-type": "quorum"}
_DIES: FieldTable = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
ARGUMENTS: Mapping[str, FieldTable] = {
    FAN[0]: _QUORUM,
    FAN[1]: {},  # quorum queues do not support a prefetch of the channel, as in RabbitMQ
    FAN[2]: {},
    "active": {**_QUORUM, "x-single-active-consumer": True},
    "work": {**_QUORUM, **_DIES},
    "short": {**_DIES, "x-message-ttl": 700},
    "full": {**_QUORUM, **_DIES, "x-max-length": 10},
    "pulled": {},
    DEAD: _QUORUM,
}
ROUTES = (
    Route("fan", "", FAN),
    Route("fan", "", FAN),
    *(Route("", queue, (queue,)) for queue in QUEUES if queue != DEAD and queue not in FAN),
)
MANNERS: Sequence[Manner] = (
    Manner(FAN[:1]),
    Manner(FAN[1:], shared=True),
    Manner(("active",)),
    Manner(("active",)),
    Manner(("work",), reject_share=0.2, requeue_share=0.1),
    Manner(("work",), reject_share=0.1, requeue_share=0.1, prefetches=(0, 1, 5)),
    Manner(("short",), away_seconds_max=4.0),
    Manner(("full",), (5,), hold_seconds_max=1.0),
    Manner((DEAD,), (50,)),
)
PUBLISHERS = 3
FAULT_SECONDS = 25.0
CALM_SECONDS = 8.0
"""Seconds of the story without faults."""
DECLARE_SECONDS_MAX = 60.0
MEND_SECONDS_MAX = 90.0
"""Seconds after the last fault within which all is published, answered and consumed."""
SETTINGS = {
    "amqp.guest": "true",
    "amqp.disk.free.bytes.min": "0",
    "replica.fetch.backoff.ms": "500",
}
FAULTS = Mix(
    ("power cuts", "kills", "restarts", "pauses", "cut links", "slow links", "brokers cut off",
     "clients cut off", "lost touch", "expired sessions", "toppled", "store gone",
     "flushes stalled", "elections asked for", "false resets", "requests held over a kill"),
    kinds_share=0.5, slow_share=0.1, tracks=(1, 1, 1, 2), pauses_seconds_max=(4.0, 8.0),
)  # fmt: skip
"""Not empty disks: see `QueueWatch`."""


MOVES = FAULTS._replace(
    kinds=("elections asked for",), kinds_share=1.0, slow_share=0.0, tracks=(1,),
    pauses_seconds_max=(2.0,), elections_min=0,
)  # fmt: skip
"""Changes of leaders, without a fault."""
ALONE = FAULTS._replace(
    kinds=("power cuts", "kills", "restarts", "pauses", "clients cut off", "lost touch",
           "expired sessions", "store gone", "flushes stalled"),
    elections_min=0,
)  # fmt: skip
"""The faults of a broker that has no others."""


class QueueWatch(ReplicaWatch):
    """Checks the replicas of one queue, while no disk of any is replaced by an empty one."""

    def spares(self, number: int, other: int) -> bool:
        """Return False: whether another broker has all of the other queues is not looked at."""
        return False


class QueueRequests(Requests):
    """Leaders of queues are moved, and nothing is deleted."""

    async def _hand_over(self) -> None:
        self._ground.counts["elections asked for"] += 1
        for queue in QUEUES:
            await self._ground.cluster.elect(queue_topic("/", queue))

    async def _delete_records(self) -> None:
        await self._hand_over()


class Moves(QueueRequests):
    """Leaders change while all brokers run: each queue prefers another replica."""

    async def _hand_over(self) -> None:
        ground = self._ground
        for queue in QUEUES:
            ground.counts["elections asked for"] += 1
            topic = queue_topic("/", queue)
            replicas = ground.random.sample(ground.brokers, len(ground.brokers))
            with suppress(ApiError):
                await ground.cluster.prefer(topic, replicas)
            await ground.cluster.elect(topic)


class Told(NamedTuple):
    """How the story went."""

    counts: Counter[str]
    """Faults, and the clients' events, by name."""
    firm: int
    """Acknowledgements that may not be followed by a delivery."""
    epochs: int
    """The sum of the leader epochs of the queues."""


class Clients:
    """All clients of a story."""

    def __init__(self, cluster: SimCluster, brokers: Sequence[int]) -> None:
        self.cluster = cluster
        self.brokers = brokers
        dead = {name: queue.dead for name, queue in QUEUES.items()}
        self.notes = Notes(cluster.loop.time, dead)
        self.names: list[str] = []
        """The clients' machines."""
        publishers = range(PUBLISHERS)
        self.publishers = [Publisher(self._place(), self.notes, ROUTES) for _ in publishers]
        self.consumers = [Consumer(self._place(), self.notes, manner) for manner in MANNERS]
        self.consumers.append(Getter(self._place(), self.notes, Manner(("pulled",))))
        self.recreating = Recreating(self._place())
        self._publishing: list[asyncio.Task[None]] = []
        self._consuming: list[asyncio.Task[None]] = []

    def _place(self) -> Place:
        self.names.append(f"127.0.0.{len(self.names) + 1}")
        return Place(self.cluster, self.brokers, self.names[-1])

    def start(self) -> None:
        """Begin to publish and to consume."""
        self._publishing = [asyncio.create_task(each.go_on()) for each in self.publishers]
        consuming: list[Consumer | Recreating] = [*self.consumers, self.recreating]
        self._consuming = [asyncio.create_task(each.go_on()) for each in consuming]

    async def during(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait until `work` is done; raise what a client's task raises before."""
        task = asyncio.create_task(work)
        going = [task, *(each for each in (*self._publishing, *self._consuming) if not each.done())]
        while not task.done():
            await asyncio.wait(going, return_when=asyncio.FIRST_COMPLETED)
            going = [each for each in going if not each.done() or each.result() is not None]
        task.result()

    async def finish(self) -> None:
        """Publish and consume until all is answered and all queues are empty. Broken: they stay."""
        began, rounds = self.cluster.loop.time(), self.recreating.rounds
        until = began + MEND_SECONDS_MAX
        for each in self.consumers:
            each.stays = True
        await self._until(
            lambda: all(each.confirmed_at > began for each in self.publishers),
            until,
            "no publish is confirmed",
        )
        for publisher in self.publishers:
            publisher.finishing = True
        await self._until(lambda: all(each.done() for each in self._publishing), until, "publishes")
        await self._until(lambda: not self.notes.owed, until, "messages are not delivered")
        again = self.recreating
        await self._until(lambda: again.rounds > rounds, until, f"{QUEUE!r} is not deleted")
        await self._emptied(until)

    async def _until(self, holds: Callable[[], bool], until: float, what: str) -> None:
        while not holds():
            if self.cluster.loop.time() > until:
                raise Broken(f"stuck: {what}: {self.state()}")
            await asyncio.sleep(0.1)

    async def _emptied(self, until: float) -> None:
        """Wait until no queue has messages, ready or unacknowledged. Broken: one has some."""
        asking = Place(self.cluster, self.brokers, "127.0.1.1")
        while True:
            client = await asking.connect()
            counts: dict[str, int] = {}
            with suppress(Closed):
                for queue in QUEUES:
                    declared = await client.ask(QueueDeclare(0, queue, passive=True))
                    counts[queue] = declared.message_count
            client.end("the counts are known")
            held = any(consumer.held for consumer in self.consumers)
            if len(counts) == len(QUEUES) and not held and not any(counts.values()):
                return
            if self.cluster.loop.time() > until:
                raise Broken(f"stuck: messages are left: {counts}: {self.state()}")
            await asyncio.sleep(0.5)

    async def end(self) -> None:
        """End all clients."""
        for task in self._consuming:
            task.cancel()
        await asyncio.wait(self._consuming)

    def state(self) -> str:
        """Return what clients wait for."""
        waiting = {each.place.name: len(each.waiting) for each in self.publishers}
        held = {each.place.name: len(each.held) for each in self.consumers}
        owed = Counter(queue for _, queue in self.notes.owed)
        return f"unanswered {waiting}, unsettled {held}, not consumed {dict(owed)}"


async def declared(cluster: SimCluster, brokers: Sequence[int]) -> None:
    """Declare the queues, at one broker after the other. Broken: it takes too long."""
    chance = random.Random(f"declares {cluster.seed}")
    methods: list[Method] = [ExchangeDeclare(0, "fan", "fanout", durable=True)]
    methods += [
        QueueDeclare(0, queue, durable=True, arguments=ARGUMENTS[queue])
        for queue in sorted(QUEUES, key=lambda _: chance.random())
    ]
    methods += [QueueBind(0, queue, "fan") for queue in FAN]
    until = cluster.loop.time() + DECLARE_SECONDS_MAX
    for number, method in enumerate(methods):
        while True:
            try:
                client = await AmqpClient.connect(
                    cluster, "127.0.1.1", brokers[number % len(brokers)]
                )
                await client.ask(method)
            except Closed as error:
                if cluster.loop.time() > until:
                    raise Broken(f"stuck: {method} is not carried out: {error}") from error
                await asyncio.sleep(0.5)
            else:
                client.end("declared")
                break


async def queue_work(cluster: SimCluster) -> Told:
    """Publish and consume while brokers fail, until all is consumed; then judge. Broken."""
    return await _played(cluster, BROKERS, FAULTS)


def work_with(
    *kinds: str, tracks: Sequence[int] = (1, 2), requests: type[QueueRequests] = QueueRequests
) -> Story[Told]:
    """Return the story with faults of some kinds only, all of them in each story."""
    mix = FAULTS._replace(
        kinds=kinds, kinds_share=1.0, slow_share=0.0, tracks=tracks, elections_min=0
    )
    return lambda cluster: _played(cluster, BROKERS, mix, requests)


async def calm_work(cluster: SimCluster) -> Told:
    """The story while nothing fails. Broken."""
    return await _played(cluster, BROKERS, None)


async def moved_work(cluster: SimCluster) -> Told:
    """The story while leaders change and nothing fails. Broken."""
    return await _played(cluster, BROKERS, MOVES, Moves)


async def single_work(cluster: SimCluster) -> Told:
    """The story of a broker that is alone. Broken."""
    return await _played(cluster, BROKERS[:1], ALONE)


async def _played(
    cluster: SimCluster,
    brokers: Sequence[int],
    mix: Mix | None,
    requests: type[QueueRequests] = QueueRequests,
) -> Told:
    serve_amqp(cluster)
    cluster.configure(SETTINGS)
    await asyncio.gather(*(cluster.start(number) for number in brokers))
    await declared(cluster, brokers)
    clients = Clients(cluster, brokers)
    clients.start()
    watch = QueueWatch(cluster, queue_topic("/", FAN[0]), 1, brokers)
    delivering = DeliveryWatch(cluster)
    ground = Ground(cluster, brokers, clients.names, watch, LAG_SECONDS)
    if mix is not None:
        await clients.during(Faults(ground, requests, mix).happen(FAULT_SECONDS))
    else:
        await clients.during(asyncio.sleep(CALM_SECONDS))
    await clients.during(clients.finish())
    await clients.end()
    faults = [Fault(*span) for span in ground.spans]
    played = Played(QUEUES, clients.notes.events, faults)
    found = violations(played)
    if found:
        raise Broken(f"{len(found)} violations: " + "\n".join(found[:5]))
    counts = ground.counts + Counter(type(event).__name__ for event in played.events)
    counts["batches delivered"] = delivering.delivered
    counts["queues deleted"] = clients.recreating.rounds
    told = Told(counts, firm_acks(played), _epochs(cluster))
    await asyncio.gather(*(cluster.stop(number) for number in brokers))
    return told


def _epochs(cluster: SimCluster) -> int:
    topics = cluster.controller().broker.image.topics
    names = [queue_topic("/", queue) for queue in QUEUES]
    return sum(int(topics[name].partitions[0].leader_epoch) for name in names if name in topics)

"""A story: clients declare and delete at any broker while brokers, links and the store fail.

At its end all brokers have the same declarations, and each client finds what it was told. A queue
that is declared again has no topic before it is used.
"""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from typing import NamedTuple

from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId
from headrace.queues.model.declaration_table import apply
from headrace.queues.model.stored_model import BindingRecord
from headrace.queues.model.vhost_table import VhostTable
from headrace.queues.queue_names import DECLARATIONS_TOPIC
from headrace.queues.refusals import Refused
from headrace.server.assembly import Server
from headrace.testing.sim.cluster import LAG_SECONDS, SimCluster
from headrace.testing.sim.faults.ground import Ground
from headrace.testing.sim.faults.resets import FALSE_RESETS
from headrace.testing.sim.faults.swarm import Faults
from headrace.testing.sim.history import Broken
from headrace.testing.sim.replica_watch import ReplicaWatch
from headrace.vhosts.declarations.cluster_declarations import ClusterDeclarations
from headrace.vhosts.declarations.coordinator_shard import CoordinatorShard
from headrace.vhosts.declarations.messages import Answer, Command, Result
from headrace.vhosts.declarations.stored_changes import PARTITIONS
from headrace.wire.amqp.methods import Method
from headrace.wire.amqp.model_methods import (
    ExchangeDeclare,
    ExchangeDelete,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)
from tests.support.sim.amqp import queue_cluster_of, serve_amqp
from tests.support.sim.coordinated import FAULTS, CoordinatorRequests
from tests.support.sim.declared_topics import has_topic, use

BROKERS = (1, 2, 3)
CLIENTS = 4
FAULT_SECONDS = 20.0
MEND_SECONDS_MAX = 120.0
SETTINGS = {"replica.fetch.backoff.ms": "500"}
Home = tuple[int, int]
"""A broker and the epoch of its registration."""


class DeclarationRequests(CoordinatorRequests):
    """Leaders of the log of declarations are moved."""

    topics = (DECLARATIONS_TOPIC,)


class Told(NamedTuple):
    """How the story went."""

    counts: Counter[str]
    answered: int
    in_doubt: int
    declarations: int
    epochs: int
    """To which the leader epochs of the log come together."""


class Waits(NamedTuple):
    """A coordinator, how often brokers were late for it, and those that it waits for."""

    shard: CoordinatorShard
    times_late: int
    awaited: frozenset[tuple[BrokerId, int]]
    """With the epochs of their registrations."""


def declarations_of(server: Server) -> ClusterDeclarations:
    """Return the declarations of a broker."""
    return queue_cluster_of(server).declarations


def shown(table: VhostTable) -> set[tuple[str, ...]]:
    """Return what a vhost has but for predeclared exchanges."""
    found: set[tuple[str, ...]] = {("queue", name) for name in table.queues}
    for name, exchange in table.exchanges.items():
        if name and not name.startswith("amq."):
            found.add(("exchange", name))
        for binding in exchange.bindings.values():
            found.add(("binding", name, binding.destination.name, binding.routing_key))
    for (name, _), policy in table.policies.items():
        found.add(("policy", name, policy.policy.pattern))
    return found


class DeclaringClient:
    """A client that uses names of its own, at a broker that it chooses for each command."""

    def __init__(self, cluster: SimCluster, number: int) -> None:
        self.cluster = cluster
        self.number = number
        self.chance = random.Random(f"declares {number} {cluster.seed}")
        self.known: dict[tuple[str, ...], bool | Home | None] = {}
        """Whether a declaration exists; the home of a transient queue; None: in doubt."""
        self.answered = self.in_doubt = 0
        self.tries = [0, 0, 0]
        """How often names had to change: what is in doubt may still be carried out later."""

    async def go_on(self) -> None:
        """Declare and delete, until cancelled. Broken."""
        while True:
            await asyncio.sleep(self.chance.uniform(0, 0.2))
            running = list(self.cluster.brokers)
            if running:
                await self._one(self.cluster.brokers[self.chance.choice(running)])

    async def _one(self, server: Server) -> None:
        slot = self.chance.randrange(len(self.tries))
        name = f"{self.number}.{slot}.{self.tries[slot]}"
        in_doubt = self.in_doubt
        await self._at(server, name)
        self.tries[slot] += self.in_doubt > in_doubt

    async def _at(self, server: Server, name: str) -> None:
        exchange, queue = f"e{name}", f"q{name}"
        binding = "binding", exchange, queue, "k"
        ends = self.known.get(("exchange", exchange)), self.known.get(("queue", queue))
        match self.chance.randrange(9):
            case 0 | 1:
                await self._ask(server, QueueDeclare(queue=queue, durable=True), ("queue", queue))
            case 8 if ends[1] is True:
                self.in_doubt += not await use(self.cluster, server, queue)
            case 2:
                transient = f"t{name}"
                await self._ask(server, QueueDeclare(queue=transient), ("queue", transient))
            case 3:
                declare = ExchangeDeclare(exchange=exchange, type="topic", durable=True)
                await self._ask(server, declare, ("exchange", exchange))
            case 4 if ends == (True, True):
                bind = QueueBind(queue=queue, exchange=exchange, routing_key="k")
                await self._ask(server, bind, binding)
            case 5:
                unbind = QueueUnbind(queue=queue, exchange=exchange, routing_key="k")
                await self._ask(server, unbind, binding, there=False)
            case 6:
                await self._ask(server, QueueDelete(queue=queue), ("queue", queue), there=False)
            case 7:
                delete = ExchangeDelete(exchange=exchange)
                await self._ask(server, delete, ("exchange", exchange), there=False)

    async def _ask(
        self, server: Server, method: Method, key: tuple[str, ...], *, there: bool = True
    ) -> None:
        """Ask for a command, and note what is known after it. Broken: it is refused wrongly."""
        of_ends = [other for other in self.known if other[0] == "binding" and key[1] in other[1:3]]
        before = {other: self.known.get(other) for other in (key, *of_ends)}
        self.known[key] = None
        if not there:
            self.known.update(dict.fromkeys(of_ends))
        command = declarations_of(server).command("/", method=method)
        home = command.broker, command.epoch
        answer = await self.carried_out(server, command)
        if answer is None:
            return
        if answer.created and has_topic(self.cluster, key[1]):
            raise Broken(f"{key} is declared again, and has the topic of the queue before it")
        self.known[key] = there
        if key[1].startswith("t"):
            # A command that was repeated may have made it the first time.
            self.known[key] = home if answer.created or before[key] == home else None
        if not there:
            self.known.update(dict.fromkeys(of_ends, False))

    async def carried_out(self, server: Server, command: Command) -> Result | None:
        """Have a command carried out; None: that is in doubt. Broken: it is refused wrongly, or a
        broker that was waited for has not applied it."""
        at = declarations_of(server)
        waits, brokers = self._waits(), dict(self.cluster.brokers)
        answer = await _answer(self.cluster, at, command)
        if isinstance(answer, Refused):
            raise Broken(f"{command} is refused: {answer}")
        if not isinstance(answer, Result):
            self.in_doubt += 1
            return None
        self.answered += 1
        self._look_at_tables(answer, waits, brokers)
        return answer

    def _waits(self) -> dict[int, Waits]:
        """Return the brokers that each coordinator of the vhost waits for."""
        found = {}
        for number, server in self.cluster.brokers.items():
            at = declarations_of(server)
            shard = at.coordinator._led.at(at.tables.partition_of("/"))
            if shard is not None and shard.is_active:
                waits = shard.confirmations
                awaited = {
                    (info.broker_id, info.epoch)
                    for info in server.broker.image.reachable_brokers()
                    if info.broker_id in waits.awaited
                }
                found[number] = Waits(shard, waits.times_late, frozenset(awaited))
        return found

    def _look_at_tables(
        self, answer: Result, before: dict[int, Waits], brokers: dict[int, Server]
    ) -> None:
        """Raise Broken if a broker that was waited for has not applied what is answered."""
        for number, now in self._waits().items():
            then = before.get(number)
            if then is None or (then.shard, then.times_late) != (now.shard, now.times_late):
                continue
            for broker, _ in then.awaited & now.awaited:
                server = brokers.get(broker)
                if server is None or self.cluster.brokers.get(broker) is not server:
                    continue
                if not declarations_of(server).has_loaded("/"):
                    continue  # clients that connect wait
                table = declarations_of(server).tables.of_vhost("/")
                if table.applied < answer.offset <= now.shard.committed:
                    raise Broken(f"broker {broker} has not applied {answer}")


async def _answer(
    cluster: SimCluster, at: ClusterDeclarations, command: Command
) -> Answer | ApiError | None:
    """Return the answer to a command; None: the broker's process has ended."""
    heard: asyncio.Future[Answer | ApiError] = asyncio.get_running_loop().create_future()
    at.ask(command, lambda answer: None if heard.done() else heard.set_result(answer))
    while not heard.done() and declared_by(cluster, at):
        await asyncio.wait([heard], timeout=0.2)
    return heard.result() if heard.done() else None


def declared_by(cluster: SimCluster, at: ClusterDeclarations) -> bool:
    """Return whether the process of these declarations still runs."""
    return any(declarations_of(server) is at for server in cluster.brokers.values())


async def declared_by_many(
    cluster: SimCluster, made: "type[DeclaringClient]" = DeclaringClient
) -> Told:
    """Let clients declare while brokers fail; then compare tables with what is known. Broken."""
    serve_amqp(cluster)
    await asyncio.gather(*(cluster.start(number) for number in BROKERS))
    image = cluster.brokers[BROKERS[0]].broker.image
    while len(image.brokers) < len(BROKERS):  # noqa: ASYNC110 - so soon
        await asyncio.sleep(0.01)
    at = declarations_of(cluster.brokers[BROKERS[0]])
    first = await _answer(
        cluster, at, at.command("/", method=QueueDeclare(queue="first", durable=True))
    )
    if not isinstance(first, Result):
        raise Broken(f"the first queue is not declared: {first}")
    clients = [made(cluster, number) for number in range(CLIENTS)]
    watch = ReplicaWatch(cluster, DECLARATIONS_TOPIC, PARTITIONS, BROKERS)
    ground = Ground(cluster, BROKERS, [], watch, LAG_SECONDS)
    faults = Faults(ground, DeclarationRequests, FAULTS)
    loop = asyncio.get_running_loop()
    working = [loop.create_task(client.go_on()) for client in clients]
    happening = loop.create_task(faults.happen(FAULT_SECONDS))
    await asyncio.wait([happening, *working], return_when=asyncio.FIRST_COMPLETED)
    for task in working:
        if task.done():
            task.result()
    await happening
    await _ended(working)
    table = await _mended(cluster)
    for client in clients:
        _judge(cluster, client, table, suspected=ground.counts[FALSE_RESETS] > 0)
    image = cluster.controller().broker.image
    epochs = sum(int(part.leader_epoch) for part in image.topics[DECLARATIONS_TOPIC].partitions)
    answered = sum(client.answered for client in clients)
    in_doubt = sum(client.in_doubt for client in clients)
    told = Told(ground.counts, answered, in_doubt, len(table), epochs)
    await asyncio.gather(*(cluster.stop(number) for number in BROKERS))
    return told


async def _ended(tasks: "list[asyncio.Task[None]]") -> None:
    """Let the clients finish what they wait for, for a second, then end them."""
    await asyncio.sleep(1)
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task


async def _mended(cluster: SimCluster) -> set[tuple[str, ...]]:
    """Wait until all brokers have the same declarations of `/`; return these. Broken."""
    loop = asyncio.get_running_loop()
    until = loop.time() + MEND_SECONDS_MAX
    while True:
        await asyncio.sleep(0.5)
        problem = _difference(cluster)
        if problem is None:
            host = declarations_of(cluster.brokers[BROKERS[0]]).tables.virtual_hosts.hosts["/"]
            return shown(host.model.table)
        if loop.time() > until:
            raise Broken(problem)


def _difference(cluster: SimCluster) -> str | None:
    """Return how the brokers' declarations differ; None: they do not, and nothing is under way."""
    if set(cluster.brokers) != set(BROKERS):
        return f"only {sorted(cluster.brokers)} run"
    found = [declarations_of(cluster.brokers[number]) for number in BROKERS]
    index = found[0].tables.partition_of("/")
    tables = [each.tables.of(index) for each in found]
    if not any((shard := each.coordinator._led.at(index)) and shard.is_active for each in found):
        return "no broker coordinates /"
    if any(table.deleting for table in tables):
        return "the topic of a deleted queue is not deleted"
    if any(table._held or table.is_reread or not table.is_loaded for table in tables):
        return "a table is not current"
    offsets = [table.applied for table in tables]
    if len(set(offsets)) > 1:
        return f"brokers have applied {offsets}"
    if any(table.records != tables[0].records for table in tables):
        return "brokers have other records"
    image = cluster.brokers[BROKERS[0]].broker.image
    registered = {(int(each.broker_id), each.epoch) for each in image.brokers.values()}
    homes = {home[:2] for home in tables[0].homes()}
    if not homes <= registered:
        return f"transient queues of {homes - registered}"
    wanted = VhostTable("/")
    records = [record for vhost, record in tables[0].records.values() if vhost == "/"]
    for record in sorted(records, key=lambda record: isinstance(record, BindingRecord)):
        apply(wanted, record)
    for each in found:
        model = each.tables.virtual_hosts.hosts["/"].model
        if shown(model.table) != shown(wanted):
            return f"the model differs by {shown(model.table) ^ shown(wanted)}"
    return None


def _judge(
    cluster: SimCluster, client: DeclaringClient, table: set[tuple[str, ...]], *, suspected: bool
) -> None:
    """Raise Broken if a client was told otherwise.

    `suspected`: brokers that run were taken for dead, and their transient queues may be deleted.
    """
    for key, known in client.known.items():
        if isinstance(known, tuple):
            number, epoch = known
            known = cluster.brokers[number].controller.applier.broker_epoch == epoch
            if known and suspected:
                continue
        if known is not None and (key in table) is not known:
            raise Broken(f"{key} is {'declared' if known else 'deleted'}, as it was answered")
        if key[0] == "queue" and known is False and has_topic(cluster, key[1]):
            raise Broken(f"{key} is deleted, and its topic is not")

"""The brokers and clients of one simulation."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from headrace.broker.broker import Broker
from headrace.broker.partition import Partition
from headrace.client.client import Client
from headrace.client.transport.events import EventTransport
from headrace.client.transport.port import Address
from headrace.cluster.controller.controller import Controller
from headrace.cluster.decisions.events import ElectionAsked, ElectionType
from headrace.config.broker import load
from headrace.model.errors import ApiError, ConfigError
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.ports.store import StoreError
from headrace.server.assembly import Server
from headrace.testing.disk_crash import crash_states
from headrace.testing.sim.ensemble import SESSION_SECONDS, Ensemble
from headrace.testing.sim.history import Broken, History
from headrace.testing.sim.loop import SimLoop
from headrace.testing.sim.network import SimNetwork
from headrace.testing.sim.world import SimWorld

PORT = 9092
SESSION_GONE_SECONDS = 0.5
"""Seconds after a session's end until the broker may begin another."""
START_AGAIN_SECONDS = 1.0
"""Seconds between a refused start and the next attempt."""
START_SECONDS_MAX = 60.0
"""Seconds for which starts may be refused, because of a former session or the store."""
ELECTION_SECONDS_MAX = 60.0
"""Longest wait for a requested election, in seconds."""
LAG_SECONDS = 2.0
"""`replica.lag.time.max.ms` in seconds, by default."""


class SimCluster:
    """Machines named `broker-N`, and machines of clients by their names."""

    def __init__(
        self,
        loop: SimLoop,
        seed: int,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """All random choices come from `seed`; `settings` apply to every broker."""
        self.sole_leaders: Callable[[str], bool] | None = None
        """Whether a topic's leader must be the only one, for brokers started from now on."""
        self.listeners: tuple[str, ...] = ()
        """Further listeners of brokers started from now on, each `PROTOCOL://:PORT`."""
        self._settings = settings or {}
        self.loop = loop
        self.seed = seed
        self.history = History(loop.time)
        self._random = random.Random(f"cluster {seed}")  # noqa: S311 - not for secrets
        self._lives: Counter[int] = Counter()
        """How many machines each broker has had."""
        self.network = SimNetwork(loop, seed, self.history)
        self.ensemble = Ensemble(seed, self.history)
        self.brokers: dict[int, Server] = {}
        """Brokers that have started and not stopped, by id."""
        self.worlds: dict[int, SimWorld] = {}
        self.refused_starts: list[str] = []
        """The errors of refused starts, which were repeated."""
        self._processes: dict[int, Server] = {}
        """All running brokers, those starting or stopping included."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Add settings for brokers started from now on."""
        self._settings = {**self._settings, **settings}

    def world(self, number: int) -> SimWorld:
        """Return the machine of broker `number`; its disk survives a stop of the broker."""
        world = self.worlds.get(number)
        if world is None:
            life = self._lives[number]
            self._lives[number] += 1
            world = self.worlds[number] = SimWorld(
                self.loop,
                f"broker-{number}",
                self.seed,
                self.network,
                self.ensemble,
                self.history,
                life,
            )
        return world

    async def start(self, number: int) -> Server:
        """Start broker `number`; return once it listens. Raises ConfigError."""
        world = self.world(number)
        flags = {
            "broker.id": str(number),
            "listeners": f"PLAINTEXT://{world.name}:{PORT}",
            "log.dirs": "/data",
            "insecure.listeners": "true",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
            "transaction.state.log.replication.factor": "1",
            "share.coordinator.state.topic.num.partitions": "3",
            "share.coordinator.state.topic.replication.factor": "1",
            "offsets.topic.replication.factor": "1",
            "auto.create.topics.enable": "false",
            "replica.lag.time.max.ms": str(int(LAG_SECONDS * 1000)),
            **self._settings,
        }
        flags["listeners"] = ",".join((flags["listeners"], *self.listeners))
        config, _ = load(flags=flags)
        server = Server(config, world, self.loop.failures.append, sole_leaders=self.sole_leaders)
        self._processes[number] = server
        try:
            await server.start()
        except BaseException:
            del self._processes[number]
            raise
        self.brokers[number] = server
        return server

    def broker(self, number: int) -> Broker | None:
        """Return a running broker, also while it starts or stops; None: it does not run."""
        server = self._processes.get(number)
        return server.broker if server is not None and hasattr(server, "broker") else None

    def holds_right(self, number: int, partition: Partition) -> bool:
        """Return whether a running broker acts as the partition's only leader.

        Broken: it does so without a right.
        """
        server = self._processes.get(number)
        controller = getattr(server, "controller", None)
        rights = None if controller is None else controller.applier.rights
        if rights is None:
            return False
        rights.check()  # as before each turn of a queue
        acts = bool(rights.reported(partition.topic_partition))
        if acts and not rights.holds(partition):
            raise Broken(f"ADR 78: {number} leads {partition.topic_partition} without a right")
        return acts

    async def start_again(self, number: int) -> Server:
        """Start broker `number`, repeating refused starts, as a supervisor does.

        Broken: too long.
        """
        until = self.loop.time() + START_SECONDS_MAX
        while True:
            try:
                return await self.start(number)
            except (ConfigError, StoreError) as error:
                if self.loop.time() > until:
                    raise Broken(f"G15: broker {number} cannot start: {error}") from error
                self.refused_starts.append(str(error))
                self.history.add("not started", number, error)
                await asyncio.sleep(START_AGAIN_SECONDS)

    async def stop(self, number: int) -> None:
        """Stop a broker cleanly."""
        await self.brokers.pop(number).stop()
        del self._processes[number]

    def controller(self) -> Controller:
        """Return the active controller."""
        found = [server.controller for server in self.brokers.values()]
        return next(controller for controller in found if controller.is_controller)

    async def elect(self, topic: str, kind: ElectionType = ElectionType.PREFERRED) -> None:
        """Request an election of the preferred leaders of a topic; refusals are ignored.

        UNCLEAN: elect any live replica where no leader exists. The wait is bounded, as a controller
        whose process ends never answers.
        """
        for server in tuple(self.brokers.values()):
            image = server.broker.image
            if server.controller.is_controller and topic in image.topics:
                count = len(image.topics[topic].partitions)
                asked = [TopicPartition(topic, index) for index in range(count)]
                election = server.controller.carry_out(ElectionAsked(kind, asked))
                electing = asyncio.get_running_loop().create_task(election)
                await asyncio.wait([electing], timeout=ELECTION_SECONDS_MAX)
                if electing.done():
                    with suppress(ApiError):
                        electing.result()

    async def prefer(self, topic: str, replicas: Sequence[int]) -> None:
        """Make brokers the replicas of a topic's partitions, the first one the preferred leader.

        ApiError: refused, or no broker is the controller.
        """
        controller = self.controller()
        found = controller.broker.image.topics.get(topic)
        count = 0 if found is None else len(found.partitions)
        brokers = tuple(map(BrokerId, replicas))
        asked = {TopicPartition(topic, index): brokers for index in range(count)}
        for error in (await controller.replicas.reassign(asked)).values():
            if error is not None:
                raise error

    async def cut_power(self, number: int) -> None:
        """Cut a broker's power; its disk is left in a state that such a crash may leave.

        Returns once its session has ended, so that it can be started again.
        """
        disk = self._end_process(number).sim_disk
        states = list(crash_states(disk, len(disk.ops), self._random.randrange(1 << 30), samples=3))
        left = states[self._random.randrange(len(states))]
        await asyncio.sleep(SESSION_SECONDS + SESSION_GONE_SECONDS)
        self.world(number).sim_disk.begin_with(left, disk)

    def kill(self, number: int) -> None:
        """Kill a broker's process; everything it had written is there at its next start."""
        former = self._end_process(number)
        self.world(number).sim_disk.go_on_from(former.sim_disk)

    def replace_disk(self, number: int) -> None:
        """End a broker's machine; its next start has an empty disk."""
        self._end_process(number)

    def _end_process(self, number: int) -> SimWorld:
        del self.brokers[number], self._processes[number]
        former = self.worlds.pop(number)
        former.cut_power()
        return former

    def client(self, name: str) -> Client:
        """Return a client on a machine named `name`, with all brokers as bootstrap servers."""
        transport = EventTransport(self.network.machine(name).connect)
        bootstrap = [Address(world.name, PORT) for world in self.worlds.values()]
        return Client(transport, bootstrap, client_id=name, patient=True)

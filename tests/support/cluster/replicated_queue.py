"""A queue on three brokers: its log and the copies of its settled positions, driven by chance.

What `three_replicas` plays, and on the leader a queue: messages are published, delivered,
acknowledged and requeued; requests about copies are delayed, lost and repeated. What is a model in
addition: who carries requests, and the right to lead, which only the present leader has.
"""

from headrace.copies.copying import COPY_SECONDS
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.model.nouns import BrokerId, Offset
from headrace.queue_stores.queue_settings import Published
from tests.support.amqp.deliveries import got
from tests.support.cluster.copy_network import CopyNetwork
from tests.support.cluster.queue_node import QueueNode
from tests.support.cluster.three_replicas import BROKERS, Node, Violation
from tests.support.log.log import World, reset_to
from tests.support.queues.log import message

LATE_SECONDS = 1.0
"""Seconds after which a late member stops deliveries, as ADR 77 says."""
STEP_SECONDS = 0.03
"""Seconds that pass with a step at most."""


class ReplicatedQueue(CopyNetwork):
    """The cluster with the queue, and what its clients have seen."""

    weights = (20, 50, 50, 80, 20, 15, 2, 3, 0.4, 24)

    def __init__(self, seed: int) -> None:
        self.numbers = 0
        self.delivered: set[str] = set()
        self.acknowledged: set[str] = set()
        self.gone: set[str] = set()
        """Acknowledged, and all members of the ISR have that durably."""
        self.confirmed: set[str] = set()
        self.redeliveries = 0
        self.fetches_from = 0.0
        super().__init__(seed)

    def segment_bytes(self) -> int:
        return self.drawn.choice((1500, 1 << 20))

    def make_node(self, broker: BrokerId, world: World) -> QueueNode:
        return QueueNode(broker, world, requests=self.requests, stored=self.stored)

    def stored(self, node: QueueNode, body: str) -> None:
        self.confirmed.add(body)
        position = next((at for at, found in node.content().items() if found == body.encode()), -1)
        if position >= 0:
            self.acknowledge(position, body.encode())
        elif body not in self.acknowledged:
            raise Violation(f"{body} is confirmed, and is not in the log")

    @property
    def leading(self) -> QueueNode | None:
        """The broker that has the right to lead, with the queue loaded."""
        node = self.queue_node(self.nodes[self.controller.leader])
        if not node.alive or node.term is None or node.queue is None:
            return None
        return node if node.partition.leader_epoch == self.controller.epoch else None

    def step(self) -> None:
        seconds = self.drawn.random() * STEP_SECONDS
        self.time += seconds
        if self.time >= self.planned[0] > 0:
            favourite = self.planned[1]
            self.planned = 0.0, favourite
            self.strike(0.1, favourite)
        if self.time >= self.fetches_from > 0:
            self.fetches_from = 0
            self.strike(0.5)
        for node in self.nodes:
            if node.alive:
                node.world.clock.advance(seconds)
        action = self.drawn.choices(
            (super().step, self.carry, self.deliver, self.settle, self.requeue, self.purge,
             self.deafen, self.settle_late),
            (50, 30, 20, 20, 2, 0.5, 0.3, 1),
        )[0]  # fmt: skip
        if action != super().step:
            self.trace.append(action.__name__)
        action()
        self.look()

    # --- what happens ---

    def append(self, node: Node) -> None:
        here = self.queue_node(node)
        if not here.alive or here.queue is None or here.store is None:
            return
        for _ in range(self.drawn.randint(1, 4)):
            self.numbers += 1
            body = f"m{self.numbers}"
            try:
                here.queue.publish(Published(message(body), 0, None, True), here.now)
            except HeadraceError:
                return
            here.sent[here.store.appended_to] = body

    def order(self, node: Node) -> None:
        here = self.queue_node(node)
        if not here.alive:
            return
        before = here.epoch if here.store is not None else -1
        written = self.controller
        super().order(node)
        if written.leader != node.id or written.epoch > before + 1:
            here.unhost()
        if written.leader == node.id:
            here.epoch = written.epoch
            if here.store is None or here.store.error is not None:
                here.host()

    # The worst moments for a kill: each is likelier than by chance.

    def ask_controller(self, node: Node) -> None:
        before = self.controller.in_sync
        super().ask_controller(node)
        for joined in set(self.controller.in_sync) - set(before):
            self.strike(0.7, joined)

    def start(self, node: Node) -> None:
        if not node.alive and self.drawn.random() < 0.5:
            self.deaf = node.id, self.time + 0.5
        super().start(node)

    def strike(self, probability: float, favourite: BrokerId | None = None) -> None:
        """Kill the leader, perhaps, and perhaps the next one, too; `favourite` leads next."""
        while not self.healed and self.drawn.random() < probability:
            leader = self.nodes[self.controller.leader]
            self.trace.append(f"strike {leader.id}")
            self.end_process(leader)
            others = [broker for broker in BROKERS if broker not in (leader.id, favourite)]
            if self.drawn.random() < 0.7:  # it cannot tell the next leader what it has
                self.deaf = self.drawn.choice(others), self.time + 0.4
            if favourite is not None:
                self.elect(self.nodes[favourite])
            probability = 0.4

    def fetch(self, node: Node) -> None:
        if self.healed or self.time >= self.fetches_from:
            super().fetch(node)

    def deliver(self) -> None:
        self.deliver_some()
        self.strike(0.01)

    def deliver_some(self) -> None:
        here = self.leading
        if here is None or here.queue is None:
            return
        for _ in range(self.drawn.randint(1, 4)):
            delivery = got(here.queue, here.channel, here.now)
            if delivery is None:
                return
            self.check_in_time(here)
            _, tag, found, redelivered, _ = delivery
            body = found.body.decode()
            if any(body in self.queue_node(node).refused for node in self.nodes):
                raise Violation(f"{body} was reported as unstored, and is appended later")
            if body in self.gone:
                raise Violation(f"{body} was acknowledged, all had that, and it is redelivered")
            if body in self.delivered and not redelivered:
                raise Violation(f"{body} was delivered before, and is called new")
            self.redeliveries += body in self.delivered
            self.delivered.add(body)
            (position,) = (at for at, value in here.content().items() if value == found.body)
            here.held[tag] = body, position

    def check_in_time(self, here: QueueNode) -> None:
        """Check that no member of the ISR is so late that nothing may be delivered."""
        copies = here.store._settlement.copies if here.store else None
        assert copies is not None
        taken = copies._taken  # type: ignore[attr-defined]
        if taken and here.now - taken[0][1] > LATE_SECONDS + COPY_SECONDS + STEP_SECONDS:
            raise Violation("a message is delivered while a member of the ISR is late")

    def settle(self) -> None:
        here = self.leading
        if here is None:
            return
        for tag in self.drawn.sample(sorted(here.held), min(len(here.held), 3)):
            body, position = here.held.pop(tag)
            here.channel.ack(tag)
            self.acknowledged.add(body)
            here.acked[body] = position

    def settle_late(self) -> None:
        """Have a client of a former leader acknowledge a delivery, which has no effect."""
        here = self.queue_node(self.drawn.choice(self.nodes))
        if here.alive and here.former:
            channel, tags = self.drawn.choice(here.former)
            if tags:
                channel.ack(tags.pop(self.drawn.randrange(len(tags))))

    def requeue(self) -> None:
        here = self.leading
        if here is not None and here.held:
            tag = self.drawn.choice(sorted(here.held))
            here.channel.nack(tag)
            del here.held[tag]

    def purge(self) -> None:
        """Purge the queue of all ready messages, those that are not committed yet included."""
        here = self.leading
        if here is not None and here.queue is not None and here.store is not None:
            here.store.write()
            held = {body for body, _ in here.held.values()}
            logged = {(value or b"").decode() for value in here.content().values()}
            # Those that wait for replicas are not in the log.
            self.acknowledged.update(body for body in here.sent.values() if body not in logged)
            for at, value in here.content().items():
                body = (value or b"").decode()
                if body not in held and body not in self.acknowledged:
                    self.acknowledged.add(body)
                    if at < here.log.high_watermark:  # else a later leader may have it or not
                        here.acked[body] = at
            here.queue.purge()
            if self.drawn.random() < 0.5:  # the followers have none of it for a while
                self.fetches_from = self.time + 0.4

    def end_process(self, node: Node) -> None:
        here = self.queue_node(node)
        was_alive = here.alive
        super().end_process(node)
        if was_alive:
            # A process that ends before it answers closes its connections.
            lost = [request for request in self.asked if request.target == node.id]
            self.asked = [request for request in self.asked if request.target != node.id]
            for request in lost:
                request.end(ApiError(ErrorCode.NETWORK_EXCEPTION))
            here.sent.clear()
            here.held.clear()
            here.acked.clear()

    # --- what must hold ---

    def look(self) -> None:
        """Note what clients learn, and look at the memory of brokers that do not lead."""
        for node in map(self.queue_node, self.nodes):
            if node.store is None and node.windows.bytes:
                raise Violation(f"{node.id} has {node.windows.bytes} bytes of a queue in memory")
        here = self.leading
        if here is not None and here.store is not None:
            settlement = here.store._settlement
            durable = [
                body
                for body, at in here.acked.items()
                if not settlement.wants(at, at + 1)  # type: ignore[arg-type]
            ]
            for body in durable:
                del here.acked[body]
                self.gone.add(body)
            if durable:
                self.strike(0.03)

    def may_lack(self, value: bytes) -> bool:
        return value.decode() in self.acknowledged

    def compare(self, one: Node, other: Node) -> None:
        below = min(one.log.high_watermark, other.log.high_watermark)
        mine, theirs = one.content(), other.content()
        for offset in mine.keys() & theirs.keys():
            if offset < below and mine[offset] != theirs[offset]:
                raise Violation(f"G3: {offset} differs between {one.id} and {other.id}")

    def fell_behind(self, node: Node, leader_start: Offset) -> None:
        reset_to(node.log, leader_start)

    def judge(self) -> None:
        super().judge()
        self.compare_files()

    # --- the end ---

    def heal(self) -> None:
        """Have all brokers run and the queue led, then take all that it has."""
        self.healed = True
        for node in self.nodes:
            self.start(node)
        for _ in range(400):
            for node in self.nodes:
                node.world.clock.advance(0.02)
                self.order(node)
                node.world.clock.turn()
                node.world.disk.settle(1000)
                self.fetch(node)
                self.answer(node)
                self.ask_controller(node)
            for _ in range(len(self.requests) + 4):
                self.carry()
            self.look()

    def drain(self) -> set[str]:
        """Return the messages that are in the queue after all."""
        self.heal()
        here = self.leading
        if here is None:
            raise Violation("the queue is not led though all brokers run")
        found = {body for body, _ in here.held.values()}
        empty = 0
        while empty < 60:
            before = len(here.held)
            self.deliver_some()
            found |= {body for body, _ in here.held.values()}
            empty = empty + 1 if len(here.held) == before else 0
            for node in self.nodes:
                node.world.clock.advance(0.02)
                node.world.clock.turn()
                node.world.disk.settle(1000)
                self.fetch(node)
                self.answer(node)
            for _ in range(len(self.requests) + 4):
                self.carry()
        assert here.queue is not None
        if here.queue.ready:
            raise Violation(f"{here.queue.ready} messages are counted and not there")
        return found


def play(seed: int, steps: int, kind: type[ReplicatedQueue] = ReplicatedQueue) -> ReplicatedQueue:
    """Play one history to its end. Violation, with its last steps, where a promise breaks."""
    cluster = kind(seed)
    try:
        for _ in range(steps):
            cluster.step()
        left = cluster.drain()
        lost = cluster.confirmed - cluster.acknowledged - left
        if lost:
            raise Violation(f"confirmed, never acknowledged, and not in the queue: {lost}")
        cluster.judge()
    except Violation as violation:
        raise Violation(f"seed {seed}: {violation}; before: {cluster.trace[-25:]}") from None
    finally:
        cluster.close()
    return cluster

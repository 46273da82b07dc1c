"""One partition on three brokers with a small controller, driven by chance, judged at each step.

Followers' fetches, answers, orders and ISR changes are delayed and lost; brokers are killed, with
the power or without. What is real: partitions, roles, logs, flushers, truncations. What is a model:
the controller, and who carries what to whom.
"""

from dataclasses import dataclass, field
from random import Random

from headrace.broker.partition import Partition
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.in_sync_replicas import IsrChange, ReplicaFetch, Replicas
from headrace.broker.replica.leader_term import LeaderTerm
from headrace.broker.replica.replica_reads import diverging
from headrace.config.log_config import LogConfig
from headrace.log.log import Log
from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset
from headrace.record.batch import check_produced
from headrace.testing.disk_crash import crash_states
from tests.support.log.log import NOW_MS, World, batch_of, read, records_of

BROKERS = tuple(BrokerId(number) for number in range(3))
LAG_SECONDS = 3.0
Content = dict[int, bytes | None]


class Violation(AssertionError):
    """A promise was broken."""


@dataclass
class Controller:
    """What is written of the partition."""

    leader: int = 0
    epoch: int = 1
    in_sync: tuple[BrokerId, ...] = BROKERS
    partition_epoch: int = 1

    def write(self, leader: int, in_sync: tuple[BrokerId, ...]) -> None:
        if leader != self.leader:
            self.epoch += 1
        self.leader, self.in_sync = leader, in_sync
        self.partition_epoch += 1


@dataclass
class Answer:
    """What a leader has answered to a fetch, on its way."""

    follower: Follower
    at: Offset
    data: bytes
    high_watermark: Offset
    diverging: tuple[LeaderEpoch, Offset] | None
    log_start: Offset


@dataclass
class Node:
    """One broker: its disk lives through kills, its partition does not."""

    id: BrokerId
    world: World
    partition: Partition = field(init=False)
    alive: bool = True
    registration: int = 1
    answers: list[Answer] = field(default_factory=list)
    cached: tuple[object, Content] = ((), {})

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        log = self.world.log()
        self.partition = Partition(log, flusher=self.world.directory.flusher)

    @property
    def log(self) -> Log:
        return self.partition.log

    @property
    def term(self) -> LeaderTerm | None:
        return self.partition.role.term if self.alive else None

    def content(self) -> Content:
        """Offset to value of all records; read again only where the log has changed."""
        log = self.log
        bases = tuple(segment.base_offset for segment in log.segments)
        key = (log, log.end_offset, log.truncations, bases)
        if self.cached[0] != key:
            data = b"".join(segment.file.read(0, segment.size) for segment in log.segments)
            self.cached = key, {record.offset: record.value for record in records_of(data)}
        return self.cached[1]


class ThreeReplicas:
    """The cluster and what clients were told. `step` does something; Violation if it was wrong."""

    truncates_to_high_watermark = False
    """Planted: a follower begins by cutting its log to its own high watermark."""
    cuts_below_high_watermark = False
    """Planted: a cut goes one batch further than it must."""
    weights: tuple[float, ...] = (15, 50, 50, 50, 20, 15, 3, 5, 1.5, 6)
    """How often each action of `step` is drawn."""

    def __init__(self, seed: int) -> None:
        self.drawn = Random(seed)
        config = LogConfig(
            segment_bytes=self.segment_bytes(), index_interval_bytes=200, segment_index_bytes=1024,
            min_insync_replicas=self.drawn.choice((1, 2, 2)), retention_ms=-1,
        )  # fmt: skip
        self.controller = Controller()
        self.nodes = [
            self.make_node(broker, World(config=config, broker_id=broker)) for broker in BROKERS
        ]
        self.now = 0.0
        self.values = 0
        self.acked: dict[int, bytes] = {}
        self.marks = [0, 0, 0]
        """High watermarks of the running brokers, as last seen."""
        self.end_seen = 0
        """The greatest end that ListOffsets told."""
        self.cuts = 0
        """How often a follower's log was cut short."""
        self.trace: list[str] = []
        for node in self.nodes:
            node.world.settle()
            self.order(node)

    def segment_bytes(self) -> int:
        return 600

    def make_node(self, broker: BrokerId, world: World) -> Node:
        return Node(broker, world)

    # --- what happens ---------------------------------------------------------------------------

    def step(self) -> None:
        (action,) = self.drawn.choices(
            (self.append, self.fetch, self.answer, self.flush, self.order, self.ask_controller,
             self.shrink, self.elect, self.end_process, self.start),
            self.weights,
        )  # fmt: skip
        leading = [node for node in self.nodes if node.term is not None]
        of_leaders = action in (self.append, self.ask_controller, self.shrink)
        node = self.drawn.choice(leading if of_leaders and leading else self.nodes)
        self.now += self.drawn.random() * 0.1
        self.trace.append(f"{action.__name__} {node.id}")
        action(node)
        self.judge()

    def append(self, node: Node) -> None:
        if not node.alive or node.partition.refusal is not None:
            return
        self.values += 1
        value = b"%d" % self.values
        view = memoryview(batch_of(value))
        acks = self.drawn.choice((-1, -1, 1))
        try:
            appended = node.partition.append(
                view, check_produced(view), now_ms=NOW_MS, required_acks=acks
            )
        except ApiError:
            return

        def told(error: ApiError | None) -> None:
            if error is None and node.alive:
                self.acknowledge(appended.base_offset, value)

        if acks == -1:
            node.partition.when_committed(appended.commit_offset, told)

    def acknowledge(self, offset: int, value: bytes) -> None:
        if self.acked.setdefault(offset, value) != value:
            raise Violation(f"G3: {offset} was acknowledged for two values")

    def fetch(self, node: Node) -> None:
        """A leader takes a follower's fetch and answers."""
        follower, log = node.partition.role.follower, node.log
        if not node.alive or follower is None or follower.ended or log.cutting:
            return
        leader = self.nodes[follower.leader]
        term = leader.term
        if term is None or leader.partition.leader_epoch != node.partition.leader_epoch:
            return
        if log.flushed_offset < log.end_offset:
            return
        if log.end_offset < leader.log.start_offset:
            self.fell_behind(node, leader.log.start_offset)
            return
        end, latest = log.end_offset, log.epochs.latest
        mark, start = leader.log.high_watermark, leader.log.start_offset
        cut = diverging(leader.partition, end, latest)
        if cut is not None:
            node.answers.append(Answer(follower, end, b"", mark, cut, start))
            return
        fetch = ReplicaFetch(node.id, end, log.flushed_offset, node.registration, log.start_offset)
        term.note_fetch(fetch, self.now, may_join=leader.partition.may_join(node.id))
        found = read(leader.log, end, self.drawn.choice((1, 400)), below=leader.log.end_offset)
        mark = leader.log.high_watermark
        node.answers.append(Answer(follower, end, bytes(found.data), mark, None, start))

    def fell_behind(self, node: Node, leader_start: Offset) -> None:
        """A follower's log ends below its leader's start."""

    def answer(self, node: Node) -> None:
        """A follower hears an answer, late perhaps, or never."""
        if not node.answers or not node.alive:
            return
        answer = node.answers.pop(0)
        if self.drawn.random() < 0.05 or answer.at != node.log.end_offset:
            return
        try:
            if answer.diverging is None:
                answer.follower.append(memoryview(answer.data), answer.high_watermark, NOW_MS)
                answer.follower.move_start(answer.log_start)
                return
            cut = answer.follower.offset_to_cut(*answer.diverging)
        except ApiError:
            return
        if cut is None:
            raise Violation(f"{node.id} went out of service after clean elections only")
        if self.cuts_below_high_watermark:
            self.cut(node, max(cut - 1, 0), unclean=True)
        else:
            self.cut(node, cut)

    def cut(self, node: Node, offset: int, *, unclean: bool = False) -> None:
        self.cuts += offset < node.log.end_offset
        results: list[BaseException | None] = []
        node.world.directory.truncate_logs([(node.log, Offset(offset))], results.append,
                                           unclean=unclean)  # fmt: skip
        node.world.settle()
        if results != [None]:
            raise Violation(f"{node.id} could not be cut at {offset}: {results}")

    def flush(self, node: Node) -> None:
        if node.alive:
            node.world.clock.turn()
            node.world.disk.settle(self.drawn.choice((1, 2, 1000)))

    def order(self, node: Node) -> None:
        """A broker hears what the controller has written last."""
        if not node.alive:
            return
        written, role = self.controller, node.partition.role
        epoch = LeaderEpoch(written.epoch)
        if written.leader == node.id:
            replicas = Replicas(node.id, BROKERS, written.in_sync, written.partition_epoch)
            role.lead(epoch, replicas, now=self.now, may_commit=lambda: self.leads(node, epoch))
            return
        if self.truncates_to_high_watermark and role.leader_epoch != epoch:
            self.cut(node, node.log.high_watermark)
        role.follow(BrokerId(written.leader), epoch)

    def leads(self, node: Node, epoch: LeaderEpoch) -> bool:
        return self.controller.leader == node.id and self.controller.epoch == epoch

    def ask_controller(self, node: Node) -> None:
        """A leader asks for its pending ISR; what is written or said may be lost."""
        term = node.term
        change = term.pending if term else None
        if term is None or change is None:
            return
        fate = self.drawn.random()
        written = fate < 0.8 and self.may_write(node, change)
        if written:
            members = tuple(broker for broker, _ in change.in_sync)
            self.controller.write(self.controller.leader, members)
        if fate > 0.6:
            term.isr_answer_lost()
        elif written:
            in_sync, epoch = self.controller.in_sync, self.controller.partition_epoch
            node.partition.role.isr_committed(in_sync, epoch)
        elif self.controller.partition_epoch == change.partition_epoch:
            term.isr_refused()

    def may_write(self, node: Node, change: IsrChange) -> bool:
        written = self.controller
        return (
            (written.leader, written.epoch) == (node.id, node.partition.leader_epoch)
            and written.partition_epoch == change.partition_epoch
            and all(
                broker == node.id
                or (self.nodes[broker].alive and self.nodes[broker].registration == epoch)
                or (broker in written.in_sync and epoch == -1)
                for broker, epoch in change.in_sync
            )
        )

    def shrink(self, node: Node) -> None:
        if node.term is not None:
            node.term.shrink(self.now, LAG_SECONDS)

    def elect(self, node: Node) -> None:
        if node.alive and node.id in self.controller.in_sync:
            self.controller.write(node.id, self.controller.in_sync)

    def end_process(self, node: Node) -> None:
        """Kill a broker, with the power or without; the controller notices."""
        if not node.alive:
            return
        node.alive = False
        node.answers.clear()
        flushed = {
            at: value for at, value in node.content().items() if at < node.log.flushed_offset
        }
        disk = node.world.disk
        if self.drawn.random() < 0.6:
            states = crash_states(disk, len(disk.ops), seed=self.drawn.randint(0, 99), samples=1)
            left = self.drawn.choice(list(states))
        else:
            left = disk.left_by_a_kill()
        node.world = node.world.after_power_cut(left)
        node.open()
        if {at: node.content().get(at) for at in flushed} != flushed:
            raise Violation(f"G12: {node.id} has lost what it had flushed")
        in_sync = tuple(broker for broker in self.controller.in_sync if broker != node.id)
        living = [broker for broker in in_sync if self.nodes[broker].alive]
        leader = self.controller.leader
        if leader == node.id and living:
            leader = self.drawn.choice(living)
        if living or (in_sync and leader != node.id):
            self.controller.write(leader, in_sync)

    def start(self, node: Node) -> None:
        if not node.alive:
            node.alive = True
            node.registration += 1
            self.marks[node.id] = 0
            if self.controller.leader == node.id:  # nobody else could lead: a new term of its own
                self.controller.epoch += 1
                self.controller.partition_epoch += 1

    # --- what must hold -------------------------------------------------------------------------

    def judge(self) -> None:
        running = [node for node in self.nodes if node.alive]
        for node in running:
            mark = node.log.high_watermark
            if mark < self.marks[node.id]:
                raise Violation(f"G6: {node.id} went back from {self.marks[node.id]} to {mark}")
            if mark > node.log.flushed_offset:
                raise Violation(f"G7: {node.id} shows {mark}, flushed {node.log.flushed_offset}")
            self.marks[node.id] = mark
        for one in running:
            for other in running[running.index(one) + 1 :]:
                self.compare(one, other)
        leader = self.nodes[self.controller.leader]
        if leader.term is not None and leader.partition.leader_epoch == self.controller.epoch:
            self.judge_leader(leader, leader.term)

    def compare(self, one: Node, other: Node) -> None:
        below = min(one.log.high_watermark, other.log.high_watermark)
        mine, theirs = one.content(), other.content()
        for offset in range(below):
            if mine.get(offset) != theirs.get(offset):
                raise Violation(f"G3: {offset} differs between {one.id} and {other.id}")

    def judge_leader(self, leader: Node, term: LeaderTerm) -> None:
        content = leader.content()
        for offset, value in self.acked.items():
            if content.get(offset) != value and not self.may_lack(value):
                raise Violation(f"G1: {value!r}, acknowledged at {offset}, is not on {leader.id}")
        mark = leader.log.high_watermark
        for broker in self.controller.in_sync:
            member = self.nodes[broker]
            if member.log.flushed_offset < mark:
                raise Violation(f"G7: {mark} is committed, and not flushed on {broker}")
        if term.knows_end:
            if mark < self.end_seen:
                raise Violation(f"G6: clients were told {self.end_seen}, and now {mark}")
            self.end_seen = mark

    def may_lack(self, value: bytes) -> bool:
        """Whether a value may be deleted."""
        return False

    def close(self) -> None:
        for node in self.nodes:
            node.world.close()


def run(seed: int, steps: int, kind: type[ThreeReplicas] = ThreeReplicas) -> ThreeReplicas:
    """Play one history. Violation, with its last steps, where a promise breaks."""
    cluster = kind(seed)
    try:
        for _ in range(steps):
            cluster.step()
    except Violation as violation:
        raise Violation(f"seed {seed}: {violation}; before: {cluster.trace[-25:]}") from None
    finally:
        cluster.close()
    return cluster

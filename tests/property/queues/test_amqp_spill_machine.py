"""Queues in memory against a model while nearly all that they hold is on disk.

Once with threads that have done their work at once, so that a queue on disk must be in each step
what a queue in memory is; once with writes and reads under way whatever else is done.
"""

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.ports.deadlines import Deadlines
from headrace.queue_stores.memory.memory_messages import MemoryMessages
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.memory.spill import RETRY_SECONDS, Spill
from headrace.queue_stores.memory.spill_extent import OBJECT_BYTES
from headrace.queue_stores.memory.spill_files import SpillFiles
from headrace.testing.clock import SimClock
from tests.property.queues.test_amqp_queue_machine import QueueMachine
from tests.support.amqp.deliveries import Delivery, getter
from tests.support.examples import examples
from tests.support.queues.queues import settings
from tests.support.queues.spill import DATA, InstantDisk, SpillRoom, number_of

if TYPE_CHECKING:
    from headrace.model.errors import HeadraceError

SMALL = 210
"""What a message of the machines takes in memory, about."""
ANY = 1 << 40


class SpilledQueueMachine(QueueMachine):
    """A queue most of whose messages are on disk after each step is a queue like any other."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = SimClock()
        self.disk = InstantDisk()
        self.disk.make_directory(DATA)
        self.use = MemoryUse(3 * SMALL)
        self.stores: list[MemoryMessages] = []
        self.spill = Spill(
            self.use,
            SpillFiles(self.disk, DATA, 8 * SMALL),
            Deadlines(self.clock),
            lambda: [self],
            3 * SMALL,
        )
        self.use.bytes_hard_max = ANY

    def new_store(self) -> MemoryMessages:
        """Return a store that spills at once."""
        self.stores.append(MemoryMessages(self.use))
        return self.stores[-1]

    @invariant()
    def memory_is_small(self) -> None:
        while self.clock.turn():
            pass
        extents = sum(len(store._older._extents) for store in self.stores if store._older)
        # An extent that is being handed out from stays, and what is too little to be written.
        assert self.use.bytes - extents * OBJECT_BYTES <= 3 * SMALL + 2 * 4 * SMALL
        assert self.use.bytes == sum(store.bytes for store in self.stores)

    def teardown(self) -> None:
        while self.clock.turn():
            pass
        for store in self.stores:
            store.settle(range(store.end))
        while self.clock.turn():
            pass
        assert (self.use.bytes, self.disk.list(DATA), self.disk.open_files) == (0, [], 0)


TestSpilledQueueMachine = SpilledQueueMachine.TestCase
TestSpilledQueueMachine.settings = hypothesis_settings(
    max_examples=examples(60), stateful_step_count=40
)


@dataclass
class Known:
    """A message as the model knows it."""

    number: int
    expires_at: float | None
    given: bool = False


class UnderWayMachine(RuleBasedStateMachine):
    """Two queues of one broker, whose writes and reads are done now and then."""

    @initialize(dead_letters=st.booleans(), mark=st.sampled_from([2, 8, 30]))
    def begin(self, dead_letters: bool, mark: int) -> None:
        self.room = SpillRoom(mark * SMALL, file_bytes=10 * SMALL, extent_bytes=4 * SMALL)
        self.room.use.bytes_hard_max = ANY
        self.dead_letters = dead_letters
        drawn = settings(dead_letters=dead_letters)
        self.queues = [self.room.queue(drawn, name) for name in ("a", "b")]
        self.ready: list[list[Known]] = [[], []]
        self.held: dict[int, tuple[int, Known]] = {}
        """By delivery tag: which queue's, and the message."""
        self.dead: list[int] = []

    def die(self, known: Known) -> None:
        if self.dead_letters:
            self.dead.append(known.number)

    def let_expire(self) -> None:
        for ready in self.ready:
            while ready and (at := ready[0].expires_at) is not None and at <= self.room.now:
                self.die(ready.pop(0))

    def settle(self) -> None:
        """Let all be done that is due now, what died be given out included."""
        before: list[int] = []
        while before != (now := [len(self.room.died), *(queue.ready for queue in self.queues)]):
            before = now
            for queue in self.queues:
                queue.expire(self.room.now)
                self.room.deliver(queue)
                self.room.settle()

    which = st.integers(0, 1)

    @rule(which=which, count=st.integers(1, 12), life=st.sampled_from([None, None, None, 2000]))
    def publish(self, which: int, count: int, life: int | None) -> None:
        numbers = self.room.publish(self.queues[which], count, 4, expiration_ms=life)
        expires_at = None if life is None else self.room.now + life / 1000
        self.ready[which] += [Known(number, expires_at) for number in numbers]

    @rule(turns=st.integers(0, 2), steps=st.integers(0, 3))
    def some_is_done(self, turns: int, steps: int) -> None:
        for _ in range(turns):
            self.room.clock.turn()
        self.room.disk.settle(steps)

    @rule(which=which, count=st.integers(1, 8), no_ack=st.booleans())
    def get(self, which: int, count: int, no_ack: bool) -> None:
        queue, ready = self.queues[which], self.ready[which]
        got: list[Delivery | HeadraceError | None] = []
        for _ in range(count):
            queue.get(
                getter(queue, self.room.channel, got.append, self.room.now, no_ack=no_ack),
                self.room.now,
            )
        self.room.settle()
        due: list[Known] = []
        for _ in range(count):
            self.let_expire()
            due += ready[:1]
            del ready[:1]
        self.let_expire()
        numbers = [each and number_of(each[2]) for each in got if isinstance(each, tuple | None)]
        assert numbers == [*(each.number for each in due), *([None] * (count - len(due)))]
        for delivery, known in zip(got, due, strict=False):
            assert isinstance(delivery, tuple)
            assert delivery[3] is known.given
            known.given = True
            if not no_ack:
                self.held[delivery[1]] = which, known

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(), verb=st.sampled_from(["ack", "requeue", "reject"]), multiple=st.booleans()
    )
    def settle_some(self, data: st.DataObject, verb: str, multiple: bool) -> None:
        tag = data.draw(st.sampled_from(sorted(self.held)))
        tags = [each for each in self.held if each == tag or (multiple and each < tag)]
        if verb == "ack":
            self.room.channel.ack(tag, multiple=multiple)
        else:
            self.room.channel.nack(tag, multiple=multiple, requeue=verb == "requeue")
        self.room.channel.woken.clear()
        for each in tags:
            which, known = self.held.pop(each)
            if verb == "requeue":
                self.ready[which].append(known)
                self.ready[which].sort(key=lambda other: other.number)
            elif verb == "reject":
                self.die(known)

    @rule(which=which)
    def purge(self, which: int) -> None:
        self.settle()
        self.let_expire()
        assert self.queues[which].purge() == len(self.ready[which])
        self.ready[which].clear()

    @rule(which=which)
    def delete_and_declare_anew(self, which: int) -> None:
        self.settle()
        self.let_expire()
        queue = self.queues[which]
        assert queue.delete() == len(self.ready[which])
        self.room.all.remove(queue)
        self.ready[which].clear()
        tags = [tag for tag, (of, _) in self.held.items() if of == which]
        for tag in tags:
            self.room.channel.ack(tag)
            del self.held[tag]
        self.queues[which] = self.room.queue(settings(dead_letters=self.dead_letters), "anew")

    @rule(seconds=st.sampled_from([0.5, RETRY_SECONDS, 2.0]))
    def later(self, seconds: float) -> None:
        self.room.clock.advance(seconds)

    @rule(partial=st.sampled_from([0, 300]), count=st.integers(0, 2))
    def the_disk_is_full(self, partial: int, count: int) -> None:
        self.room.disk.fail_writes(count, errno.ENOSPC, partial)

    @rule()
    def the_disk_has_room(self) -> None:
        self.room.disk.heal()

    @rule()
    def all_is_done(self) -> None:
        self.settle()
        self.let_expire()
        for queue, ready in zip(self.queues, self.ready, strict=True):
            assert queue.ready == len(ready)
        assert sorted(self.room.died) == sorted(self.dead)
        use, files = self.room.use, self.room.files
        assert use.bytes == sum(self.room.store(queue).bytes for queue in self.queues)
        assert self.room.disk.open_files == 0
        nodes = [self.room.disk.stat(f"{DATA}/{name}") for name in self.room.names]
        # A full disk does not even let go of what a failed write has left behind the end.
        assert files.bytes <= sum(node.size for node in nodes if node is not None)
        assert not files.is_wasteful or self.room.spill._resting

    def teardown(self) -> None:
        if not hasattr(self, "room"):
            return
        self.room.disk.heal()
        self.room.clock.advance(RETRY_SECONDS)
        self.all_is_done()
        for tag in list(self.held):
            self.room.channel.ack(tag)
        for which in (0, 1):
            while self.ready[which]:
                self.get(which, 7, True)
        self.settle()
        assert (self.room.use.bytes, self.room.names) == (0, [])


TestUnderWayMachine = UnderWayMachine.TestCase
TestUnderWayMachine.settings = hypothesis_settings(
    max_examples=examples(80), stateful_step_count=40
)

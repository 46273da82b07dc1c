"""A queue against a plain model: what waits, who holds it, what died, whatever is done in between.

The model knows each message and judges what the queue hands out: the right ones, to whom they may
go, as many as can. Which of several equal consumers is next is the queue's to say.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.ports.callbacks import ignore_result
from headrace.queue_stores.memory.memory_messages import MemoryMessages
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.queue_settings import Overflow, Published, QueueSettings
from headrace.queues.engine.message_queue import MessageQueue
from headrace.queues.port import Consumer
from headrace.queues.refusals import Refused
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.reply_codes import ChannelClosing
from tests.support.amqp.deliveries import ChannelKit, Delivery, delivered, got, taken_of
from tests.support.examples import examples
from tests.support.queues.queues import positions_in, settings


@dataclass
class Known:
    """A message as the model knows it."""

    number: int
    size: int
    priority: int
    expires_at: float | None
    given: bool = False
    returns: int = 0

    def place(self) -> tuple[int, int]:
        return -self.priority, self.number


@dataclass
class KnownChannel:
    """A channel and what the model says it holds: tags to messages and their consumers."""

    channel: ChannelKit
    held: dict[int, tuple[Known, Consumer | None]] = field(default_factory=dict)

    def of(self, consumer: Consumer) -> int:
        return sum(holder is consumer for _, holder in self.held.values())

    def counted(self) -> int:
        return sum(holder is not None for _, holder in self.held.values())

    def room(self, consumer: Consumer) -> int:
        """How many more messages `consumer` may be given."""
        if self.channel.paused:
            return 0
        prefetch = self.channel.prefetch
        rooms = [prefetch - self.counted()] if prefetch else []
        if consumer.prefetch and not consumer.no_ack:
            rooms.append(consumer.prefetch - self.of(consumer))
        return max(min(rooms, default=1000), 0)


channels = st.integers(0, 1)
few = st.integers(0, 3)


class QueueMachine(RuleBasedStateMachine):
    """One queue, two channels."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.number = 0
        self.ready: list[Known] = []
        self.dead: list[tuple[int, str]] = []
        self.consumers: list[Consumer] = []
        self.active: Consumer | None = None
        self.all: dict[int, Known] = {}

    @initialize(
        drawn=st.builds(
            settings,
            ttl_ms=st.sampled_from([None, None, 0, 3000]),
            length_max=st.sampled_from([None, None, 0, 1, 3]),
            length_bytes_max=st.sampled_from([None, None, 6]),
            overflow=st.sampled_from(list(Overflow)),
            dead_letters=st.booleans(),
            priority_max=st.sampled_from([None, 2]),
            delivery_limit=st.sampled_from([None, 1]),
            single_active_consumer=st.booleans(),
        )
    )
    def begin(self, drawn: QueueSettings) -> None:
        self.settings = drawn
        self.queue = MessageQueue(
            "queue 'q' in vhost '/'", drawn, lambda _: self.new_store(), self.now
        )
        self.channels = [KnownChannel(ChannelKit(number)) for number in (1, 2)]

    def new_store(self) -> MemoryMessages:
        """Return what one priority's messages are kept in."""
        return MemoryMessages(MemoryUse())

    def die(self, known: Known, reason: str) -> None:
        if self.settings.dead_letters:
            self.dead.append((known.number, reason))

    def exceeds(self, count: int, size: int) -> bool:
        longest, largest = self.settings.length_max, self.settings.length_bytes_max
        return (longest is not None and count > longest) or (largest is not None and size > largest)

    def bytes_ready(self) -> int:
        return sum(known.size for known in self.ready)

    def trim(self) -> None:
        if self.settings.overflow is Overflow.DROP_HEAD:
            while self.ready and self.exceeds(len(self.ready), self.bytes_ready()):
                self.die(self.ready.pop(0), "maxlen")

    def let_expire(self, *, now_too: bool = True) -> None:
        while self.ready:
            at = self.ready[0].expires_at
            if at is None or at > self.now or (at == self.now and not now_too):
                return
            self.die(self.ready.pop(0), "expired")

    def put(self, known: Known) -> None:
        self.ready.append(known)
        self.ready.sort(key=Known.place)

    def channel_of(self, consumer: Consumer) -> KnownChannel:
        return next(known for known in self.channels if known.channel is consumer.channel)

    def takers(self) -> list[Consumer]:
        """Who may be given a message."""
        asked = self.consumers
        if self.settings.single_active_consumer:
            asked = [self.active] if self.active is not None else []
        return [consumer for consumer in asked if self.channel_of(consumer).room(consumer)]

    def absorb(self, handed: list[Delivery]) -> None:
        """Judge what was handed out, and take it over."""
        due = []
        for _ in handed:
            self.let_expire(now_too=False)
            due.append(self.ready.pop(0))
        self.let_expire(now_too=False)
        given = sorted(int(message.body.split(b".")[0]) for _, _, message, _, _ in handed)
        assert given == sorted(known.number for known in due)
        before = self.takers()
        counts = dict.fromkeys(before, 0)
        for delivery in handed:
            consumer = delivery[0]
            assert consumer in before
            counts[consumer] += 1
            assert self.channel_of(consumer).room(consumer) > 0
            self.hand(delivery, consumer)
        left = self.takers()
        assert not self.ready or not left
        for consumer, count in counts.items():
            assert not count or all(other.priority <= consumer.priority for other in left)
            for other in left:
                assert other.priority != consumer.priority or counts[other] + 1 >= count

    def hand(self, delivery: Delivery, holder: Consumer | None) -> None:
        consumer, tag, message, redelivered, returns = delivery
        known = self.all[int(message.body.split(b".")[0])]
        assert redelivered == known.given
        assert returns == (known.returns if self.settings.delivery_limit is not None else 0)
        known.given = True
        if not consumer.no_ack:
            self.channel_of(consumer).held[tag] = known, holder

    def new_handed(self) -> list[Delivery]:
        return taken_of(self.queue)

    def run(self, handed: list[Delivery]) -> None:
        self.let_expire(now_too=False)
        self.absorb(handed)
        self.trim()
        self.let_expire()

    # What is done

    @rule(size=st.integers(2, 5), priority=few, life=st.sampled_from([None, None, 0, 2000]),
          times=st.integers(1, 4))  # fmt: skip
    def publish(self, size: int, priority: int, life: int | None, times: int) -> None:
        for _ in range(times):
            self.publish_one(size, priority, life)

    def publish_one(self, size: int, priority: int, life: int | None) -> None:
        self.number += 1
        body = f"{self.number}.".encode().ljust(size, b"x")
        lives = [each for each in (life, self.settings.ttl_ms) if each is not None]
        known = Known(
            self.number,
            len(body),
            0 if self.settings.priority_max is None else min(priority, 2),
            self.now + min(lives) / 1000 if lives else None,
        )
        self.all[known.number] = known
        published = Published(Message("", "q", b"", body), priority, life)
        taken = self.queue.publish(published, self.now)
        handed = self.new_handed()
        limited = self.exceeds(1 << 40, 1 << 40)
        if limited and self.settings.overflow is not Overflow.DROP_HEAD:
            new = [each for each in handed if each[2].body == body]
            self.run([each for each in handed if each[2].body != body])
            full = self.exceeds(len(self.ready) + 1, self.bytes_ready() + known.size)
            assert taken is not full
            if full:
                if self.settings.overflow is Overflow.REJECT_PUBLISH_DLX:
                    self.die(known, "maxlen")
                return
            handed = new
        assert taken
        self.put(known)
        if limited or (lives and min(lives) == 0):
            self.run(handed)

    @rule()
    def deliver(self) -> None:
        given = delivered(self.queue, self.now)
        self.let_expire()
        self.absorb(given)
        self.trim()
        for known in self.channels:
            known.channel.woken.clear()

    @rule(which=channels, no_ack=st.booleans())
    def get(self, which: int, no_ack: bool) -> None:
        known = self.channels[which]
        given = got(self.queue, known.channel, self.now, no_ack=no_ack)
        self.run(self.new_handed())
        if not self.ready:
            assert given is None
            return
        assert given is not None
        assert int(given[2].body.split(b".")[0]) == self.ready.pop(0).number
        self.hand(given, None)
        self.let_expire()

    @rule(which=channels, prefetch=few, priority=st.integers(0, 1), no_ack=st.booleans(),
          exclusive=st.sampled_from([False, False, False, True]))  # fmt: skip
    def consume(
        self, which: int, prefetch: int, priority: int, no_ack: bool, exclusive: bool
    ) -> None:
        consumer = Consumer(
            self.queue,  # type: ignore[arg-type]  # it is on its own, without a name
            self.channels[which].channel,
            f"c{len(self.consumers)}",
            no_ack=no_ack,
            prefetch=prefetch,
            priority=priority,
            exclusive=exclusive,
        )
        alone = any(other.exclusive for other in self.consumers)
        if alone or (exclusive and (self.consumers or self.settings.single_active_consumer)):
            with pytest.raises(Refused, match="in exclusive use"):
                self.queue.consume(consumer, self.now, ignore_result)
            return
        self.queue.consume(consumer, self.now, ignore_result)
        self.consumers.append(consumer)
        self.active = self.active or consumer

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.remove(data.draw(st.sampled_from(self.consumers)))

    def remove(self, consumer: Consumer) -> None:
        self.queue.cancel(consumer, self.now)
        self.consumers.remove(consumer)
        if consumer is self.active:
            self.active = max(self.consumers, key=lambda other: other.priority, default=None)

    @rule(data=st.data(), which=channels, multiple=st.booleans(),
          verb=st.sampled_from(["ack", "requeue", "reject"]))  # fmt: skip
    def settle(self, data: st.DataObject, which: int, multiple: bool, verb: str) -> None:
        known = self.channels[which]
        tag = data.draw(st.sampled_from([*known.held, 0, known.channel.next_tag]))
        if tag not in known.held and not (tag == 0 and multiple):
            with pytest.raises(ChannelClosing, match=f"unknown delivery tag {tag}"):
                known.channel.ack(tag, multiple=multiple)
            return
        if verb == "ack":
            known.channel.ack(tag, multiple=multiple)
        else:
            known.channel.nack(tag, multiple=multiple, requeue=verb == "requeue")
        tags = [
            each for each in known.held if each == tag or (multiple and (each < tag or not tag))
        ]
        self.release(known, tags, verb)

    def release(self, known: KnownChannel, tags: list[int], verb: str) -> None:
        """Let the model do with `tags` what the queue did, once for each run of one holder."""
        last: tuple[object, int] | None = None
        for tag in tags:
            message, holder = known.held.pop(tag)
            run = id(holder) if holder else tag, message.priority
            if run != last and verb == "requeue":
                self.trim()
            last = run
            if verb == "reject":
                self.die(message, "rejected")
            elif verb == "requeue":
                message.returns += 1
                limit = self.settings.delivery_limit
                if limit is not None and message.returns > limit:
                    self.die(message, "delivery_limit")
                else:
                    self.put(message)
        if verb == "requeue":
            self.trim()

    @rule(which=channels)
    def close(self, which: int) -> None:
        known = self.channels[which]
        for consumer in list(self.consumers):
            if consumer.channel is known.channel:
                self.remove(consumer)
        known.channel.close()
        self.release(known, list(known.held), "requeue")
        self.channels[which] = KnownChannel(ChannelKit(known.channel.number))

    @rule(which=channels, prefetch=few)
    def set_prefetch(self, which: int, prefetch: int) -> None:
        self.channels[which].channel.set_prefetch(prefetch)

    @rule(which=channels)
    def pause_or_resume(self, which: int) -> None:
        channel = self.channels[which].channel
        if channel.paused:
            channel.resume()
        else:
            channel.pause()

    @rule(seconds=st.sampled_from([1.0, 2.0, 3.0]))
    def later(self, seconds: float) -> None:
        self.deliver()  # as a broker's turn does: what a consumer waits for does not expire
        expected = self.ready[0].expires_at if self.ready else None
        assert self.queue.next_deadline() == expected
        self.now += seconds
        assert not self.queue.expire(self.now)
        self.let_expire()

    @rule()
    def purge(self) -> None:
        assert self.queue.purge() == len(self.ready)
        self.ready.clear()

    @rule()
    def store_dead_letters(self) -> None:
        letters = self.queue.take_dead_letters()
        self.queue.dead_letters_stored(letters)
        told = [
            (int(letter.message.body.split(b".")[0]), letter.reason.value)
            for letter in letters
            if letter.message is not None
        ]
        assert sorted(told) == sorted(self.dead)
        self.dead.clear()

    @invariant()
    def counts_are_the_models(self) -> None:
        if not hasattr(self, "queue"):
            return
        queue = self.queue
        assert (queue.ready, queue.ready_bytes) == (len(self.ready), self.bytes_ready())
        held = [known.held for known in self.channels]
        assert queue.unacked == sum(map(len, held))
        for known in self.channels:
            assert list(known.channel.held) == list(known.held)
            assert known.channel.unacked == known.counted()
        for consumer in self.consumers:
            assert consumer.unacked == self.channel_of(consumer).of(consumer)
        kept = [positions_in(level.store) for level in queue._levels.values()]
        assert sum(map(len, kept)) == queue.ready + queue.unacked + sum(
            letter.level is not None for letter in queue._dying
        )


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = hypothesis_settings(max_examples=examples(60), stateful_step_count=40)


def test_what_is_of_age_behind_what_was_got_is_gone_with_it() -> None:
    """Of a history that was drawn once: the machine's own memory."""
    state = QueueMachine()
    state.begin(settings())
    state.publish_one(2, 0, None)
    state.publish_one(2, 0, 0)
    state.get(which=0, no_ack=False)
    state.counts_are_the_models()

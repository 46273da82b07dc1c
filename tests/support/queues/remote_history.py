"""A history of a queue on another broker: clients' calls and a bad network, step by step.

Each step is an operation and two numbers. After each, what the clients were sent is checked against
what was promised to them; `finish` heals the network, settles all, and checks that nothing is
missing or stuck. A broken promise raises AssertionError.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from headrace.ports.callbacks import ignore_result
from headrace.queues.port import Consumer
from tests.support.amqp.deliveries import ChannelKit, getter
from tests.support.queues.moving_place import MovingPlace
from tests.support.queues.port_place import persistent
from tests.support.queues.remote_pair import RemotePlace

if TYPE_CHECKING:
    from headrace.queues.awaited import Awaited

Step = tuple[str, int, int]
CHANNELS = 2
ROUNDS_MAX = 60
LONG_SECONDS = 1.5
"""Longer than a session lasts without a connection."""


class Client(NamedTuple):
    """A channel with its consumers."""

    channel: ChannelKit
    consumers: list[Consumer]


class RemoteHistory:
    """A queue, two channels on another broker, and what they know."""

    def __init__(self, here: RemotePlace, *, prefetch: int = 0) -> None:
        """`prefetch`: limit of each whole channel; 0: none."""
        self.here = here
        self.counts: Counter[str] = Counter()
        """How often each kind of event happened, to tell whether a test tests anything."""
        self._prefetch = prefetch
        self._clients = [self._new_client(number) for number in range(CHANNELS)]
        self._outcomes: dict[int, list[bool]] = {}
        """The reports of each message: whether it is stored."""
        self._holders: dict[int, tuple[ChannelKit, int]] = {}
        """The channel and the tag of each message that a channel holds in the present session."""
        self._acked: set[int] = set()
        self._maybe_acked: set[int] = set()
        """Messages acknowledged in a session that has ended: they may be delivered again."""
        self._last: dict[Consumer, int] = {}
        """The last message that was delivered first to a consumer."""
        self._session = self.here.network.session
        settings = here.queue.settings
        self._is_limited = settings.is_limited
        self._has_priorities = settings.priority_max is not None

    def _new_client(self, number: int) -> Client:
        channel = self.here.new_channel(number)
        channel.set_prefetch(self._prefetch)
        return Client(channel, [])

    # Steps

    def step(self, step: Step) -> None:
        """Take a step, and check what came of it."""
        operation, first, second = step
        getattr(self, f"_{operation}")(first, second)
        self.counts[operation] += 1
        self._look()

    def _publish(self, count: int, _: int) -> None:
        numbers = range(len(self._outcomes), len(self._outcomes) + count % 4 + 1)
        awaited: Awaited = {}
        taken = {}
        for number in numbers:
            self._outcomes[number] = []
            message = persistent(f"{number}", number * 7 % 3)
            taken[number] = self.here.host.publish(["q"], message, awaited, number)

        def told(unstored: object) -> None:
            for number in numbers:
                self._outcomes[number].append(
                    taken[number] and number not in unstored  # type: ignore[operator]
                )

        self.here.host.when_stored(awaited, told)

    def _consume(self, which: int, prefetch: int) -> None:
        if self._session.ended:
            return
        client = self._clients[which % CHANNELS]
        consumer = Consumer(self.here.queue, client.channel, "c", prefetch=prefetch % 4)
        client.consumers.append(consumer)
        self.here.host.consume(consumer, ignore_result)

    def _cancel(self, which: int, index: int) -> None:
        consumers = self._clients[which % CHANNELS].consumers
        if consumers:
            self.here.cancel(consumers.pop(index % len(consumers)))

    def _ack(self, which: int, index: int) -> None:
        self._settle_one(which, index, ChannelKit.ack)

    def _nack(self, which: int, index: int) -> None:
        self._settle_one(which, index, ChannelKit.nack)

    def _settle_one(
        self, which: int, index: int, settle: Callable[[ChannelKit, int], None]
    ) -> None:
        channel = self._clients[which % CHANNELS].channel
        if not channel.held:
            return
        tag = list(channel.held)[index % len(channel.held)]
        held = [each for each, holder in self._holders.items() if holder == (channel, tag)]
        for number in held:
            del self._holders[number]
            if settle is ChannelKit.ack:
                self._acked.add(number)
        settle(channel, tag)
        self.here.wake(channel)

    def _get(self, which: int, _: int) -> None:
        channel = self._clients[which % CHANNELS].channel
        if self._session.ended:
            return

        def got(found: object) -> None:
            if isinstance(found, tuple):
                self.here.sent_now([found])

        self.here.queue.get(getter(self.here.queue, channel, got, 0.0), 0.0)

    def _pause(self, which: int, resume: int) -> None:
        channel = self._clients[which % CHANNELS].channel
        (channel.resume if resume % 2 else channel.pause)()
        self.here.wake(channel)

    def _close(self, which: int, _: int) -> None:
        channel, consumers = self._clients[which % CHANNELS]
        for number in [each for each, (on, _) in self._holders.items() if on is channel]:
            del self._holders[number]
        for consumer in consumers:
            self.here.cancel(consumer)
        channel.close()
        self.here.wake(channel)
        self._clients[which % CHANNELS] = self._new_client(which % CHANNELS)

    def _run(self, _: int, __: int) -> None:
        self.here.run_leader()

    def _send(self, _: int, __: int) -> None:
        self.here.network.send()

    def _deliver(self, line: int, at: int) -> None:
        """A message arrives, mostly the next of its line; some arrive once more."""
        lines = list(self.here.network.lines)
        keep = at % 5 == 1
        self.counts["repeated"] += keep
        self.here.network.deliver(lines[line % len(lines)], max(at % 8 - 5, 0), keep=keep)

    def _lose(self, _: int, late: int) -> None:
        self.here.network.lose_connection(late=late % 2 == 1)

    def _end(self, _: int, home: int) -> None:
        """The leader or the home ends the session, as if the other's registration had ended."""
        if home % 2:
            self._session.end()
        else:
            self.here.sessions.keep({})

    def _wait(self, _: int, long: int) -> None:
        """Time passes; at times so much that a session without a connection ends."""
        self.here.wait(LONG_SECONDS if long % 4 == 0 else 0.1)

    def _move(self, which: int, settled: int) -> None:
        """The leader is killed, and another one leads, of a queue that moves.

        At times just after it has taken acknowledgements, which are not on the disk.
        """
        if not isinstance(self.here, MovingPlace):
            return
        if settled % 2 == 0:
            for _ in range(which % 8):
                self._ack(which, which)
            for _ in range(settled % 5):
                self.here.network.send()
                self.here.network.deliver_all()
                self.here.run_leader()
            self._look()
        self.here.move(settled=settled % 2 == 1)

    # Checks

    def _look(self) -> None:
        if self._session.ended:
            self._begin()
        for consumer, tag, message, redelivered, _ in self.here.take_sent():
            number = int(message.body)
            channel = consumer.channel
            assert isinstance(channel, ChannelKit)
            assert number not in self._acked, f"{number} was acknowledged, and came again"
            assert number not in self._holders, f"{number} is held twice"
            self._holders[number] = channel, tag
            self.counts["delivered"] += 1
            if not redelivered and consumer.counted and not self._has_priorities:
                assert number > self._last.get(consumer, -1), f"{number} overtook another message"
                self._last[consumer] = number
        for channel, consumers in self._clients:
            for consumer in consumers:
                held = sum(each[0] is consumer for each in channel.held.values())
                assert not consumer.prefetch or held <= consumer.prefetch, "prefetch is exceeded"
            counted = sum(each[0].counted for each in channel.held.values())
            assert not self._prefetch or counted <= self._prefetch, "a channel's prefetch, too"
        for number, told in self._outcomes.items():
            assert len(told) <= 1, f"{number} was reported twice"

    def _begin(self) -> None:
        """Begin the next session; the consumers of the one before are cancelled, or stay."""
        self.counts["sessions"] += 1
        self.here.begin()
        self._session = self.here.network.session
        if isinstance(self.here, MovingPlace):
            return  # its consumers stay, with what they hold
        self._maybe_acked |= self._acked
        self._acked.clear()
        self._holders.clear()
        self._last.clear()
        for _, consumers in self._clients:
            assert all(consumer.gone for consumer in consumers)
            consumers.clear()

    # The end

    def finish(self) -> None:
        """Heal the network, and check that all is reported, delivered and settled."""
        self._lose(0, 0)
        self._settled_down()
        undecided = [number for number, told in self._outcomes.items() if not told]
        assert not undecided, f"{undecided} were never reported"
        if not any(consumers for _, consumers in self._clients):
            self._consume(0, 0)
        self._drain()
        stored = {number for number, (kept,) in self._outcomes.items() if kept}
        missing = stored - self._acked - self._maybe_acked
        assert not missing, f"{missing} were confirmed, and never delivered"
        if isinstance(self.here, MovingPlace) and not self._is_limited:
            assert stored == self._outcomes.keys(), "publishes are not stored"
        if isinstance(self.here, MovingPlace) or not self.counts["sessions"]:
            assert self._acked == stored
        self.counts += self.here.network.counts
        if isinstance(self.here, MovingPlace):
            uncopied = self.here.remote._settlements._uncopied
            assert not uncopied, f"{len(uncopied)} settlements are never reported as copied"
        counts = self.here.counts()
        assert (counts.ready, counts.unacked) == (0, 0), f"{counts} after all was settled"

    def _drain(self) -> None:
        """Acknowledge all, again and again; all consumers that are left are to go on."""
        for channel, _ in self._clients:
            channel.resume()
            self.here.wake(channel)
        for _ in range(ROUNDS_MAX + len(self._outcomes)):
            self._settled_down()
            if not any(channel.held for channel, _ in self._clients):
                return
            for which, (channel, _) in enumerate(self._clients):
                while channel.held:
                    self._ack(which, 0)
        raise AssertionError("the queue does not become empty")

    def _settled_down(self) -> None:
        self.here.settle()
        self._look()
        self.here.settle()
        self._look()


WEIGHTS = {
    "publish": 6, "consume": 3, "cancel": 1, "ack": 8, "nack": 2, "get": 1, "pause": 1, "close": 1,
    "run": 12, "send": 12, "deliver": 40, "lose": 2, "wait": 2, "end": 1, "move": 1,
}  # fmt: skip
KINDS: list[dict[str, object]] = [
    {},
    {"x-max-length": 5, "x-overflow": "reject-publish"},
    {"x-max-priority": 2},
    {},
]
"""Arguments of the queues whose leaders change."""
OPERATIONS = [operation for operation, weight in WEIGHTS.items() for _ in range(weight)]


def played(seed: int, steps: int, *, durable: bool = False, moves: bool = False) -> Counter[str]:
    """Play a history of a seed; return how often each kind of event happened."""
    random = Random(seed)
    here = MovingPlace(KINDS[seed % len(KINDS)]) if moves else RemotePlace(durable=durable)
    history = RemoteHistory(here, prefetch=random.choice((0, 0, 1, 3)))
    operations = [each for each in OPERATIONS if each != "end" or seed % 2]
    for _ in range(steps):
        history.step((random.choice(operations), random.randrange(64), random.randrange(64)))
    history.finish()
    return history.counts


def play_late_events() -> None:
    """Deliver a message in a session that ends; its event arrives in the next session."""
    here = RemotePlace(durable=False)
    here.consume("c", prefetch=1)
    here.settle()
    here.leader.publish(["q"], persistent("a"))
    here.run_leader()  # delivered: the answer of a poll is under way
    lines = here.network.lines
    assert lines["polls answered"]
    here.network.session.end()
    here.begin()
    late = [*lines["earlier"]]
    lines["earlier"].clear()
    here.consume("d", here.new_channel(2), prefetch=1)
    assert here.sent() == ["1:d:a*"]
    lines["earlier"].extend(late)
    assert here.sent() == [], "an event of an ended session was taken"

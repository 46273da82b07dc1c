"""Publishers and consumers: threads that connect to a broker drawn at random, again and again.

Both leave a broker that answers nothing for `LEAVE_SECONDS`, as heartbeats would have them do.
"""

import random
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from headrace.wire.amqp.content import Message
from headrace.wire.amqp.control_methods import ChannelClose, ConfirmSelect
from headrace.wire.amqp.field_table import FieldTable
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicReject,
)
from headrace.wire.amqp.properties import Properties, make_header
from tests.outside.amqp.address import Address
from tests.outside.amqp_cluster.history import (
    BLOCK,
    CONFIRMED,
    REFUSED,
    SENT,
    Deliveries,
    History,
    PublisherSession,
    Subscription,
)
from tests.outside.amqp_cluster.plan import Queue
from tests.support.amqp.messages import publish_frames
from tests.support.amqp.wire import AmqpWire, Gone

WINDOW = 500
"""Publishes of a publisher that wait for their answers."""
PREFETCH = 200
LEAVE_SECONDS = 15.0
CONNECT_SECONDS_MAX = 5.0
PROBE_SECONDS = 1.0
"""A consumer without deliveries asks the broker for an answer so often."""
TURN_SECONDS = 0.01
CANCELS: FieldTable = {"capabilities": {"consumer_cancel_notify": True}}
"""Without this capability a broker cancels consumers without a word."""
RECONNECT_SECONDS = 0.1
NUMBER_BYTES = 10


class Brokers:
    """Addresses of brokers, and which of them clients may be sent to."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self.addresses = addresses
        self.living = set(range(len(addresses)))
        """Those without a fault. Replaced, never changed: threads read it."""

    def connect(self, chance: random.Random) -> tuple[int, AmqpWire]:
        """Connect to one of them at random. OSError."""
        number = chance.choice(sorted(self.living))
        port, user, password, _, host = self.addresses[number]
        wire = AmqpWire(port, CONNECT_SECONDS_MAX, host, (user, password), CANCELS)
        wire.timeout(LEAVE_SECONDS)
        return number, wire


class Client:
    """A thread that uses one connection after the other until it is told to finish."""

    def __init__(self, history: History, brokers: Brokers, seed: int) -> None:
        self._history = history
        self._brokers = brokers
        self._chance = random.Random(seed)
        self._running = True
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def started(self) -> bool:
        """Whether it has begun."""
        return self._thread.ident is not None

    def finish(self) -> None:
        """Ask it to end; `join` waits for that."""
        self._running = False

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join()

    def _run(self) -> None:
        while self._running:
            try:
                number, wire = self._brokers.connect(self._chance)
            except OSError as error:
                self._note_end(error)
                continue
            try:
                self._use(number, wire)
            except OSError as error:
                self._note_end(error)
            except Exception as error:
                self._history.problems.append(repr(error))
                raise
            finally:
                wire.close()

    def _note_end(self, error: OSError) -> None:
        self._history.ends[f"{type(error).__name__}: {error}"[:120]] += 1
        time.sleep(self._chance.uniform(0.5, 1.5) * RECONNECT_SECONDS)

    def _use(self, number: int, wire: AmqpWire) -> None:
        raise NotImplementedError

    def _next(self, wire: AmqpWire, seconds: float) -> tuple[Any, bytes] | None:
        """Return what the broker sends next within so long, None: nothing. Gone."""
        wire.timeout(seconds)
        try:
            answer = wire.received()
        except TimeoutError:
            return None
        if isinstance(answer[0], ChannelClose):
            raise Gone(answer[0].reply_text)
        return answer


class Publisher(Client):
    """Publishes to an exchange with confirms, `rate` messages a second at most."""

    def __init__(
        self, history: History, brokers: Brokers, seed: int, exchange: str, rate: float
    ) -> None:
        super().__init__(history, brokers, seed)
        self._exchange = exchange
        self._rate = rate
        header = make_header(NUMBER_BYTES, Properties(delivery_mode=2))
        frames = publish_frames(1, Message(exchange, "", header, bytes(NUMBER_BYTES)), 0)
        self._head, self._end = frames[: -NUMBER_BYTES - 1], frames[-1:]

    def _use(self, number: int, wire: AmqpWire) -> None:
        session = PublisherSession(self._exchange, number, time.monotonic())
        published = Published(self._history, session)
        try:
            wire.ask(ConfirmSelect())
            self._publish(wire, published)
            session.clean = not self._running
        finally:
            session.ended = time.monotonic()
            session.unanswered = len(published.waiting)

    def _publish(self, wire: AmqpWire, published: "Published") -> None:
        began = answered = time.monotonic()
        while self._running or published.waiting:
            now = time.monotonic()
            if self._running:
                due = int((now - began) * self._rate) - published.sent
                count = min(due, WINDOW - len(published.waiting))
                if due > WINDOW:  # what it could not send while it waited is not sent later
                    began = now - (published.sent + WINDOW) / self._rate
                if count > 0:
                    answered = answered if published.waiting else now
                    head, end = self._head, self._end
                    wire.send(
                        b"".join(
                            head + b"%0*d" % (NUMBER_BYTES, one) + end
                            for one in published.next_numbers(count)
                        )
                    )
            if not published.waiting:
                answered = now
                time.sleep(TURN_SECONDS)
            elif found := self._next(wire, TURN_SECONDS):
                answered = time.monotonic()
                published.answered(found[0], answered)
            elif now - answered > LEAVE_SECONDS:
                published.session.silent_since = answered
                raise Gone("left: no publish is answered")


class Published:
    """The publishes of a session and those that wait for their answers, by delivery tag."""

    def __init__(self, history: History, session: PublisherSession) -> None:
        self.session = session
        self.waiting: dict[int, int] = {}
        self.sent = 0
        self._history = history
        self._publishes = history.publishes
        self._index = self._publishes.open(session)
        self._confirms = self._publishes.confirms[session.exchange]
        self._next = self._block_end = 0

    def next_numbers(self, count: int) -> list[int]:
        """Give messages numbers and note them as sent."""
        publishes, now, numbers = self._publishes, time.monotonic(), []
        for _ in range(count):
            if self._next == self._block_end:
                self._next = publishes.block(self._index)
                self._block_end = self._next + BLOCK
            number = self._next
            self._next += 1
            self.sent += 1
            self.waiting[self.sent] = number
            publishes.sent[number] = now
            publishes.state[number] = SENT
            numbers.append(number)
        return numbers

    def answered(self, answer: Any, now: float) -> None:
        """Note an answer of the broker; one for no waiting publish is a problem."""
        if not isinstance(answer, BasicAck | BasicNack):
            self._history.problems.append(f"a publisher got {answer}")
            return
        tag, waiting = answer.delivery_tag, self.waiting
        if answer.multiple:
            tags = []
            for one in waiting:
                if one > tag:
                    break
                tags.append(one)
        else:
            tags = [tag] if tag in waiting else []
        if not tags:
            self._history.problems.append(f"{answer} answers no publish that waits")
        state = CONFIRMED if isinstance(answer, BasicAck) else REFUSED
        for one in tags:
            self._publishes.state[waiting.pop(one)] = state
        if state == CONFIRMED:
            self._confirms.append(now)


class Consumer(Client):
    """Consumes a queue, and settles what it got in the way that the queue is planned for."""

    def __init__(self, history: History, brokers: Brokers, seed: int, queue: Queue) -> None:
        super().__init__(history, brokers, seed)
        self._queue = queue
        self._deliveries = history.deliveries.setdefault(queue.name, Deliveries())

    def _use(self, number: int, wire: AmqpWire) -> None:
        subscription = Subscription(self._queue.name, number, time.monotonic())
        index = self._history.subscribe(subscription)
        try:
            wire.ask(BasicQos(0, PREFETCH, False))
            wire.send(encode_method(1, BasicConsume(queue=self._queue.name, consumer_tag="c")))
            self._consume(wire, subscription, index)
        finally:
            subscription.ended = time.monotonic()

    def _consume(self, wire: AmqpWire, subscription: Subscription, index: int) -> None:
        held = Held(self._queue, self._deliveries, index)
        heard = asked = time.monotonic()
        while self._running:
            found = self._next(wire, TURN_SECONDS if held.tags else 0.2)
            now = time.monotonic()
            if found is not None:
                heard = now
                self._noted(found, held, now)
            if held.tags and (len(held.tags) >= PREFETCH // 2 or not wire.has_more):
                wire.send(held.settle() + _PROBE)
                asked = now
            elif now - asked > PROBE_SECONDS and not held.asked:
                held.asked.append([])
                wire.send(_PROBE)
                asked = now
            if held.asked and now - max(heard, asked) > LEAVE_SECONDS:
                subscription.silent_since = max(heard, asked)
                raise Gone("left: the broker does not answer")

    def _noted(self, found: tuple[Any, bytes], held: "Held", now: float) -> None:
        method, body = found
        if isinstance(method, BasicDeliver):
            held.delivered(method, int(body), now)
        elif isinstance(method, BasicQosOk):
            held.accepted(now)
        elif isinstance(method, BasicCancel):
            raise Gone("the broker cancelled the consumer")


_PROBE = encode_method(1, BasicQos(0, PREFETCH, False))
"""A method whose answer shows that the broker has read what was sent before."""


class Held:
    """A subscription's deliveries that are not known to be settled."""

    def __init__(self, queue: Queue, deliveries: Deliveries, subscription: int) -> None:
        self.tags: list[tuple[int, int, int]] = []
        """Delivery tags, indexes of deliveries and numbers of messages that are to be settled."""
        self.asked: deque[list[int]] = deque()
        """For each probe the deliveries that were settled before it."""
        self._queue = queue
        self._deliveries = deliveries
        self._subscription = subscription
        self._requeued: set[int] = set()

    def delivered(self, method: BasicDeliver, number: int, now: float) -> None:
        """Note a delivery."""
        deliveries = self._deliveries
        with deliveries.lock:
            index = deliveries.note(number, now, self._subscription, method.redelivered)
        if self._queue.requeues and number % self._queue.requeues == 0 and not method.redelivered:
            self._requeued.add(index)
        self.tags.append((method.delivery_tag, index, number))

    def settle(self) -> bytes:
        """Return the frames that settle all that is held."""
        frames, settled, last = [], [], 0
        for tag, index, number in self.tags:
            if index in self._requeued:
                self._requeued.discard(index)
                frames.append(encode_method(1, BasicReject(tag, requeue=True)))
                continue
            settled.append(index)
            if self._queue.rejects and number % self._queue.rejects == 0:
                frames.append(encode_method(1, BasicReject(tag, requeue=False)))
            else:
                last = tag
        if last:  # a tag that is settled already would be an error
            frames.append(encode_method(1, BasicAck(last, True)))
        self.tags.clear()
        self.asked.append(settled)
        return b"".join(frames)

    def accepted(self, now: float) -> None:
        """Note that the broker has read what was sent before the oldest probe."""
        if self.asked:
            for index in self.asked.popleft():
                self._deliveries.settled[index] = now

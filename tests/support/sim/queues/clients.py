"""Publishers and consumers at random brokers of a simulated cluster, which note what they see."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from headrace.testing.sim.cluster import SimCluster
from headrace.wire.amqp.content import Message as Sent
from headrace.wire.amqp.control_methods import ConfirmSelect
from headrace.wire.amqp.field_kinds import NO_ARGUMENTS
from headrace.wire.amqp.field_table import FieldTable
from headrace.wire.amqp.methods import Method
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicReject,
)
from headrace.wire.amqp.properties import PERSISTENT, Properties, header_value, make_header
from tests.support.sim.queues.amqp_client import AmqpClient, Closed, Content
from tests.support.sim.queues.events import (
    Answered,
    Cancelled,
    Delivered,
    Ended,
    Event,
    How,
    Message,
    Published,
    Settled,
    Subscribed,
)

AGAIN_SECONDS = 0.3
"""The longest time until a client connects again, and until it consumes again."""
PUBLISH_SECONDS_MAX = 0.3
"""The longest time between two passes of a publisher, which publish a few messages each."""
OUTSTANDING_MAX = 60
"""Publishes of a connection without an answer, above which its publisher waits."""


class Notes:
    """Events of all clients, and the confirmed messages that are not acknowledged yet."""

    def __init__(self, now: Callable[[], float], dead: Mapping[str, str]) -> None:
        """`dead`: the queue of dead letters, by queue."""
        self.events: list[Event] = []
        self.now = now
        self.owed: set[tuple[Message, str]] = set()
        """Confirmed messages, by the queues that owe them."""
        self._dead = dead
        self._routes: dict[Message, Sequence[str]] = {}
        self._acked: set[tuple[Message, str]] = set()

    def add(self, event: Event) -> None:
        """Note an event."""
        self.events.append(event)

    def published(self, message: Message, queues: Sequence[str]) -> None:
        """Note a publish that is about to be sent."""
        self._routes[message] = queues
        self.add(Published(self.now(), message, queues))

    def answered(self, message: Message, *, stored: bool) -> None:
        """Note a confirm or a refusal."""
        self.add(Answered(self.now(), message, stored))
        if stored:
            places = {(message, queue) for queue in self._routes[message]}
            self.owed |= places - self._acked

    def acknowledged(self, message: Message, queue: str, source: str) -> None:
        """Note that a message was acknowledged; `source`: the queue where it died, or ""."""
        self._acked.add((message, queue))
        if self._dead.get(source) == queue:
            self._acked.add((message, source))
        self.owed -= self._acked


class Route(NamedTuple):
    """Where a publisher sends messages."""

    exchange: str
    key: str
    queues: Sequence[str]


class Place:
    """A client's machine, and its random choices."""

    def __init__(self, cluster: SimCluster, brokers: Sequence[int], name: str) -> None:
        self.cluster = cluster
        self.brokers = brokers
        self.name = name
        self.chance = random.Random(f"{name} {cluster.seed}")
        self.connections = 0

    async def connect(self) -> AmqpClient:
        """Return a connection to a random broker, trying until there is one."""
        while True:
            self.connections += 1
            with suppress(Closed):
                number = self.chance.choice(self.brokers)
                return await AmqpClient.connect(self.cluster, self.name, number)
            await self.pause(AGAIN_SECONDS)

    async def pause(self, seconds_max: float) -> None:
        """Wait for a random time."""
        await asyncio.sleep(self.chance.uniform(0, seconds_max))

    @property
    def connection_name(self) -> str:
        """A name for the present connection, which no other one has."""
        return f"{self.name}#{self.connections}"


class Publisher:
    """A client that publishes with confirms, at one broker after the other."""

    def __init__(self, place: Place, notes: Notes, routes: Sequence[Route]) -> None:
        self.place = place
        self.notes = notes
        self.routes = routes
        self.finishing = False
        """Whether it publishes nothing more."""
        self.waiting: dict[int, Message] = {}
        """Publishes of the present connection without an answer."""
        self.confirmed_at = 0.0
        """When the confirmed publish was sent that was sent last."""
        self._sent_at: dict[int, float] = {}

    async def go_on(self) -> None:
        """Publish until `finishing`, and return once all is answered."""
        while not (self.finishing and not self.waiting):
            client = await self.place.connect()
            watch = asyncio.create_task(client.watch())
            client.events = self._event
            with suppress(Closed):
                await client.ask(ConfirmSelect())
                await self._publish(client)
            client.end("the publisher leaves")
            self.waiting.clear()
            await watch

    async def _publish(self, client: AmqpClient) -> None:
        """Publish with one connection until it ends, or for a random time."""
        place, loop = self.place, asyncio.get_running_loop()
        until = loop.time() + place.chance.choice((3, 10, 40)) * place.chance.random()
        number = 0
        while not client.ended.done():
            await place.pause(PUBLISH_SECONDS_MAX)
            leaves = self.finishing or loop.time() > until
            if leaves and not self.waiting:
                return
            if leaves or len(self.waiting) >= OUTSTANDING_MAX:
                continue
            route = place.chance.choice(self.routes)
            for _ in range(place.chance.choice((1, 1, 2, 6))):
                if client.ended.done():
                    return
                number += 1
                self._send(client, route, number)

    def _send(self, client: AmqpClient, route: Route, number: int) -> None:
        message = Message(self.place.connection_name, number)
        body = f"{message.publisher} {number}".encode().ljust(self.place.chance.randrange(200))
        header = make_header(len(body), Properties(delivery_mode=PERSISTENT))
        self.waiting[number] = message
        self._sent_at[number] = self.notes.now()
        self.notes.published(message, route.queues)
        client.publish(Sent(route.exchange, route.key, header, body))

    def _event(self, event: Method | Content) -> None:
        if isinstance(event, BasicAck | BasicNack):
            tag = event.delivery_tag
            upto = [number for number in self.waiting if number <= tag] if event.multiple else [tag]
            for number in upto:
                # An answer that was given before has no message: the judge sees it as a second one.
                message = self.waiting.pop(number, Message(self.place.connection_name, number))
                self.notes.answered(message, stored=isinstance(event, BasicAck))
                if isinstance(event, BasicAck):
                    self.confirmed_at = max(self.confirmed_at, self._sent_at[number])


class Manner(NamedTuple):
    """How a consumer behaves."""

    queues: Sequence[str]
    """The queues that it consumes on one channel."""
    prefetches: Sequence[int] = (2, 10, 30)
    """Choices for its prefetch."""
    shared: bool = False
    """Whether the prefetch is that of the channel."""
    arguments: FieldTable = NO_ARGUMENTS
    reject_share: float = 0.0
    requeue_share: float = 0.0
    hold_seconds_max: float = 0.3
    """The longest time from a delivery to its settlement."""
    away_seconds_max: float = 0.0
    """The longest time between two connections, until `Consumer.stays`."""


class Consumer:
    """A client that consumes and settles, at one broker after the other."""

    def __init__(self, place: Place, notes: Notes, manner: Manner) -> None:
        self.place = place
        self.notes = notes
        self.manner = manner
        self.stays = False
        """Whether it settles all messages, by acknowledgements, and does not leave."""
        self.held: dict[int, tuple[Message, str, str]] = {}
        """Unsettled deliveries of the channel: message, subscription, queue where it died."""
        self._queues: dict[str, str] = {}
        """Queues by subscription."""
        self._over: set[str] = set()
        """Subscriptions whose end is noted."""
        self._tags: dict[str, str] = {}
        """Subscriptions by consumer tag."""
        self._count = 0

    async def go_on(self) -> None:
        """Consume until cancelled."""
        while True:
            client = await self.place.connect()
            watch = asyncio.create_task(client.watch())
            client.events = self._event
            client.ended.add_done_callback(self._ended)
            try:
                with suppress(Closed):
                    await self._consume(client)
            finally:
                client.end("the consumer leaves")
                self._ended()
                self._queues.clear()
                self._tags.clear()
                self.held.clear()
            await watch
            if not self.stays:
                await self.place.pause(self.manner.away_seconds_max)

    def _ended(self, reason: "asyncio.Future[str] | None" = None) -> None:
        """Note that the connection has ended, which it does while the client is busy."""
        for subscription in sorted({*self._queues} - self._over):
            self._over.add(subscription)
            self.notes.add(Ended(self.notes.now(), subscription))

    async def _consume(self, client: AmqpClient) -> None:
        place, manner, loop = self.place, self.manner, asyncio.get_running_loop()
        prefetch = place.chance.choice(manner.prefetches)
        await client.ask(BasicQos(0, prefetch, manner.shared))
        until = loop.time() + place.chance.choice((2, 10, 40)) * place.chance.random()
        leaves = place.chance.random() < 0.5
        while not client.ended.done():
            for queue in manner.queues:
                if queue not in map(self._queues.__getitem__, self._tags.values()):
                    await self._subscribe(client, queue, 0 if manner.shared else prefetch)
            await place.pause(manner.hold_seconds_max * (0.1 if self.stays else 1.0))
            self._settle(client)
            if loop.time() > until and not self.stays:
                if leaves:
                    return
                await self._cancel(client)
                until = loop.time() + 10 * place.chance.random()

    async def _subscribe(self, client: AmqpClient, queue: str, prefetch: int) -> None:
        self._count += 1
        tag = f"c{self._count}"
        subscription = f"{self.place.connection_name}/{tag}"
        self._tags[tag] = subscription
        self._queues[subscription] = queue
        self.notes.add(Subscribed(self.notes.now(), subscription, queue, prefetch))
        consume = BasicConsume(0, queue, tag, arguments=self.manner.arguments)
        await client.ask(consume)

    async def _cancel(self, client: AmqpClient) -> None:
        """Cancel a consumer; its deliveries are settled later, and it is added again."""
        tag = self.place.chance.choice([*self._tags])
        self.notes.add(Cancelled(self.notes.now(), self._tags[tag]))
        await client.ask(BasicCancel(tag))
        self._tags.pop(tag, None)  # messages may have come until now

    def _event(self, event: Any) -> None:
        if isinstance(event, BasicCancel):
            subscription = self._tags.pop(event.consumer_tag)
            self.notes.add(Cancelled(self.notes.now(), subscription))
        elif isinstance(event, Content) and isinstance(event.method, BasicDeliver):
            subscription = self._tags[event.method.consumer_tag]
            self.delivered(event, subscription)

    def delivered(self, content: Content, subscription: str) -> None:
        """Note a delivery."""
        publisher, number = content.body.split()
        message = Message(publisher.decode(), int(number))
        died = header_value(content.header, "x-first-death-queue")
        reason = header_value(content.header, "x-first-death-reason")
        where = (str(died or ""), str(reason or ""))
        tag, redelivered = content.method.delivery_tag, content.method.redelivered
        self.held[tag] = message, subscription, where[0]
        self.notes.add(Delivered(self.notes.now(), subscription, tag, message, redelivered, where))

    def _settle(self, client: AmqpClient) -> None:
        """Settle some deliveries, the oldest first, many by one frame."""
        if not self.held or client.ended.done():
            return
        chance, manner = self.place.chance, self.manner
        tags = [*self.held]
        drawn = 1.0 if self.stays else chance.random()
        if drawn < manner.reject_share:
            self._settled(How.REJECT, tags[:1])
            client.say(BasicReject(tags[0], requeue=False))
        elif drawn < manner.reject_share + manner.requeue_share:
            some = tags[: chance.randrange(1, len(tags) + 1)]
            self._settled(How.REQUEUE, some)
            client.say(BasicNack(some[-1], multiple=True, requeue=True))
        elif chance.random() < 0.3:
            tag = chance.choice(tags)
            self._settled(How.ACK, [tag])
            client.say(BasicAck(tag))
        else:
            some = tags[: chance.randrange(1, len(tags) + 1)]
            self._settled(How.ACK, some)
            client.say(BasicAck(some[-1], multiple=True))

    def _settled(self, how: How, tags: Sequence[int]) -> None:
        for tag in tags:
            message, subscription, source = self.held.pop(tag)
            self.notes.add(Settled(self.notes.now(), subscription, tag, how))
            if how is How.ACK:
                self.notes.acknowledged(message, self._queues[subscription], source)


class Getter(Consumer):
    """A client that takes messages by basic.get."""

    async def _consume(self, client: AmqpClient) -> None:
        place, manner = self.place, self.manner
        (queue,) = manner.queues
        subscription = f"{place.connection_name}/get"
        self._queues[subscription] = queue
        self.notes.add(Subscribed(self.notes.now(), subscription, queue, pulls=True))
        for _ in range(place.chance.randrange(1, 100)):
            got = await client.ask(BasicGet(0, queue))
            if isinstance(got, Content):
                self.delivered(got, subscription)
                if place.chance.random() < 0.5:
                    continue
            await place.pause(manner.hold_seconds_max)
            self._settle(client)

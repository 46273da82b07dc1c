"""A client that declares a queue, uses it and deletes it, again and again, at random brokers."""

import asyncio
from contextlib import suppress
from typing import Any

from headrace.testing.sim.history import Broken
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.control_methods import ConfirmSelect
from headrace.wire.amqp.model_methods import BasicAck, BasicGet, QueueDeclare, QueueDelete
from headrace.wire.amqp.properties import PERSISTENT, Properties, make_header
from tests.support.sim.queues.amqp_client import AmqpClient, Closed, Content
from tests.support.sim.queues.clients import Place

QUEUE = "again"
PAUSE_SECONDS_MAX = 1.0
"""The longest time between publishes and what follows them."""


class Recreating:
    """A client whose queue is empty after each deletion that was answered, also of confirmed
    messages: replicas that were down meanwhile have no part of the former queue."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.rounds = 0
        """How often the queue was declared, confirmed a message, and was deleted."""
        self._number = 0
        self._sent: dict[int, bytes] = {}
        """Publishes of the present connection that are not confirmed, by number."""
        self._confirmed: set[bytes] = set()
        """Bodies of the queue's confirmed messages."""
        self._deleted: set[bytes] = set()
        """Bodies that were confirmed before a deletion."""

    async def go_on(self) -> None:
        """Declare, use and delete until cancelled. Broken: a deleted message is delivered."""
        while True:
            client = await self.place.connect()
            watch = asyncio.create_task(client.watch())
            client.events = self._event
            self._sent.clear()
            published = 0
            try:
                with suppress(Closed):
                    await client.ask(ConfirmSelect())
                    while not client.ended.done():
                        published = await self._use(client, published)
            finally:
                client.end("the queue is used elsewhere")
            await watch

    async def _use(self, client: AmqpClient, published: int) -> int:
        """Use the queue once; return how many messages the connection has published by then."""
        chance = self.place.chance
        await client.ask(QueueDeclare(0, QUEUE, durable=True, arguments={"x-queue-type": "quorum"}))
        for _ in range(chance.randrange(1, 4)):
            published += 1
            self._publish(client, published)
        await self.place.pause(PAUSE_SECONDS_MAX)
        for _ in range(chance.randrange(4)):
            got = await client.ask(BasicGet(0, QUEUE, no_ack=True))
            if isinstance(got, Content) and got.body in self._deleted:
                raise Broken(f"deleted: {got.body!r} is delivered after its queue was deleted")
        await self.place.pause(PAUSE_SECONDS_MAX)
        confirmed = self._confirmed.copy()
        await client.ask(QueueDelete(0, QUEUE))
        self._deleted |= confirmed
        self._confirmed -= confirmed
        self.rounds += bool(confirmed)
        return published

    def _publish(self, client: AmqpClient, number: int) -> None:
        self._number += 1
        body = b"%d" % self._number
        header = make_header(len(body), Properties(delivery_mode=PERSISTENT))
        self._sent[number] = body
        client.publish(Message("", QUEUE, header, body))

    def _event(self, event: Any) -> None:
        if isinstance(event, BasicAck):
            tag = event.delivery_tag
            upto = [each for each in self._sent if each <= tag] if event.multiple else [tag]
            self._confirmed.update(self._sent.pop(each) for each in upto)

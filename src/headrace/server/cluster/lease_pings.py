"""`LeasePings`: pings to the replicas of led partitions, for the right to be their only leader.

each PING_SECONDS, to each other replica of a led partition, one at a time; at once, if a new leader
has to fence the former one:
    ping ──► answer ─► `LeadingRights`
         └─► none for SILENT_SECONDS ─► the leader asks for an ISR without that member
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import BrokerInfo, ImageDelta
from headrace.broker.replica.leading_right import (
    GRANT_SECONDS,
    PING_SECONDS,
    SILENT_SECONDS,
    WAIT_SECONDS,
    Ping,
    PingAnswer,
)
from headrace.broker.replica.leading_rights import LeadingRights
from headrace.broker.replica.ping_fields import answer_of, fields_of_ping
from headrace.client.calls.call import check
from headrace.client.transport.peer import Peer, fixed
from headrace.client.transport.peer_clients import PeerClients
from headrace.client.transport.port import Address, TimedOut
from headrace.cluster.peers.conversation import Conversation, Limits, Run
from headrace.cluster.peers.peer_call import Fields, PeerCall
from headrace.cluster.peers.registrations import RegisteredPeers
from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId
from headrace.wire.kafka.api import ApiKey

if TYPE_CHECKING:
    from headrace.ports.clock import Timer

LIMITS = Limits(questions_max=1)
FENCED_LOOK_SECONDS = 0.01
"""Seconds between two checks of whether the next leaders have fenced a broker that stops."""
LOOK_SECONDS = 1.0
"""Seconds between two looks for partitions whose ISR silent members are to leave."""


class LeasePings:
    """Pings of one broker, from `start` to `close`. Called on the deciding thread."""

    def __init__(
        self,
        broker: Broker,
        rights: LeadingRights,
        listener: str,
        clients: PeerClients,
        run: Run,
        boot_seconds: Callable[[], float],
    ) -> None:
        """Create without connections.

        `listener`: name of the inter-broker listener. `run` starts a task on the event loop.
        """
        self._broker = broker
        self._rights = rights
        self._clients = clients
        self.boot_seconds = boot_seconds
        self._peers = RegisteredPeers(broker.image, listener, self._begin)
        self._registered: dict[BrokerId, BrokerInfo] = {}
        """The registration of each broker whose answers count."""
        self._run = run
        self._unanswered: dict[BrokerId, float] = {}
        """Sending time of the oldest ping since the last answer of each broker."""
        self._ticked_at = boot_seconds()
        self.stood_still: list[Callable[[float], None]] = []
        """Called after this process stood still, with the seconds between the two ticks."""
        self._look_at = float("-inf")
        self._timer: Timer | None = None
        self._soon = False
        """Whether the brokers with fences are pinged at the end of this turn of the loop."""
        rights.ping_soon = self._ping_soon
        broker.image.observers.append(self._image_changed)

    def start(self) -> None:
        """Begin to ping. Nothing is sent while no led partition needs a right."""
        self._ticked_at = self.boot_seconds()
        self._tick_later()

    def seconds_since_tick(self) -> float:
        """Return for how long no tick ran: more than `PING_SECONDS` if the process stood still."""
        return self.boot_seconds() - self._ticked_at

    def _tick_later(self) -> None:
        self._timer = self._broker.clock.call_later(PING_SECONDS, self._tick)

    def close(self) -> None:
        """Stop pinging and close all connections."""
        if self._timer is not None:
            self._timer.cancel()
        self._broker.image.observers.remove(self._image_changed)
        self._peers.close()

    async def until_fenced(self) -> None:
        """Wait until the next leaders have the rights that this broker held, for a bounded time.

        A broker that stops would else have them wait for as long as its rights may last.
        """
        until = self.boot_seconds() + WAIT_SECONDS
        while not self._rights.is_fenced and self.boot_seconds() < until:  # noqa: ASYNC110
            await asyncio.sleep(FENCED_LOOK_SECONDS)

    def _tick(self) -> None:
        self._tick_later()
        now, others = self.boot_seconds(), self._rights.others
        self._rights.check()
        self._allow_for_own_delay(now)
        for broker in self._unanswered.keys() - others:
            del self._unanswered[broker]
        for broker in others:
            self._unanswered.setdefault(broker, now)
            self._ping(broker, now)
        self._leave_silent(now)

    def _ping_soon(self) -> None:
        """Ping the brokers that have a fence to answer, at the end of this turn."""
        if self._timer is not None and not self._soon:
            self._soon = True
            self._broker.clock.call_later(0, self._ping_fenced)

    def _ping_fenced(self) -> None:
        self._soon = False
        for broker in self._rights.fenced:
            self._ping(broker, self.boot_seconds())

    def _allow_for_own_delay(self, now: float) -> None:
        """Add the time for which this process stood still to the others' time for an answer."""
        seconds, self._ticked_at = now - self._ticked_at, now
        if seconds > 2 * PING_SECONDS:
            for broker, since in self._unanswered.items():
                self._unanswered[broker] = since + seconds - PING_SECONDS
            for told in self.stood_still:
                told(seconds)

    def _ping(self, broker: BrokerId, now: float) -> None:
        conversation = self._peers.to(broker)
        if conversation is None or not conversation.idle:
            return
        self._registered[broker] = self._broker.image.brokers[broker]
        ping = self._rights.ping(broker)
        conversation.ask(ping, partial(self._answered, broker, now, ping))

    def _answered(
        self, broker: BrokerId, sent_at: float, ping: Ping, answer: PingAnswer | ApiError
    ) -> None:
        if isinstance(answer, ApiError):
            return
        self._unanswered.pop(broker, None)
        self._rights.answered(broker, sent_at, ping, answer)
        if broker in self._rights.fenced:  # ordered since the ping was sent
            self._ping_soon()

    def _leave_silent(self, now: float) -> None:
        silent = {
            broker for broker, since in self._unanswered.items() if now - since >= SILENT_SECONDS
        }
        if silent and now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            for partition in self._rights.leave_silent(silent):
                self._broker.isr_wanted(partition)

    def _image_changed(self, delta: ImageDelta, structural: bool) -> None:
        if delta.brokers is None:
            return
        present = self._broker.image.brokers
        for broker, registered in tuple(self._registered.items()):
            if present.get(broker) != registered:
                del self._registered[broker]
                self._rights.forget(broker)

    def _begin(self, address: Address) -> "Conversation[Ping, PingAnswer]":
        own = self._broker.broker_id
        client = self._clients.make(f"broker-{own}-lease", request_timeout_seconds=GRANT_SECONDS)

        async def exchange(peer: Peer, pings: Sequence[Ping]) -> Sequence[PingAnswer]:
            """Send one ping. An answer after GRANT_SECONDS would grant nothing any more."""
            try:
                async with asyncio.timeout(GRANT_SECONDS):
                    return [await peer.ask(_call(own, pings[0]))]
            except TimeoutError:
                raise TimedOut(f"{address}: no answer in time") from None

        return Conversation(Peer(client, fixed(address)), exchange, self._run, limits=LIMITS)


def _call(own: BrokerId, ping: Ping) -> PeerCall[PingAnswer]:
    return PeerCall(ApiKey.LEASE_PING, fields_of_ping(own, ping), _parsed)


def _parsed(response: Fields) -> PingAnswer:
    check(response["errorCode"])
    return answer_of(response)

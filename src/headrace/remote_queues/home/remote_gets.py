"""The basic.gets of a queue on another broker that its leader has not answered.

Without a session they wait for one, for `GET_SECONDS_MAX`; those of a lost session are sent again.
"""

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.ports.clock import Clock
from headrace.queues.port import Deliveries, Disposition, Getter, Got
from headrace.queues.refusals import Refused
from headrace.remote_queues.home.home_session import HomeSession
from headrace.remote_queues.home.leader_link import LeaderLink, unreachable
from headrace.remote_queues.home.remote_settlements import RemoteSettlements, named
from headrace.remote_queues.messages import Get, GotMessage

if TYPE_CHECKING:
    from headrace.ports.clock import Timer

GET_SECONDS_MAX = 5.0
"""Seconds for which a basic.get waits for a leader."""


class _Asked(NamedTuple):
    getter: Getter
    timer: "Timer | None"
    """When it is refused; None: a leader was sent it."""


class RemoteGets:
    """The unanswered basic.gets of one queue."""

    def __init__(self, link: LeaderLink, settlements: RemoteSettlements, clock: Clock) -> None:
        self._link = link
        self._settlements = settlements
        self._clock = clock
        self._asked: dict[int, _Asked] = {}

    @property
    def are_there(self) -> bool:
        """Whether a basic.get waits."""
        return bool(self._asked)

    def ask(self, getter: Getter) -> None:
        """Have the leader give the next message, once there is one.

        A queue that was never used is empty.
        """
        if self._link.is_unused:
            getter.done(None)
            return
        request, session = self._link.key(), self._link.session
        if session is None:
            self._wait(request, getter)
        else:
            self._send(session, request, getter)

    def _send(self, session: HomeSession, request: int, getter: Getter) -> None:
        self._asked[request] = _Asked(getter, None)
        session.call(Get(self._link.queue, self._settlements.gets, request, getter.consumer.no_ack))

    def _wait(self, request: int, getter: Getter) -> None:
        timer = self._clock.call_later(GET_SECONDS_MAX, partial(self._late, request))
        self._asked[request] = _Asked(getter, timer)

    def _late(self, request: int) -> None:
        self._asked.pop(request).getter.done(unreachable(self._link.title))

    def got(self, event: GotMessage) -> None:
        """Pass the leader's answer to its basic.get; requeue a message for a closed channel."""
        asked = self._asked.pop(event.request, None)
        if asked is None:
            return
        getter = asked.getter
        if event.refused is not None or not event.message:
            getter.done(event.refused)
            return
        key, settlements = self._settlements.gets, self._settlements
        positions = named(key, (event.position,))
        if not getter.consumer.no_ack:
            settlements.hold(key, (event.position,))
        if getter.consumer.channel.closed:
            if not getter.consumer.no_ack:
                settlements.settle(Disposition.REQUEUED, positions)
            return
        sizes = [len(message.body) for message in event.message]
        returns = (event.returns,) if event.returns else None
        found = Deliveries(positions, event.message, sizes, event.redelivered, returns)
        getter.done(Got(found, event.ready))

    # Sessions

    def begin(self, session: HomeSession) -> None:
        """Send those that wait to a leader, but for those of closed channels."""
        for request, getter in self._taken():
            if not getter.consumer.channel.closed:
                self._send(session, request, getter)

    def lost(self) -> None:
        """Have all wait for the next leader."""
        for request, getter in self._taken():
            self._wait(request, getter)

    def refuse(self, refused: Refused) -> None:
        """Refuse all: there will be no leader."""
        for _, getter in self._taken():
            getter.done(refused)

    def _taken(self) -> list[tuple[int, Getter]]:
        """Return all with their numbers, and forget them."""
        asked, self._asked = self._asked, {}
        for each in asked.values():
            if each.timer is not None:
                each.timer.cancel()
        return [(request, each.getter) for request, each in asked.items()]

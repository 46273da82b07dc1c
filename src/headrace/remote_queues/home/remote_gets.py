"""The basic.gets of a queue on another broker that its leader has not answered."""

from headrace.queues.port import Deliveries, Disposition, Getter, Got
from headrace.queues.refusals import Refused
from headrace.remote_queues.home.leader_link import LeaderLink
from headrace.remote_queues.home.remote_settlements import RemoteSettlements, named
from headrace.remote_queues.messages import Get, GotMessage


class RemoteGets:
    """The unanswered basic.gets of one queue."""

    def __init__(self, link: LeaderLink, settlements: RemoteSettlements) -> None:
        self._link = link
        self._settlements = settlements
        self._getters: dict[int, Getter] = {}

    def ask(self, getter: Getter) -> None:
        """Have the leader give the next message; raise Refused without a session.

        A queue that was never used is empty.
        """
        if self._link.is_unused:
            getter.done(None)
            return
        link, session = self._link, self._link.open_session()
        request = link.key()
        self._getters[request] = getter
        session.call(Get(link.queue, self._settlements.gets, request, getter.consumer.no_ack))

    def got(self, event: GotMessage) -> None:
        """Pass the leader's answer to its basic.get; requeue a message for a closed channel."""
        getter = self._getters.pop(event.request, None)
        if getter is None:
            return
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

    def lost(self, refused: Refused) -> None:
        """Refuse all: the session has ended."""
        getters, self._getters = self._getters, {}
        for getter in getters.values():
            getter.done(refused)

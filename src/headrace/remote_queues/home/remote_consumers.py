"""The consumers of a queue on another broker, at their home: added, granted credit, cancelled."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from headrace.ports.clock import Clock
from headrace.queue_stores.queue_settings import QueueType
from headrace.queues.port import ConsumeDone, Consumer, Deliveries, Queue, Subscriber
from headrace.queues.refusals import Refused
from headrace.remote_queues.home.home_session import HomeSession
from headrace.remote_queues.home.leader_link import LeaderLink
from headrace.remote_queues.home.remote_consumer import RemoteConsumer
from headrace.remote_queues.home.remote_settlements import RemoteSettlements, named
from headrace.remote_queues.messages import Cancel, Consume, Credit, Delivered, Recall

if TYPE_CHECKING:
    from headrace.ports.clock import Timer

IDLE_SECONDS = 0.1
"""Seconds without a delivery after which credit that others of its channel lack is recalled."""
Touched = Callable[[Iterable[Queue]], None]
"""Has queues deliver whose consumers have credit again: `QueueHost.touched`."""


class RemoteConsumers:
    """The consumers of one queue, by their keys."""

    def __init__(
        self, link: LeaderLink, settlements: RemoteSettlements, clock: Clock, touched: Touched
    ) -> None:
        """Begin without consumers."""
        self._link = link
        self._settlements = settlements
        self._clock = clock
        self._touched = touched
        self._by_key: dict[int, RemoteConsumer] = {}
        self._keys: dict[Consumer, int] = {}
        self._consuming: dict[int, ConsumeDone] = {}
        """Callbacks of consumers that the leader has not confirmed."""
        self._timer: Timer | None = None

    @property
    def are_there(self) -> bool:
        """Whether the queue has consumers."""
        return bool(self._keys)

    # Calls of channels

    def add(self, consumer: Consumer, done: ConsumeDone) -> None:
        """Have the present leader, or the next one, add a consumer; `done` takes its answer."""
        key = self._settlements.open()
        remote = self._by_key[key] = RemoteConsumer(consumer, key)
        self._keys[consumer] = key
        self._consuming[key] = done
        if self._link.session is not None:
            self._call_for(self._link.session, remote)
        else:
            self._link.use()

    def adopt(self, queue: Queue, consumers: Iterable[Consumer]) -> None:
        """Have the next leader add consumers of a queue that this broker has led until now."""
        for consumer in consumers:
            key = self._settlements.open()
            self._by_key[key] = RemoteConsumer(consumer, key)
            self._keys[consumer] = key
            consumer.queue = queue
            self._settlements.adopt(key, consumer.channel.positions_of(consumer))

    def cancel(self, consumer: Consumer) -> None:
        """Have the leader remove a consumer, if registered."""
        key = self._keys.get(consumer)
        if key is None:
            return
        received = self._by_key[key].received
        self._consuming.pop(key, None)
        self._end(key)
        if self._link.session is not None:
            self._link.session.call(Cancel(self._link.queue, key, received))

    def grant(self, consumer: Consumer) -> None:
        """Grant a consumer the deliveries that its channel has room for."""
        remote = self._by_key.get(self._keys.get(consumer, 0))
        if remote is not None:
            self._grant(remote)

    def expects(self, consumer: Consumer) -> bool:
        """Tell whether a consumer has been granted deliveries that have not come."""
        remote = self._by_key.get(self._keys.get(consumer, 0))
        return remote is not None and remote.outstanding > 0

    @property
    def outstanding(self) -> int:
        """Number of deliveries that are granted and have not come."""
        return sum(remote.outstanding for remote in self._by_key.values())

    def _grant(self, remote: RemoteConsumer) -> None:
        session = self._link.session
        if session is not None and remote.grant():
            session.call(Credit(self._link.queue, remote.key, remote.granted))
            self._watch(remote)

    def _call_for(self, session: HomeSession, remote: RemoteConsumer) -> None:
        """Have the leader add a consumer, with the credit that its channel has room for."""
        consumer = remote.consumer
        remote.begin()
        remote.grant()
        session.call(
            Consume(
                self._link.queue, remote.key, consumer.tag, consumer.no_ack, consumer.exclusive,
                consumer.prefetch, consumer.wishes._replace(priority=consumer.priority),
                remote.granted,
            )
        )  # fmt: skip
        self._watch(remote)

    def _end(self, key: int) -> RemoteConsumer:
        """Release a consumer that is delivered nothing more."""
        remote = self._by_key.pop(key)
        del self._keys[remote.consumer]
        remote.consumer.gone = True
        remote.consumer.channel.forget(remote.consumer)
        self._free(remote, remote.received)
        self._settlements.close(key)
        return remote

    def _free(self, remote: RemoteConsumer, credit: int) -> None:
        """Give room to the other consumers of a channel, whose queues may deliver then."""
        waiting = [*remote.consumer.channel.parked]
        remote.release(credit)
        self._touched(dict.fromkeys(each.queue for each in waiting if not each.parked))

    # Sessions

    def attach(self, session: HomeSession) -> None:
        """Have a new leader add all consumers."""
        for remote in self._by_key.values():
            self._call_for(session, remote)

    def cancel_all(self, refused: Refused) -> None:
        """Cancel the consumers: no leader serves them any more."""
        consuming, self._consuming = self._consuming, {}
        for key in [*self._by_key]:
            remote = self._end(key)
            if key in consuming:
                consuming[key](refused)
            else:
                remote.consumer.channel.cancelled(remote.consumer)

    # Events

    def added(self, key: int, refused: Refused | None) -> None:
        """Report that the leader has added a consumer, or refused it."""
        done = self._consuming.pop(key, None)
        if done is not None:
            if refused is not None:
                self._end(key)
            done(refused)

    def cancelled(self, key: int, refused: Refused | None) -> None:
        """Report that the leader has cancelled a consumer."""
        if key in self._by_key:
            remote = self._end(key)
            remote.consumer.channel.cancelled(remote.consumer, refused)

    def delivered(self, event: Delivered) -> Subscriber | None:
        """Pass messages to their consumer; return its channel.

        None: it is cancelled, and the leader requeues what the home had not received.
        """
        key, positions = event.consumer, event.positions
        remote = self._by_key.get(key)
        if remote is None:
            return None
        remote.receive(len(positions))
        if remote.consumer.queue.settings.queue_type is QueueType.STREAM:
            remote.consumer.read_on_from(positions[-1] + 1)
        if not remote.consumer.no_ack:
            self._settlements.hold(key, positions)
        sizes = [len(message.body) for message in event.messages]
        deliveries = Deliveries(
            named(key, positions), event.messages, sizes, event.redelivered, event.returns
        )
        channel = remote.consumer.channel
        channel.deliver(remote.consumer, deliveries, self._clock.monotonic())
        self._grant(remote)
        return channel

    # Recalls

    def _watch(self, remote: RemoteConsumer) -> None:
        """Look soon whether a consumer has credit that it does not use and that others lack."""
        if self._timer is None and remote.shares:
            self._timer = self._clock.call_later(IDLE_SECONDS, self._look)

    def _look(self) -> None:
        """Recall the credit of idle consumers while others of their channels lack it."""
        self._timer = None
        session = self._link.session
        if session is None:
            return
        for remote in self._by_key.values():
            if not remote.shares or remote.recalling:
                continue
            idle, remote.looked_at = remote.looked_at == remote.received, remote.received
            if idle and remote.starves_others:
                remote.recalling = True
                session.call(Recall(self._link.queue, remote.key))
            self._watch(remote)

    def recalled(self, key: int, credit: int) -> None:
        """Give recalled credit to the other consumers of the channel, for a while."""
        remote = self._by_key.get(key)
        if remote is None:
            return
        remote.consumer.channel.forget(remote.consumer)
        self._free(remote, credit)
        self._clock.call_later(IDLE_SECONDS, partial(self._grant_again, remote))

    def _grant_again(self, remote: RemoteConsumer) -> None:
        """Grant what the others of its channel have left, after credit was recalled."""
        if self._by_key.get(remote.key) is remote:
            remote.recalling = False
            self._grant(remote)

"""The consumers of a queue on another broker, at their home: added, granted credit, cancelled."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from headrace.ports.clock import Clock
from headrace.queue_stores.queue_settings import QueueType
from headrace.queues.engine.stream_readers import check_reader
from headrace.queues.port import ConsumeDone, Consumer, Deliveries, Queue, Subscriber
from headrace.queues.refusals import Refused
from headrace.remote_queues.home.home_session import HomeSession
from headrace.remote_queues.home.leader_link import LeaderLink
from headrace.remote_queues.home.remote_consumer import RemoteConsumer
from headrace.remote_queues.home.remote_settlements import RemoteSettlements, named
from headrace.remote_queues.home.replica_readers import Replica, ReplicaReaders
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
        self,
        link: LeaderLink,
        settlements: RemoteSettlements,
        clock: Clock,
        touched: Touched,
        replica: Replica | None,
    ) -> None:
        """Begin without consumers. `replica`: this broker's one of a stream; None: no stream."""
        self._link = link
        self._settlements = settlements
        self._clock = clock
        self._touched = touched
        self._by_key: dict[int, RemoteConsumer] = {}
        self._keys: dict[Consumer, int] = {}
        self._consuming: dict[int, ConsumeDone] = {}
        """Callbacks of consumers that the leader has not confirmed."""
        self._timer: Timer | None = None
        self.here = (
            None if replica is None else ReplicaReaders(link.title, replica, clock, self._take_back)
        )
        """The consumers of a stream that are served here; None: the queue is no stream."""

    @property
    def are_there(self) -> bool:
        """Whether the queue has consumers."""
        return bool(self._keys or self.here)

    # Calls of channels

    def add(self, consumer: Consumer, done: ConsumeDone) -> None:
        """Have the present leader, or the next one, add a consumer; `done` takes its answer.

        Without a leader a stream's consumer is served here, if a replica is. Raises Refused.
        """
        if self.here is not None:
            check_reader(consumer, self._link.title)
            if self._link.session is None and self.here.add(consumer):
                done(None)
                return
        remote = self._take(consumer)
        self._consuming[remote.key] = done
        if self._link.session is not None:
            self._call_for(self._link.session, remote)
        else:
            self._link.use()

    def adopt(self, queue: Queue, consumers: Iterable[Consumer]) -> None:
        """Have the next leader add consumers of a queue that this broker has led until now."""
        for consumer in consumers:
            consumer.queue = queue
            if self.here is not None and self.here.add(consumer):
                continue
            key = self._take(consumer).key
            if self.here is None:
                self._settlements.adopt(key, consumer.channel.positions_of(consumer))

    def _take(self, consumer: Consumer) -> RemoteConsumer:
        """Have a consumer added by the leader with the next `_call_for`."""
        key = self._settlements.open()
        remote = self._by_key[key] = RemoteConsumer(consumer, key)
        self._keys[consumer] = key
        return remote

    def cancel(self, consumer: Consumer) -> None:
        """Have the leader remove a consumer, if registered."""
        if self.here is not None and consumer in self.here:
            self.here.remove(consumer)
            return
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
        if self.here is not None and consumer in self.here:
            self.here.enter(consumer)
            return
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
        """Have the leader add a consumer, with the credit that its channel has room for.

        With none, if it is served here once the leader has named its first offset.
        """
        consumer = remote.consumer
        remote.begin()
        if self.here is None or not self.here.is_available:
            remote.grant()
        session.call(
            Consume(
                self._link.queue, remote.key, consumer.tag, consumer.no_ack, consumer.exclusive,
                consumer.prefetch, consumer.wishes._replace(priority=consumer.priority),
                remote.granted, consumer.active,
            )
        )  # fmt: skip
        self._watch(remote)

    def _end(self, key: int) -> RemoteConsumer:
        """Release a consumer that is delivered nothing more."""
        remote = self._by_key[key]
        remote.consumer.gone = True
        self._release(remote)
        return remote

    def _release(self, remote: RemoteConsumer) -> None:
        """Expect no delivery of the leader to a consumer any more."""
        del self._by_key[remote.key]
        del self._keys[remote.consumer]
        remote.consumer.channel.forget(remote.consumer)
        self._free(remote, remote.received)
        self._settlements.close(remote.key)

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
        self.dismiss()

    # Streams: consumers that are served here

    def dismiss(self) -> None:
        """Cancel the consumers that are served here."""
        for consumer in () if self.here is None else self.here.remove_all():
            consumer.channel.cancelled(consumer)

    def serve_here(self) -> None:
        """Serve consumers of a stream from the replica of this broker, if it has one.

        In a session those whose first offset the leader has named; without one all.
        """
        session = self._link.session
        if self.here is None or not self._by_key or not self.here.is_available:
            return
        for remote in [*self._by_key.values()]:
            if session is None:
                self._move_here(remote)
            elif remote.has_begun and remote.key not in self._consuming:
                session.call(Cancel(self._link.queue, remote.key, remote.received))
                self._move_here(remote)

    def _move_here(self, remote: RemoteConsumer) -> None:
        self._release(remote)
        done = self._consuming.pop(remote.key, None)
        if self.here is not None and self.here.add(remote.consumer) and done is not None:
            done(None)

    def _take_back(self, consumers: Iterable[Consumer]) -> None:
        """Have the leader serve consumers of a replica that cannot be read any more."""
        for consumer in consumers:
            remote = self._take(consumer)
            if self._link.session is not None:
                self._call_for(self._link.session, remote)

    def begun(self, key: int, offset: int) -> None:
        """Note where a consumer begins with each leader, and serve it here if a replica is."""
        remote = self._by_key.get(key)
        if remote is not None:
            remote.has_begun = True
            remote.consumer.read_on_from(offset)
            self.serve_here()
            self._grant_unserved(key)

    def _grant_unserved(self, key: int) -> None:
        """Grant credit to a consumer of a stream that the leader is to serve after all."""
        remote = self._by_key.get(key)
        if remote is not None and remote.has_begun and key not in self._consuming:
            self._grant(remote)

    # Events

    def added(self, key: int, refused: Refused | None) -> None:
        """Report that the leader has added a consumer, or refused it."""
        done = self._consuming.pop(key, None)
        if done is not None:
            if refused is not None:
                self._end(key)
            done(refused)
            self.serve_here()
            self._grant_unserved(key)

    def chosen(self, key: int, *, active: bool) -> None:
        """Note whether a consumer is the single active one, for the next leader."""
        if key in self._by_key:
            self._by_key[key].consumer.active = active

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

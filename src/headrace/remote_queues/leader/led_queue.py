"""A queue that this broker leads, with the calls of one home's channels on it."""

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.model.errors import HeadraceError
from headrace.ports.clock import Clock
from headrace.queues.engine.closed_queue import ClosedQueue
from headrace.queues.engine.hosted_queue import HostedQueue
from headrace.queues.engine.queue_host import QueueHost
from headrace.queues.engine.stream_queue import StreamQueue
from headrace.queues.port import ALL_UNSTORED, Consumer, Disposition, Getter, Got
from headrace.queues.refusals import Refused
from headrace.remote_queues.leader.held_positions import HeldPositions
from headrace.remote_queues.leader.leader_answers import got_message, purge_ended
from headrace.remote_queues.leader.leader_publishes import published_to
from headrace.remote_queues.leader.remote_channel import RemoteChannel, Sending
from headrace.remote_queues.messages import (
    Begun,
    Cancel,
    CloseIfEmpty,
    Consume,
    Consuming,
    Copied,
    Counted,
    Credit,
    Get,
    Hold,
    Info,
    Opened,
    Publish,
    Purge,
    Recall,
    Recalled,
    Room,
    Settle,
    Stored,
)

if TYPE_CHECKING:
    from headrace.queues.awaited import Awaited
    from headrace.queues.engine.delivery_turns import AnyQueue


REOPEN_SECONDS = 30.0
"""Seconds after which a queue is reopened whose deletion its home does not await any more."""


class LedQueue:
    """A queue that a home has opened, with its consumers by the home's numbers."""

    def __init__(
        self, session: Sending, number: int, host: QueueHost, queue: "AnyQueue", clock: Clock
    ) -> None:
        """Open a queue of a vhost; `number` is the home's."""
        self.host = host
        self.queue = queue
        self.attached = False
        """Whether the home has named all that it holds of the queue."""
        self._session = session
        self._number = number
        self._clock = clock
        self._channels: dict[int, RemoteChannel] = {}
        self._round = 0
        """How often `Room` was answered: publishes of before are ignored."""
        self._copied: list[int] = []
        """Numbers of settlements that are copied and not reported."""
        self._closed = 0
        """How often the home has closed the queue as an empty one, and not reopened it."""
        if isinstance(queue, HostedQueue) and queue.is_loading:
            queue.when_open(self._open_late)
        else:
            self._open()

    def _open(self) -> None:
        """Have the home publish: the logs recognise the batches that they have."""
        self._session.add(Opened(self._number, getattr(self.queue, "batch_bytes_max", 0)))

    def _open_late(self) -> None:
        self._open()
        self._session.send()

    @property
    def is_present(self) -> bool:
        """Whether the queue is neither deleted nor replaced."""
        return self.host.queues.get(self.queue.name) is self.queue

    @property
    def _is_deleted(self) -> bool:
        """Whether the queue is deleted, and perhaps replaced, rather than closed by an error."""
        return not isinstance(self.host.queues.get(self.queue.name), ClosedQueue)

    def touch(self) -> None:
        """Have the queue deliver in the next turn."""
        self.host.touched((self.queue,))

    def _channel(self, key: int) -> RemoteChannel:
        """Return a consumer's channel, a new one if the key is new."""
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = RemoteChannel(
                self._session, self._number, key, self.touch
            )
        return channel

    # Publishing

    def publish(self, call: Publish) -> None:
        """Publish messages; report which are stored, or how many there is room for."""
        if call.round != self._round:
            return  # sent before the home had the answer `Room`: it sends them again
        if not self.is_present:
            numbers = range(call.first, call.first + len(call.messages))
            # As in RabbitMQ, messages of a deleted queue are confirmed.
            lost = () if self._is_deleted else numbers
            self._session.add(Stored(self._number, call.first, lost))
            return
        awaited: Awaited = {}
        taken = published_to(self.host, self.queue, call, awaited)
        if taken.room is not None:
            self._round += 1
            self._session.add(Room(self._number, call.first, taken.room))
            return
        self.host.when_stored(awaited, partial(self._stored, call, taken.refused))

    def _stored(self, call: Publish, refused: Sequence[int], unstored: Collection[int]) -> None:
        numbers = range(call.first, call.first + len(call.messages))
        lost = numbers if unstored is ALL_UNSTORED else refused
        self._session.add(Stored(self._number, call.first, lost))
        self._session.send()

    # Consumers

    def hold(self, call: Hold) -> HeldPositions | None:
        """Begin to take positions of a former leader; None: a stream holds no deliveries."""
        channel = self._channel(call.consumer)
        if not isinstance(self.queue, HostedQueue):
            return None
        return HeldPositions(self.queue, channel, call.positions)

    def consume(self, call: Consume) -> None:
        """Add a consumer; it may hold positions already."""
        channel = self._channel(call.consumer)
        channel.limit = call.credit
        channel.prefetch = 1 if call.no_ack else 0  # so that it does not deliver beyond its limit
        consumer = channel.consumer = Consumer(
            self.queue,
            channel,
            call.tag,
            no_ack=call.no_ack,
            exclusive=call.exclusive,
            prefetch=call.prefetch if self.queue.is_stream else 0,
            priority=call.wishes.priority,
            wishes=call.wishes,
        )
        consumer.unacked = len(channel.held)
        consumer.active = call.active

        def done(refused: Refused | None) -> None:
            if refused is None and isinstance(self.queue, StreamQueue):
                # Before the client learns that it is subscribed, if the offset is known by now.
                self.queue.readers.when_begun(consumer, partial(self._begun, channel))
            self._session.add(Consuming(self._number, call.consumer, refused))

        try:
            self.host.consume(consumer, done)
        except Refused as refused:
            channel.consumer = None
            done(refused)

    def _begun(self, channel: RemoteChannel, offset: int) -> None:
        self._session.add(Begun(self._number, channel.key, offset))
        self._session.send()

    def cancel(self, call: Cancel) -> None:
        """Remove a consumer, and requeue what the home has not received."""
        channel = self._channels.get(call.consumer)
        if channel is not None:
            self._end(channel, call.received)

    def _end(self, channel: RemoteChannel, received: int) -> None:
        """Cancel a consumer, and requeue its deliveries but for the first `received` ones."""
        consumer = channel.consumer
        if consumer is not None:
            self.queue.cancel(consumer, self._clock.monotonic())
            self._session.forget(channel)
        # Requeue first: cancelling the last consumer deletes an auto-delete queue.
        self._requeue(channel, channel.unreceived(received))
        if consumer is not None:
            self.host.cancel(consumer)

    def _requeue(self, channel: RemoteChannel, positions: list[int]) -> None:
        taken, sizes = channel.take(positions)
        if taken:
            ended = Disposition.REQUEUED if channel.closed else Disposition.UNDELIVERED
            self.queue.settle(ended, taken, sizes)
            self.touch()

    def credit(self, call: Credit) -> None:
        """Raise the number of deliveries that a consumer may have."""
        channel = self._channels.get(call.consumer)
        if channel is not None and channel.raise_credit(call.credit):
            self.touch()

    def recall(self, call: Recall) -> None:
        """Lower the number of deliveries that a consumer may have to those that are made."""
        channel = self._channels.get(call.consumer)
        if channel is not None:
            channel.limit = channel.unacked
            self._session.add(Recalled(self._number, call.consumer, channel.limit))

    # Settlements

    def settle(self, call: Settle) -> None:
        """Settle deliveries; report when the settlement is copied, if the home wants to know."""
        channel = self._channels.get(call.consumer)
        taken: list[int] = []
        if channel is not None:
            taken, sizes = channel.take(call.positions)
            if taken:
                self.queue.settle(call.disposition, taken, sizes)
                woken = channel.wake()
                if woken or call.disposition is not Disposition.ACKNOWLEDGED:
                    self.touch()
        if call.number:
            self._await_copied(call, taken)

    def _await_copied(self, call: Settle, taken: Sequence[int]) -> None:
        """Report a settlement once all replicas have it.

        Positions that are not taken are settled already, or another consumer has them.
        """
        copied = partial(self._note_copied, call.number)
        if not isinstance(self.queue, HostedQueue):
            copied()
            return
        # Others are settled at once; dead letters once their targets have stored them.
        later = taken if call.disposition is Disposition.REJECTED else ()
        self.queue.when_settled(later, copied)

    def _note_copied(self, number: int) -> None:
        if not self._copied:
            self._clock.call_later(0, self._tell_copied)
        self._copied.append(number)

    def _tell_copied(self) -> None:
        """Report all settlements that one frame has, with one event."""
        numbers, self._copied = self._copied, []
        self._session.add(Copied(self._number, numbers))
        self._session.send()

    # Questions

    def get(self, call: Get) -> None:
        """Give the next message to a basic.get."""
        channel = self._channel(call.consumer)
        consumer = Consumer(self.queue, channel, "", no_ack=call.no_ack, counted=False)

        def given(got: Got | HeadraceError | None) -> None:
            if isinstance(got, HeadraceError):
                self._session.add(got_message(call, None, got))
            else:
                if got is not None and not call.no_ack:
                    channel.hold(consumer, got.deliveries.positions, got.deliveries.sizes)
                self._session.add(got_message(call, got, None))
            self._session.send()

        try:
            self.queue.get(Getter(consumer, given), self._clock.monotonic())
        except Refused as refused:
            given(refused)
        self.touch()

    def purge(self, call: Purge) -> None:
        """Settle all ready messages."""

        def purged(found: int | Refused) -> None:
            self._session.add(purge_ended(call, found))

        try:
            self.host.purge(self.queue, purged)
        except Refused as refused:
            purged(refused)

    def close_if_empty(self, call: CloseIfEmpty) -> None:
        """Report the queue's counts; have publishes wait if it is empty, until `reopen`."""
        if isinstance(self.queue, HostedQueue) and self.queue.hold_if_empty():
            self._closed += 1
        self.info(Info(call.queue, call.request))

    def reopen(self) -> None:
        """Store the publishes that have waited: the queue is not deleted."""
        if self._closed and isinstance(self.queue, HostedQueue):
            self._closed -= 1
            self.queue.release_publishes()

    def _reopen_later(self) -> None:
        """Reopen a queue whose home is gone, when its command is not carried out any more."""
        for _ in range(self._closed):
            self._clock.call_later(REOPEN_SECONDS, self.reopen)

    def info(self, call: Info) -> None:
        """Report the queue's counts."""
        self.queue.ask_info(
            lambda info: self._session.add(Counted(self._number, call.request, info))
        )

    # Ends

    def leave(self) -> None:
        """Cancel the consumers, and requeue all deliveries: the home opens the queue again.

        It holds those that it has received, and its consumers are added again.
        """
        for channel in self._channels.values():
            self._end(channel, -1)
            channel.closed = True  # a basic.get that waits gets nothing
        self._reopen_later()

    def end(self) -> None:
        """Cancel the consumers, and requeue all that the home has not settled."""
        for channel in self._channels.values():
            channel.closed = True
            self._end(channel, -1)
        self._reopen_later()

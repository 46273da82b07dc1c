"""`Copying`: a broker copies the settled positions of the queues that it leads, each 100 ms.

A frame that lets its queue deliver further is sent at once. One request is in flight to each
broker, for all queues with replicas there. A broker that does not answer is asked again each
100 ms; it is sent complete frames only once it has answered.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from headrace.broker.replica.joining import never
from headrace.copies.frame_copy import FrameCopy
from headrace.copies.messages import (
    REQUEST_BYTES_MAX,
    CopyAnswer,
    CopyQuestion,
    CopyTransport,
)
from headrace.copies.newest_file import NewestFile
from headrace.copies.queue_copies import QueueCopies
from headrace.model.errors import ApiError, HeadraceError
from headrace.model.nouns import BrokerId
from headrace.ports.callbacks import Done

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.ports.clock import Clock, Timer
    from headrace.queue_stores.log.settled_files import SettledFiles
    from headrace.queue_stores.log.settlement import Settlement

COPY_SECONDS = 0.1
"""Seconds between two requests to a broker."""
PEER_BYTES_MAX = 16 * 1024 * 1024
"""Bytes of frames that wait for one broker; above, its next copies begin with complete frames."""


class FollowedHere(Protocol):
    """The files of this broker that follow other leaders. Implemented by `SettledFollower`."""

    def stop(self, partition: "Partition") -> None:
        """Stop writing frames of another leader: this broker leads the partition."""


class _Peer:
    """Another broker with copies."""

    def __init__(self) -> None:
        self.copies: dict[FrameCopy, QueueCopies] = {}
        """Copies with something to send, in the order in which they are sent."""
        self.asking = False
        self.reachable = True
        """Whether it answered the last request."""


class Copying:
    """The copies of all queues that a broker leads. Implements `copies_port.Copies`."""

    def __init__(
        self,
        own: BrokerId,
        files: "SettledFiles",
        clock: "Clock",
        transport: CopyTransport,
        followed: FollowedHere,
    ) -> None:
        """Create without queues. `own`: this broker's id."""
        self._own = own
        self._files = files
        self._clock = clock
        self._transport = transport
        self._followed = followed
        self._searches: dict[Partition, NewestFile] = {}
        """Searches for the newest files of queues that are being loaded."""
        self._led: dict[Partition, QueueCopies] = {}
        self._busy: dict[QueueCopies, None] = {}
        """Queues with frames that a member or a copy lacks."""
        self._peers: dict[BrokerId, _Peer] = {}
        self._timer: Timer | None = None
        self._waiting: dict[QueueCopies, None] = {}
        """Queues whose deliveries may wait for their last frame."""
        self._soon: Timer | None = None

    def newest(self, partition: "Partition", done: Done[bytes | HeadraceError]) -> None:
        """Call `done` with the content of the newest file of the replicas."""
        self._followed.stop(partition)

        def found(content: bytes | HeadraceError) -> None:
            if self._searches.get(partition) is search:  # else another broker leads by now
                del self._searches[partition]
                done(content)

        search = self._searches[partition] = NewestFile(
            partition, self._own, self._files, self._clock, self._transport, found
        )
        search.begin()

    def lead(self, partition: "Partition", settlement: "Settlement") -> QueueCopies:
        """Begin to copy the frames of a queue that this broker leads."""
        copies = QueueCopies(
            partition, settlement, self._own, self._clock, self._changed, self._copy_soon
        )
        self._led[partition] = copies
        partition.may_join = copies.may_join
        return copies

    def end(self, partition: "Partition") -> None:
        """Stop copying: the queue is deleted, or another broker leads it."""
        self._searches.pop(partition, None)
        copies = self._led.pop(partition, None)
        if copies is None:
            return
        copies.ended = True
        partition.may_join = never
        self._busy.pop(copies, None)
        self._waiting.pop(copies, None)
        for peer in self._peers.values():
            for copy in [each for each, queue in peer.copies.items() if queue is copies]:
                del peer.copies[copy]

    def close(self) -> None:
        """Send nothing more."""
        for partition in list(self._led):
            self.end(partition)
        for timer in (self._timer, self._soon):
            if timer is not None:
                timer.cancel()

    def _changed(self, queue: QueueCopies) -> None:
        self._busy[queue] = None
        if self._timer is None:
            self._timer = self._clock.call_later(COPY_SECONDS, self._is_time)

    def _copy_soon(self, queue: QueueCopies) -> None:
        """Send a queue's last frame at the end of this turn, to the brokers that answer."""
        self._waiting[queue] = None
        if self._soon is None:
            self._soon = self._clock.call_later(0, self._copy_waiting)

    def _copy_waiting(self) -> None:
        self._soon = None
        waiting, self._waiting = self._waiting, {}
        for queue in waiting:
            self._line_up(queue)
        self._ask_all(also_silent=False)

    def _is_time(self) -> None:
        self._timer = None
        for queue in list(self._busy):
            queue.confirm()
            if not self._line_up(queue) and not queue.has_unconfirmed:
                del self._busy[queue]
        self._ask_all(also_silent=True)
        if self._busy and self._timer is None:
            self._timer = self._clock.call_later(COPY_SECONDS, self._is_time)

    def _ask_all(self, *, also_silent: bool) -> None:
        for broker, peer in self._peers.items():
            if peer.copies and not peer.asking and (also_silent or peer.reachable):
                self._ask(broker, peer)

    def _line_up(self, queue: QueueCopies) -> bool:
        """Have a queue's copies sent what they lack; return whether one lacks something."""
        lacks = False
        for broker, copy in queue.by_broker.items():
            if not copy.has_unsent and not copy.needs_whole:
                continue
            lacks = True
            peer = self._peers.setdefault(broker, _Peer())
            if copy.needs_whole and peer.reachable:
                queue.want_whole()
            peer.copies[copy] = queue
        return lacks

    def _ask(self, broker: BrokerId, peer: _Peer) -> None:
        """Send a broker the next frames."""
        asked: list[FrameCopy] = []
        questions: list[CopyQuestion] = []
        left = REQUEST_BYTES_MAX
        for copy in list(peer.copies):
            if left <= 0:
                break
            if copy.needs_whole and peer.reachable:
                del peer.copies[copy]  # until its complete frame is written
                continue
            question = copy.question(left)
            left -= len(question.content)
            asked.append(copy)
            questions.append(question)
        if questions:
            peer.asking = True
            self._transport.ask(broker, questions, partial(self._answered, broker, peer, asked))

    def _answered(
        self,
        broker: BrokerId,
        peer: _Peer,
        asked: Sequence[FrameCopy],
        answers: Sequence[CopyAnswer] | ApiError,
    ) -> None:
        peer.asking = False
        peer.reachable = not isinstance(answers, ApiError)
        if isinstance(answers, ApiError):
            self._bound(peer)
            return
        queues: dict[QueueCopies, None] = {}
        for copy, answer in zip(asked, answers, strict=True):
            queue = peer.copies.pop(copy, None)
            if queue is None:
                continue
            queues[queue] = None
            if copy.answered(answer) and copy.has_unsent:
                peer.copies[copy] = queue
        for queue in queues:
            queue.confirm()
        if peer.copies:
            self._ask(broker, peer)

    def _bound(self, peer: _Peer) -> None:
        """Bound the frames in memory that wait for a broker which does not answer."""
        if sum(copy.unsent_bytes for copy in peer.copies) > PEER_BYTES_MAX:
            for copy in peer.copies:
                copy.lose_base()

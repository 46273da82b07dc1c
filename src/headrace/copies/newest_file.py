"""`NewestFile`: a new leader finds the newest file of settled positions among all replicas.

Frames of one epoch are one sequence, so the file with the greatest last frame has all others. A
replica that has answered accepts no frame of a former leader any more.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.copies.messages import CopyAnswer, CopyQuestion, CopyTransport
from headrace.delivery.settled_state import NO_FRAME, FrameName, find_frames
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.model.nouns import BrokerId, LeaderEpoch
from headrace.ports.callbacks import Done, Once
from headrace.queue_stores.log.settled_files import SettledFiles, read_settled, settled_path

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.ports.clock import Clock

ASK_SECONDS = 0.2
"""Seconds for which the other replicas are asked for their last frames."""
ASK_AGAIN_SECONDS = 0.05
"""Seconds after which a replica that has refused is asked again."""
READ_SECONDS = 1.0
"""Seconds in which a newer file must arrive; else the own one is used."""

_FIRST_EPOCH = LeaderEpoch(0)
_Heard = Sequence[CopyAnswer] | ApiError


class NewestFile:
    """A search for the newest file."""

    def __init__(
        self,
        partition: "Partition",
        own: BrokerId,
        files: SettledFiles,
        clock: "Clock",
        transport: CopyTransport,
        done: Done[bytes | HeadraceError],
    ) -> None:
        """Create the search; `begin` starts it. `done` gets the file's content, or the error."""
        self._partition = partition
        self._files = files
        self._clock = clock
        self._transport = transport
        self._done = Once(done)
        term = partition.role.term
        is_first = partition.leader_epoch == _FIRST_EPOCH
        self._missing = set() if term is None or is_first else set(term.assigned - {own})
        """Replicas that have not answered; none if no other broker has led the partition."""
        self._own: bytes | None = None
        self._found: dict[BrokerId, FrameName] = {}
        self._is_late = False
        self._reading = False
        self._content = bytearray()

    def begin(self) -> None:
        """Read the own file, and ask the other replicas for their last frames."""
        path = settled_path(self._partition.log.directory)
        disk = self._files.disk
        self._files.when_idle(path, lambda: read_settled(disk, path, self._have_own))
        for broker in sorted(self._missing):
            self._ask(broker)
        if self._missing:
            self._clock.call_later(ASK_SECONDS, self._late)

    def _question(self, read_from: int = -1) -> CopyQuestion:
        partition = self._partition
        return CopyQuestion(
            partition.topic_partition,
            partition.topic_id,
            partition.leader_epoch,
            read_from=read_from,
        )

    def _ask(self, broker: BrokerId) -> None:
        if not self._is_late and not self._reading:
            self._transport.ask(broker, [self._question()], partial(self._heard, broker))

    def _heard(self, broker: BrokerId, answers: _Heard) -> None:
        if isinstance(answers, ApiError) or answers[0].error is not ErrorCode.NONE:
            self._clock.call_later(ASK_AGAIN_SECONDS, partial(self._ask, broker))
            return
        self._missing.discard(broker)
        self._found[broker] = answers[0].last
        self._decide()

    def _have_own(self, content: bytes | HeadraceError) -> None:
        if isinstance(content, HeadraceError):
            self._done(content)
            return
        self._own = content
        self._decide()

    def _late(self) -> None:
        self._is_late = True
        self._decide()

    def _decide(self) -> None:
        """Read the newest file once all replicas have answered, or the time is over."""
        if self._own is None or self._reading or (self._missing and not self._is_late):
            return
        self._reading = True
        own = NO_FRAME
        for frame in find_frames(self._own):
            own = frame.name
        newest = max(self._found, key=lambda broker: self._found[broker], default=None)
        if newest is None or self._found[newest] <= own:
            self._done(self._own)
            return
        self._clock.call_later(READ_SECONDS, partial(self._done, self._own))
        self._read(newest)

    def _read(self, broker: BrokerId) -> None:
        question = self._question(len(self._content))
        self._transport.ask(broker, [question], partial(self._have_part, broker))

    def _have_part(self, broker: BrokerId, answers: _Heard) -> None:
        own = self._own or b""
        if isinstance(answers, ApiError) or answers[0].error is not ErrorCode.NONE:
            self._done(own)
            return
        answer = answers[0]
        self._content += answer.content
        if answer.content and len(self._content) < answer.file_bytes:
            self._read(broker)
            return
        content = bytes(self._content)
        ends = list(find_frames(content))
        sound = bool(ends) and ends[-1].name == self._found[broker]
        self._done(content if sound else own)

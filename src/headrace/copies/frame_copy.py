"""`FrameCopy`: a copy of a led queue's settled positions on one broker, and what it lacks.

             a complete frame is written             the follower confirms it
lacks base ───────────────────────────► sending whole ──────────────► follows
    ▲                                        │  each later frame is sent    │
    └── too much is unsent, or the follower has another last frame ─────────┘
"""

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from headrace.copies.messages import CopyAnswer, CopyQuestion
from headrace.delivery.settled_state import NO_FRAME, FrameName
from headrace.model.errors import ErrorCode

if TYPE_CHECKING:
    from headrace.broker.partition import Partition

UNSENT_BYTES_MAX = 1024 * 1024
"""Bytes of unsent frames above which a complete frame is sent instead."""


class _Frame(NamedTuple):
    name: FrameName
    content: bytes


class FrameCopy:
    """A copy of one queue's frames on one broker."""

    __slots__ = (
        "_asked", "_asked_all", "_bytes", "_part_end", "_partition", "_unsent", "_whole",
        "confirmed", "is_caught_up", "needs_whole",
    )  # fmt: skip

    def __init__(self, partition: "Partition") -> None:
        self.confirmed = NO_FRAME
        """The last frame that is durable there; NO_FRAME: it has no complete one of this leader."""
        self.needs_whole = True
        """Whether the next frame to send must be a complete one, which is not written yet."""
        self.is_caught_up = False
        """Whether it has confirmed all frames that were there when the last request was sent."""
        self._partition = partition
        self._whole: _Frame | None = None
        """The complete frame that is being sent."""
        self._part_end = 0
        """Bytes of it that the follower has."""
        self._unsent: deque[_Frame] = deque()
        """Frames after that, or after `confirmed`, in order; not confirmed."""
        self._bytes = 0
        self._asked: _Frame | None = None
        """The complete frame, or the last of the frames, that is in flight."""
        self._asked_all = False
        """Whether all frames of that time are in flight."""

    @property
    def has_unsent(self) -> bool:
        """Whether frames wait to be sent."""
        return self._whole is not None or bool(self._unsent)

    @property
    def unsent_bytes(self) -> int:
        """Bytes of memory that unsent frames hold, but for a complete one."""
        return self._bytes

    def add(self, name: FrameName, content: bytes, *, whole: bool) -> None:
        """Note a frame that is durable at the leader."""
        frame = _Frame(name, content)
        if whole:
            self._drop_unsent()
            self._whole, self._part_end, self.needs_whole = frame, 0, False
        elif not self.needs_whole:
            self._unsent.append(frame)
            self._bytes += len(content)
            if self._bytes > UNSENT_BYTES_MAX:
                self.lose_base()

    def lose_base(self) -> None:
        """Drop the unsent frames: the next one that is sent must be a complete one."""
        self._drop_unsent()
        self._whole = None
        self.needs_whole = True

    def _drop_unsent(self) -> None:
        self._unsent.clear()
        self._bytes = 0

    def question(self, bytes_max: int) -> CopyQuestion:
        """Return the next frames to send, or a part of a complete frame: `bytes_max` at most.

        Without unsent frames it only asks for the last frame. A single frame may be larger.
        """
        log, epoch = self._partition.log, self._partition.leader_epoch
        about = CopyQuestion(log.topic_partition, log.topic_id, epoch)
        whole = self._whole
        if whole is not None:
            self._asked = whole
            self._asked_all = not self._unsent and self._part_end + bytes_max >= len(whole.content)
            part = whole.content[self._part_end : self._part_end + bytes_max]
            return about._replace(
                content=part,
                last=whole.name,
                whole_bytes=len(whole.content),
                position=self._part_end,
            )
        self._asked = None
        if not self._unsent:
            return about
        asked: list[_Frame] = []
        left = bytes_max
        for frame in self._unsent:
            left -= len(frame.content)
            if asked and left < 0:
                break
            asked.append(frame)
        last = self._asked = asked[-1]
        self._asked_all = last is self._unsent[-1]
        content = b"".join(frame.content for frame in asked)
        return about._replace(content=content, follows=self.confirmed, last=last.name)

    def answered(self, answer: CopyAnswer) -> bool:
        """Note the answer to the last question; return whether the copy is nearer to the end."""
        asked, self._asked = self._asked, None
        if answer.error is not ErrorCode.NONE or asked is None:
            return False
        self.is_caught_up = self._asked_all and answer.last >= asked.name
        if answer.last >= asked.name:
            self.confirmed = max(self.confirmed, answer.last)
            if asked is self._whole:
                self._whole = None
            while self._unsent and self._unsent[0].name <= answer.last:
                self._bytes -= len(self._unsent.popleft().content)
            return True
        if asked is self._whole:
            before, self._part_end = self._part_end, min(answer.part_end, len(asked.content))
            return self._part_end > before
        self.confirmed = NO_FRAME  # the follower has lost frames that it had confirmed
        if self._whole is None:
            self.lose_base()
        return False

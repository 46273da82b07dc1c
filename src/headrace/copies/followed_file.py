"""`FollowedFile`: the file of settled positions of a queue that another broker leads.

It has the leader's frames, byte by byte. The names of its frames increase: a request that arrives
late, or twice, changes nothing.
"""

from functools import partial
from typing import TYPE_CHECKING

from headrace.copies.followed_needs import FollowedNeeds
from headrace.copies.messages import REQUEST_BYTES_MAX, CopyAnswer, CopyQuestion
from headrace.delivery.settled_state import NO_FRAME, FrameName, find_frames
from headrace.log.text_files import read_file
from headrace.model.errors import ErrorCode, HeadraceError
from headrace.ports.callbacks import Done
from headrace.queue_stores.log.settled_files import SettledFiles, read_settled, settled_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.broker.partition import Partition

_FAILED = CopyAnswer(ErrorCode.KAFKA_STORAGE_ERROR)
_ENDED = CopyAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class _Frame:
    """Frames of a leader that are being written. Implements `settled_files.SettledFrame`."""

    def __init__(self, file: "FollowedFile", content: bytes, at: int | None) -> None:
        self.path = file.path
        self.content = content
        self.at = at
        self.last = file.accepted
        self.whole = file.pending_whole
        self._file = file

    def written(self, error: OSError | None) -> None:
        """Report the write, or its error, to the file."""
        self._file.frames_written(self, error)


class FollowedFile:
    """A file of copied frames. Implements `settled_files.Changing`."""

    def __init__(self, partition: "Partition", files: SettledFiles) -> None:
        """Create before the file is read; questions wait until it is."""
        self.partition = partition
        self.path = settled_path(partition.log.directory)
        self.accepted = NO_FRAME
        """The last frame, durable or not."""
        self._durable = NO_FRAME
        self._files = files
        self._ready = False
        self._ended = False
        self._end = 0
        """Bytes of the file, with the frames that are being written."""
        self._replaces = True
        """Whether `_kept` and the next frames replace the file."""
        self._kept = b""
        self._pending: list[bytes] = []
        """Accepted frames that are not being written."""
        self.pending_whole: tuple[FrameName, bytes] | None = None
        """The complete frame with which `_pending` begins."""
        self._needs = FollowedNeeds(partition, files.disk)
        self._writing = False
        self._part_of = NO_FRAME
        """The complete frame of which `_parts` is the beginning."""
        self._parts = bytearray()
        self._waiting: list[Callable[[], None]] = []
        """Calls for the time when the file is read and all accepted frames are durable."""
        files.when_idle(self.path, lambda: read_settled(files.disk, self.path, self._have_read))

    def stop(self) -> None:
        """Stop writing frames: this broker leads the partition, or has deleted it."""
        self._ended = True
        self._pending.clear()
        self._needs.end()
        self._answer()

    def ask(self, question: CopyQuestion, done: Done[CopyAnswer]) -> None:
        """Take a question's frames; answer once they are durable."""
        if not self._ready:
            self._waiting.append(partial(self.ask, question, done))
            return
        if self._ended:
            done(_ENDED)
            return
        if question.content:
            self._accept(question)
        self._waiting.append(partial(self._tell, question, done))
        if not self._writing and not self._pending:
            self._answer()

    def _have_read(self, content: bytes | HeadraceError) -> None:
        self._ready = True
        if isinstance(content, HeadraceError):
            self._ended = True
        else:
            end = 0
            for frame in find_frames(content):
                self.accepted, end = frame.name, frame.end
            self._durable = self.accepted
            self._end, self._kept = end, content[:end]
            self._replaces = end != len(content)
            if not self._replaces:
                self._kept = b""
        self._answer()

    def _accept(self, question: CopyQuestion) -> None:
        """Take those frames of a question that come next in the file."""
        if question.last <= self.accepted:
            return
        content = question.content
        if question.whole_bytes:
            whole = self._join(question)
            if whole is not None:
                self._replaces, self._kept = True, b""
                self._pending = [whole]
                self.pending_whole = question.last, whole
                self._note_accepted(question.last)
            return
        frames = list(find_frames(content))
        if not frames or frames[-1].end != len(content) or frames[-1].name != question.last:
            return
        if question.follows != self.accepted:
            known = (frame.end for frame in frames if frame.name == self.accepted)
            at = next(known, None)
            if at is None:
                return
            content = content[at:]
        self._pending.append(content)
        self._note_accepted(question.last)

    def _join(self, question: CopyQuestion) -> bytes | None:
        """Add a part of a complete frame; return the frame once it is complete and sound."""
        if question.position == 0 or self._part_of != question.last:
            self._part_of = question.last
            self._parts.clear()
        if question.position != len(self._parts):
            return None
        self._parts += question.content
        if len(self._parts) < question.whole_bytes:
            return None
        whole = bytes(self._parts)
        self._parts = bytearray()
        frames = list(find_frames(whole))
        sound = len(frames) == 1 and frames[0].whole and frames[0].name == question.last
        return whole if sound else None

    def _note_accepted(self, last: FrameName) -> None:
        self.accepted = last
        self._files.note_changed(self, soon=True)

    def take_frame(self) -> _Frame | None:
        """Return the accepted frames as one, or None."""
        if self.partition.log.closed:
            self.stop()
        if self._writing or not self._pending:
            return None
        self._writing = True
        content = b"".join((self._kept, *self._pending) if self._replaces else self._pending)
        frame = _Frame(self, content, None if self._replaces else self._end)
        self._end = len(content) + (frame.at or 0)
        self._pending, self._kept, self._replaces = [], b"", False
        self.pending_whole = None
        return frame

    def frames_written(self, frame: _Frame, error: OSError | None) -> None:
        """Note that frames are durable; an error fences the log directory."""
        self._writing = False
        if error is None:
            self._durable = frame.last
            if frame.whole is not None and not self._ended:
                self._needs.have_frame(*frame.whole)
        else:
            if not self.partition.log.closed:
                self.partition.log.context.fail(error, self.path)
            self.stop()
        if self._pending:
            self._files.note_changed(self, soon=True)
        else:
            self._answer()

    def _answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()

    def _tell(self, question: CopyQuestion, done: Done[CopyAnswer]) -> None:
        """Answer a question whose frames are durable, or refused."""
        if self._ended:
            failed = self.partition.log.context.failure is not None
            done(_FAILED if failed else _ENDED)
            return
        parts = len(self._parts) if self._part_of == question.last else 0
        answer = CopyAnswer(last=self._durable, part_end=parts)
        if question.read_from < 0:
            done(answer)
            return
        disk, path, first = self._files.disk, self.path, question.read_from

        def have_read(content: bytes | BaseException | None) -> None:
            if isinstance(content, BaseException):
                done(_FAILED)
                return
            found = content or b""
            part = found[first : first + REQUEST_BYTES_MAX]
            done(answer._replace(file_bytes=len(found), content=part))

        disk.run(lambda: read_file(disk, path), have_read)

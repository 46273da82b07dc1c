"""The files that say what of queues is settled: written together, some milliseconds later.

One timer and one flush serve all queues of a broker that have changed. A queue has one file beside
its partition's log; no file stays open. A file that grows long, is torn or new is replaced by one
whole frame, for which no other queue waits.

What changes is written after the time, or as soon as the flush under way then has ended. So it is
in its file, where a kill leaves it, after the longer of the two, and durable one flush later.
"""

from typing import Protocol

from headrace.ports.clock import Clock, Timer
from headrace.ports.disk import Disk, DiskFile

SETTLED_WRITE_SECONDS = 0.05
"""How long what is settled waits to be written; it is durable in twice that, by a quick flush."""
FILE_BYTES_MAX = 1024 * 1024
"""A file of more bytes, and more than twice those of its whole state, is written anew."""
FILE_NAME = "headrace-settled"


class SettledFrame(Protocol):
    """What a queue wants written."""

    @property
    def path(self) -> str: ...

    @property
    def content(self) -> bytes: ...

    @property
    def at(self) -> int | None:
        """Where in the file; None: it replaces the file."""

    def written(self, error: OSError | None) -> None:
        """Note that it is durable, or why it is not."""


class Changing(Protocol):
    """A queue that changes."""

    def take_frame(self) -> SettledFrame | None:
        """Return what has changed; None: nothing that must be kept. One at a time is written."""


class SettledFiles:
    """Writes what has changed of all queues of a broker."""

    def __init__(
        self, disk: Disk, clock: Clock, *, write_seconds: float = SETTLED_WRITE_SECONDS
    ) -> None:
        self.disk = disk
        self._clock = clock
        self._write_seconds = write_seconds
        self._changed: dict[Changing, None] = {}
        self._timer: Timer | None = None
        self._soon = False
        self._due = False
        """What has changed is to be written when the flush under way has ended."""
        self._flushing = False
        self._replacing: set[Changing] = set()
        """Queues whose files are being replaced."""

    def note_changed(self, queue: Changing, *, soon: bool = False) -> None:
        """Have a queue asked for its frame within the time, or when this turn is over."""
        self._changed[queue] = None
        if self._due:
            return
        if self._timer is None or (soon and not self._soon):
            if self._timer is not None:
                self._timer.cancel()
            self._soon = soon
            self._timer = self._clock.call_later(0 if soon else self._write_seconds, self._is_time)

    def _is_time(self) -> None:
        self._timer = None
        self._soon = False
        if self._flushing:
            self._due = True
        else:
            self._write()

    def _write(self) -> None:
        appended = []
        for queue in [queue for queue in self._changed if queue not in self._replacing]:
            del self._changed[queue]
            frame = queue.take_frame()
            if frame is None:
                continue
            if frame.at is None:
                self._replace(queue, frame)
            else:
                appended.append(frame)
        if appended:
            self._flushing = True
            self._append(appended)

    def _replace(self, queue: Changing, frame: SettledFrame) -> None:
        path, content = frame.path, frame.content
        self._replacing.add(queue)

        def replaced(result: BaseException | None) -> None:
            if result is not None and not isinstance(result, OSError):
                raise result
            self._replacing.discard(queue)
            frame.written(result)
            if queue in self._changed:
                self.note_changed(queue, soon=True)

        self.disk.run(lambda: self.disk.replace(path, content), replaced)

    def _append(self, frames: list[SettledFrame]) -> None:
        files: list[DiskFile] = []
        flushed: list[SettledFrame] = []
        for frame in frames:
            try:
                file = self.disk.open(frame.path)
                files.append(file)
                file.write_at(frame.at or 0, (frame.content,))
                flushed.append(frame)
            except OSError as error:
                frame.written(error)

        def synced(error: OSError | None) -> None:
            for file in files:
                file.close()
            for frame in flushed:
                frame.written(error)
            self._flushing = False
            if self._due:
                self._due = False
                self._write()

        self.disk.flush(files, synced)

"""The files that say what of queues is settled: written together, some milliseconds later.

One timer and one flush serve all queues of a broker that have changed. A queue has one file beside
its partition's log; no file stays open. A file that grows long, is torn or new is replaced by one
whole frame.
"""

from collections.abc import Callable
from typing import Protocol

from headrace.ports.callbacks import when_all
from headrace.ports.clock import Clock, Timer
from headrace.ports.disk import Disk, DiskFile

SETTLED_WRITE_SECONDS = 0.05
"""How long what is settled waits to be written; with the flush that is less than 100 ms."""
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
        self._writing = False

    def note_changed(self, queue: Changing, *, soon: bool = False) -> None:
        """Have a queue asked for its frame within the time, or when this turn is over."""
        self._changed[queue] = None
        if self._timer is None or (soon and not self._soon):
            if self._timer is not None:
                self._timer.cancel()
            self._soon = soon
            self._timer = self._clock.call_later(0 if soon else self._write_seconds, self._is_time)

    def _is_time(self) -> None:
        self._timer = None
        self._soon = False
        if not self._writing:
            self._write()

    def _write(self) -> None:
        changed, self._changed = self._changed, {}
        frames = [frame for queue in changed if (frame := queue.take_frame()) is not None]
        if not frames:
            return
        self._writing = True
        replaced = [frame for frame in frames if frame.at is None]
        appended = [frame for frame in frames if frame.at is not None]
        one_done = when_all(len(replaced) + bool(appended), self._written)
        for frame in replaced:
            self._replace(frame, one_done)
        if appended:
            self._append(appended, one_done)

    def _replace(self, frame: SettledFrame, done: Callable[[], None]) -> None:
        path, content = frame.path, frame.content

        def replaced(result: BaseException | None) -> None:
            if result is not None and not isinstance(result, OSError):
                raise result
            frame.written(result)
            done()

        self.disk.run(lambda: self.disk.replace(path, content), replaced)

    def _append(self, frames: list[SettledFrame], done: Callable[[], None]) -> None:
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
            done()

        self.disk.flush(files, synced)

    def _written(self) -> None:
        self._writing = False
        if self._changed and self._timer is None:
            self._write()

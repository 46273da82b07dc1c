"""The files that say what of queues is settled: written together, some milliseconds later.

One timer serves all queues of a broker that have changed, one flush some hundreds of them. A queue
has one file beside its partition's log; no file stays open. A file that grows long or is torn is
replaced by one whole frame; a new one begins with it, for half of it says no more than no file.
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
FILES_MAX = 250
"""So many files are open at a time, and flushed together."""
FILE_NAME = "headrace-settled"


def settled_path(directory: str) -> str:
    """Return the path of the file of the queue whose partition's directory this is."""
    return f"{directory}/{FILE_NAME}"


class SettledFrame(Protocol):
    """What a queue wants written."""

    @property
    def path(self) -> str: ...

    @property
    def content(self) -> bytes:
        """What is written. Where it replaces the file it may be long: a thread asks for it."""

    @property
    def at(self) -> int | None:
        """Where in the file, which is made for 0; None: it replaces the file."""

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
        some = [appended[at : at + FILES_MAX] for at in range(0, len(appended), FILES_MAX)]
        one_done = when_all(len(replaced) + bool(appended), self._written)
        for frame in replaced:
            self._replace(frame, one_done)
        if some:
            self._append(some, one_done)

    def _replace(self, frame: SettledFrame, done: Callable[[], None]) -> None:
        def replaced(result: BaseException | None) -> None:
            frame.written(_only_os_error(result))
            done()

        self.disk.run(lambda: self.disk.replace(frame.path, frame.content), replaced)

    def _append(self, waiting: list[list[SettledFrame]], done: Callable[[], None]) -> None:
        """Append frames, the last of the lists first: no more files are open than of one list."""
        files: list[DiskFile] = []
        flushed: list[SettledFrame] = []
        for frame in waiting.pop():
            try:
                file = self.disk.open(frame.path, create=frame.at == 0)
                files.append(file)
                file.write_at(frame.at or 0, (frame.content,))
                flushed.append(frame)
            except OSError as error:
                frame.written(error)

        def synced(error: OSError | None) -> None:
            for file in files:
                file.close()
            made = [frame.path.rpartition("/")[0] for frame in flushed if frame.at == 0]
            if made and error is None:
                self.disk.run(lambda: self.disk.sync_directories(made), entered)
            else:
                written(error)

        def entered(result: BaseException | None) -> None:
            written(_only_os_error(result))

        def written(error: OSError | None) -> None:
            for frame in flushed:
                frame.written(error)
            if waiting:
                self._append(waiting, done)
            else:
                done()

        self.disk.flush(files, synced)

    def _written(self) -> None:
        self._writing = False
        if self._changed and self._timer is None:
            self._write()


def _only_os_error(result: BaseException | None) -> OSError | None:
    """Return what the disk answered; raises what is a fault."""
    if result is None or isinstance(result, OSError):
        return result
    raise result

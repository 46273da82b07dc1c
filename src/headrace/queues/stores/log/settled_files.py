"""The files that say what of queues is settled: written together, some milliseconds later.

One timer serves all queues of a broker that have changed, one flush some hundreds of them. A queue
has one file beside its partition's log; no file stays open. A file that grows long or is torn is
replaced by one whole frame; a new one begins with it, for half of it says no more than no file. No
other queue waits for a file that is replaced, or for the name of a new one.

What changes is written after the time, or as soon as the flush under way then has ended. So it is
in its file, where a kill leaves it, after the longer of the two, and durable one flush later.
"""

from functools import partial
from typing import Protocol

from headrace.ports.clock import Clock, Timer
from headrace.ports.disk import Disk, DiskFile

SETTLED_WRITE_SECONDS = 0.05
"""How long what is settled waits to be written; it is durable in twice that, by a quick flush."""
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
        self._making: set[Changing] = set()
        """Queues whose files are being replaced, or get their names for good."""

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
        appended: list[_Changed] = []
        for queue in [queue for queue in self._changed if queue not in self._making]:
            del self._changed[queue]
            frame = queue.take_frame()
            if frame is None:
                continue
            if frame.at is None:
                self._replace(queue, frame)
            else:
                appended.append((queue, frame))
        if appended:
            self._flushing = True
            self._append(
                [appended[at : at + FILES_MAX] for at in range(0, len(appended), FILES_MAX)]
            )

    def _replace(self, queue: Changing, frame: SettledFrame) -> None:
        path, content = frame.path, frame.content
        self._making.add(queue)
        self.disk.run(
            lambda: self.disk.replace(path, content), partial(self._made, [(queue, frame)])
        )

    def _append(self, waiting: "list[list[_Changed]]") -> None:
        """Append frames, the last of the lists first: no more files are open than of one list."""
        files: list[DiskFile] = []
        flushed: list[_Changed] = []
        for queue, frame in waiting.pop():
            try:
                file = self.disk.open(frame.path, create=frame.at == 0)
                files.append(file)
                file.write_at(frame.at or 0, (frame.content,))
                flushed.append((queue, frame))
            except OSError as error:
                frame.written(error)

        def synced(error: OSError | None) -> None:
            for file in files:
                file.close()
            new = [] if error else [(queue, frame) for queue, frame in flushed if frame.at == 0]
            for _, frame in flushed:
                if error is not None or frame.at != 0:
                    frame.written(error)
            if new:
                self._enter(new)
            if waiting:
                self._append(waiting)
            else:
                self._flushed()

        self.disk.flush(files, synced)

    def _enter(self, new: "list[_Changed]") -> None:
        """Have new files keep their names."""
        self._making.update(queue for queue, _ in new)
        directories = [frame.path.rpartition("/")[0] for _, frame in new]
        self.disk.run(lambda: self.disk.sync_directories(directories), partial(self._made, new))

    def _made(self, made: "list[_Changed]", result: BaseException | None) -> None:
        if result is not None and not isinstance(result, OSError):
            raise result
        for queue, frame in made:
            self._making.discard(queue)
            frame.written(result)
            if queue in self._changed:
                self.note_changed(queue, soon=True)

    def _flushed(self) -> None:
        self._flushing = False
        if self._due:
            self._due = False
            self._write()


_Changed = tuple[Changing, SettledFrame]
"""A queue, and what of it is being written."""

"""The files of queues' settled positions, written together after a short delay.

One timer serves all changed queues of a broker, and one flush some hundreds of them. A queue has
one file in its partition's directory; no file stays open. A file that becomes long or is torn is
replaced by one complete frame. A new file begins with one: a torn one is read like a missing one.
Replacing a file, or syncing the name of a new one, delays no other queue.

A change is written after SETTLED_WRITE_SECONDS, or after the flush under way if that takes longer.
From then on it survives the kill of the process; after one more flush it survives a power failure.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from headrace.log import file_names
from headrace.log.text_files import read_file
from headrace.model.errors import HeadraceError
from headrace.ports.callbacks import Done
from headrace.ports.clock import Clock, Timer
from headrace.ports.disk import Disk, DiskFile
from headrace.queue_stores.log.message_reader import as_error

SETTLED_WRITE_SECONDS = 0.05
"""Seconds until a change is written; with a quick flush it is durable in twice that time."""
FILE_BYTES_MAX = 1024 * 1024
"""Bytes above which a file is replaced, if it also has twice the bytes of its full state."""
FILES_MAX = 250
"""Files that are open and flushed together at most."""


def settled_path(directory: str) -> str:
    """Return the path of the file of settled positions in a partition's directory."""
    return f"{directory}/{file_names.SETTLED}"


def read_settled(disk: Disk, path: str, done: Done[bytes | HeadraceError]) -> None:
    """Read a file of settled positions on a thread; a missing one is empty."""

    def have_read(content: bytes | BaseException | None) -> None:
        done(as_error(content) if isinstance(content, BaseException) else content or b"")

    if disk.exists(path):
        disk.run(lambda: read_file(disk, path), have_read)
    else:
        done(b"")


class SettledFrame(Protocol):
    """A frame of settled positions that a queue wants written to its file."""

    @property
    def path(self) -> str: ...

    @property
    def content(self) -> bytes: ...

    @property
    def at(self) -> int | None:
        """The byte position in the file; None: the frame replaces the file."""

    def written(self, error: OSError | None) -> None:
        """Note that the frame is durable, or the error."""


class Changing(Protocol):
    """A queue with settled positions. Implemented by `settlement.Settlement`."""

    def take_frame(self) -> SettledFrame | None:
        """Return a frame of the changes, or None if nothing is to be written.

        The next frame is taken after `written` was called for the last.
        """


class SettledFiles:
    """Writer of the changed settled positions of all queues of a broker."""

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
        """Whether changes are to be written when the flush under way ends."""
        self._flushing = False
        self._making: set[Changing] = set()
        """Queues whose files are being replaced, or whose new names are being synced."""
        self._writing: dict[str, list[Callable[[], None]]] = {}
        """Paths of the files that frames are written to now; callbacks for the end of that."""

    def when_idle(self, path: str, done: Callable[[], None]) -> None:
        """Call `done` when no frame is being written to a file: now, or when that has ended."""
        waiting = self._writing.get(path)
        if waiting is None:
            done()
        else:
            waiting.append(done)

    def note_changed(self, queue: Changing, *, soon: bool = False) -> None:
        """Have a queue's frame written after the delay, or with `soon` in the loop's next turn."""
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
            self._writing[frame.path] = []
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
        """Append frames and flush, list by list from the last: only one list's files are open."""
        files: list[DiskFile] = []
        flushed: list[_Changed] = []
        for queue, frame in waiting.pop():
            try:
                file = self.disk.open(frame.path, create=frame.at == 0)
                files.append(file)
                file.write_at(frame.at or 0, (frame.content,))
                flushed.append((queue, frame))
            except OSError as error:
                self._written(frame, error)

        def synced(error: OSError | None) -> None:
            for file in files:
                file.close()
            new = [] if error else [(queue, frame) for queue, frame in flushed if frame.at == 0]
            for _, frame in flushed:
                if error is not None or frame.at != 0:
                    self._written(frame, error)
            if new:
                self._enter(new)
            if waiting:
                self._append(waiting)
            else:
                self._flushed()

        self.disk.flush(files, synced)

    def _enter(self, new: "list[_Changed]") -> None:
        """Sync the directories of new files."""
        self._making.update(queue for queue, _ in new)
        directories = [frame.path.rpartition("/")[0] for _, frame in new]
        self.disk.run(lambda: self.disk.sync_directories(directories), partial(self._made, new))

    def _made(self, made: "list[_Changed]", result: BaseException | None) -> None:
        if result is not None and not isinstance(result, OSError):
            raise result
        for queue, frame in made:
            self._making.discard(queue)
            self._written(frame, result)
            if queue in self._changed:
                self.note_changed(queue, soon=True)

    def _written(self, frame: SettledFrame, error: OSError | None) -> None:
        waiting = self._writing.pop(frame.path)
        frame.written(error)
        for done in waiting:
            done()

    def _flushed(self) -> None:
        self._flushing = False
        if self._due:
            self._due = False
            self._write()


_Changed = tuple[Changing, SettledFrame]
"""A queue, and the frame of it that is being written."""

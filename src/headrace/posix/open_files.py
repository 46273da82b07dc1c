"""`OpenFiles`: limits the number of open descriptors, however many files are in use.

Above `open_max` descriptors, those of files not used recently are closed; the next use reopens
them. Not closed are files under flush, files that a thread reads or writes, files with delayed
writes, and files with unflushed bytes, as the system reports a write-back error only to descriptors
that were open then. If only such files are left, the oldest are flushed and then closed.
"""

import contextlib
import os
import resource
import sys
from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice
from threading import Event, Lock, get_ident
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.ports.disk import Failures
    from headrace.posix.kernel.page_cache import Residency
    from headrace.posix.threads import Workers

OPEN_MAX = 2000
_LOOKED_AT_MAX = 64
"""Most files examined to find one to close for each opened file."""
_CLOSED_MAX = 256
"""Most files closed for each opened file, of those above the limit: thousands may have been needed
until now, and examining all of them for each opening takes longer than all else."""
_LOOKS_AN_OPENING = 8
"""The same as an average over many openings, if none can be closed."""


def raise_limit() -> int:
    """Raise the process's limit of open files to the system's maximum; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            return hard if hard >= 0 else sys.maxsize
    return soft if soft >= 0 else sys.maxsize


def _open_residency() -> "Residency | None":
    from headrace.posix.kernel.page_cache import Residency  # imports ctypes, 10 ms: not at start

    return Residency.open()


class OpenFile(Protocol):
    """A file whose descriptor may be closed while unused. Implemented by `files.RealFile`."""

    path: str
    pins: int
    unflushed: int
    failure: OSError | None
    writing: Event | None

    @property
    def device(self) -> int:
        """Device number of the file's file system."""

    @property
    def writable(self) -> bool:
        """Whether the file is open for writing."""

    def descriptor(self) -> int:
        """Return the descriptor, reopening the file if necessary. Raises OSError."""

    def give_up(self) -> int:
        """Return the descriptor, for the caller to close; -1 if it is still needed."""

    def write_held(self) -> None:
        """Perform the delayed writes. Raises OSError."""

    @property
    def held_bytes(self) -> int:
        """Size in bytes of the last delayed writes, performed or not."""

    def take_held(self) -> tuple[int, list[bytes]]:
        """Remove the delayed writes; return their file position and copies of their bytes."""


class OpenFiles:
    """The open files of one disk, and those of them with delayed writes."""

    __slots__ = (
        "_lock", "_named", "_passed_over", "_relieving", "_residency", "_residency_asked", "_ring",
        "_workers",
        "active", "devices", "files", "full_at", "lost", "open_max", "owner",
    )  # fmt: skip

    def __init__(self, workers: "Workers | None" = None, open_max: int = OPEN_MAX) -> None:
        self._workers = workers
        self.open_max = open_max
        self.full_at = max(open_max, raise_limit() * 3 // 4)
        """Number of open files near the process's limit, from which on files are flushed to close
        them."""
        self.active = False
        """Whether writes are delayed now."""
        self.owner = get_ident()
        """The deciding thread's id. Other threads only read flushed data, and perform no delayed
        writes."""
        self.files: list[OpenFile] = []
        """Files with delayed writes."""
        self.lost: Failures = []
        """Delayed writes that had to be performed before the end of the pass and failed."""
        self.devices: set[int] = set()
        """Device numbers of the file systems with opened files."""
        self._ring: OrderedDict[OpenFile, None] = OrderedDict()
        # The file examined longest ago comes first.
        self._named: dict[str, OpenFile] = {}
        self._lock = Lock()
        self._relieving = False
        self._passed_over = 0
        """Number of openings that skip the search, as no file could be closed before."""
        self._residency: Residency | None = None
        self._residency_asked = False

    @property
    def residency(self) -> "Residency | None":
        """The query for cached bytes; None if not opened yet or not supported."""
        if not self._residency_asked:
            self._residency_asked = True
            if self._workers is not None:
                self._workers.run(_open_residency, self._residency_opened)
        return self._residency

    def _residency_opened(self, outcome: "Residency | BaseException | None") -> None:
        if not isinstance(outcome, BaseException):
            self._residency = outcome

    def __len__(self) -> int:
        return len(self._ring)

    def opened(self, file: OpenFile) -> None:
        """Register a file that has a descriptor; close another's if there are too many."""
        # Before it is added, so that its own descriptor is not closed.
        if len(self._ring) >= self.open_max and get_ident() == self.owner:
            self._make_room()
        with self._lock:
            self._ring[file] = None
            self.devices.add(file.device)
            # A read-only opening (the scrub's) does not replace the file in use.
            if file.writable or file.path not in self._named:
                self._named[file.path] = file

    def closed(self, file: OpenFile) -> None:
        """Remove a file that its user closed, with or without a descriptor."""
        with self._lock:
            self._ring.pop(file, None)
            if self._named.get(file.path) is file:
                del self._named[file.path]

    def renamed(self, source: str, target: str) -> None:
        """Note that file `source` is now called `target`, for its reopening."""
        with self._lock:
            file = self._named.pop(source, None)
            if file is not None:
                file.path = target
                self._named[target] = file

    def pin(self, file: OpenFile) -> int:
        """Return the file's descriptor, kept open until `unpin`.

        For other threads and flushes.
        """
        with self._lock:
            file.pins += 1
        try:
            return file.descriptor()
        except BaseException:
            self.unpin(file)
            raise

    def unpin(self, file: OpenFile) -> None:
        """Undo one `pin`: the descriptor may be closed once no pin is left."""
        with self._lock:
            file.pins -= 1

    def pin_all(self, files: Sequence[OpenFile]) -> list[int]:
        """Return the files' descriptors, kept open until `unpin_all`.

        If it raises OSError, none is pinned.
        """
        with self._lock:
            for file in files:
                file.pins += 1
        try:
            return [file.descriptor() for file in files]
        except BaseException:
            self.unpin_all(files)
            raise

    def unpin_all(self, files: Sequence[OpenFile]) -> None:
        """Undo one `pin_all`."""
        with self._lock:
            for file in files:
                file.pins -= 1
        self._passed_over = 0

    def _make_room(self) -> None:
        ring = self._ring
        full = len(ring) >= self.full_at
        if self._passed_over and not full:
            self._passed_over -= 1
            return
        spare = min(len(ring) + 1 - self.open_max, _CLOSED_MAX)
        looks = min(2 * len(ring), spare + _LOOKED_AT_MAX)
        needed = 0
        for _ in range(looks):
            if spare <= 0:
                return
            with self._lock:
                file = next(iter(ring))
                fd = file.give_up()
                if fd < 0:
                    needed += file.pins > 0 or file.unflushed > 0
                    ring.move_to_end(file)
                    continue
                # its name stays registered, for its reopening or the next file of that name
                del ring[file]
            spare -= 1
            os.close(fd)
        if spare > 0:
            if needed == looks:
                # Thousands of logs written in one turn would otherwise each examine all files
                # again.
                self._passed_over = looks // _LOOKS_AN_OPENING
            self._relieve(at_once=full)

    def _relieve(self, *, at_once: bool) -> None:
        """Flush files that no flush is waiting for, so that they can be closed.

        `at_once`: on this thread, or a turn that wrote to thousands of files would run out of
        descriptors.
        """
        if (self._relieving and not at_once) or self._workers is None:
            return
        with self._lock:  # other threads register and remove files
            files = list(self._ring)
        unflushed = (file for file in files if file.unflushed and not file.pins)
        found = list(islice(unflushed, _LOOKED_AT_MAX))
        if not found:
            return
        fds = []
        for file in found:
            file.write_held()
            file.unflushed = 0
            fds.append(self.pin(file))

        def work() -> None:
            for file, fd in zip(found, fds, strict=True):
                try:
                    os.fdatasync(fd)
                # reported to the next flush of it: the system reports it once
                except OSError as error:
                    file.failure = error

        def done(_: BaseException | None) -> None:
            self._relieving = False
            for file in found:
                self.unpin(file)

        if at_once:
            work()
            for file in found:
                self.unpin(file)
        else:
            self._relieving = True
            self._workers.run(work, done)

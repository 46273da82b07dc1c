"""Open files, a bounded number of them, however many are in use.

An `OpenFile` stands for a file that somebody uses; its descriptor comes and goes. Once more than
`open_max` are open, those that were not used lately are closed, and opened again by their next use.
Never closed that way: a file under flush, one a thread reads or writes, one that holds writes back,
and one with unflushed bytes, for an error of write-back is told to descriptors that were open then.
Where only such files are left, the oldest are flushed, and then closed.
"""

import contextlib
import os
import resource
import sys
from collections import OrderedDict
from collections.abc import Sequence
from threading import Event, Lock, get_ident
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.ports.disk import Failures
    from headrace.posix.page_cache import Residency
    from headrace.posix.threads import Workers

OPEN_MAX = 2000
_LOOKED_AT_MAX = 64
"""So many files are looked at, at most, to find one to close for one that is opened."""
_LOOKS_AN_OPENING = 8
"""So many where none is to be found, taken over many openings."""


def raise_limit() -> int:
    """Let the process have as many open files as the system allows; returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            return hard if hard >= 0 else sys.maxsize
    return soft if soft >= 0 else sys.maxsize


def _open_residency() -> "Residency | None":
    from headrace.posix.page_cache import Residency  # with ctypes, 10 ms: not at start

    return Residency.open()


class OpenFile(Protocol):
    """A file whose descriptor may be given up while nobody uses it. `files.RealFile`."""

    path: str
    pins: int
    unflushed: int
    failure: OSError | None
    writing: Event | None

    @property
    def device(self) -> int:
        """The file system it lies on."""

    @property
    def writable(self) -> bool:
        """Whether it was opened for writing."""

    def descriptor(self) -> int:
        """Return the descriptor, opened again where it was given up. OSError."""

    def give_up(self) -> int:
        """Give up the descriptor and return it, for its closing; -1 while it is needed."""

    def write_held(self) -> None:
        """Write what was held back. OSError."""

    @property
    def held_bytes(self) -> int:
        """How many bytes were held back last, written or not."""

    def take_held(self) -> tuple[int, list[bytes]]:
        """Take what was held back, for somebody else to write: where, and copies of the parts."""


class OpenFiles:
    """The files of one disk that are open now, and which of them hold writes back."""

    __slots__ = (
        "_lock", "_named", "_passed_over", "_relieving", "_residency", "_residency_asked", "_ring",
        "_workers",
        "active", "devices", "files", "full_at", "lost", "open_max", "owner",
    )  # fmt: skip

    def __init__(self, workers: "Workers | None" = None, open_max: int = OPEN_MAX) -> None:
        self._workers = workers
        self.open_max = open_max
        self.full_at = max(open_max, raise_limit() * 3 // 4)
        """So many are open that the system will soon allow no more: room is made at any price."""
        self.active = False
        """Whether writes are held back now."""
        self.owner = get_ident()
        """The deciding thread: others read what has been flushed, and never write what is held."""
        self.files: list[OpenFile] = []
        """Those that hold writes back."""
        self.lost: Failures = []
        """What was held back, was needed before the end, and could not be written."""
        self.devices: set[int] = set()
        """The file systems that files were opened on so far."""
        self._ring: OrderedDict[OpenFile, None] = OrderedDict()
        # The one looked at longest ago comes first.
        self._named: dict[str, OpenFile] = {}
        self._lock = Lock()
        self._relieving = False
        self._passed_over = 0
        """So many openings look for no file to close: there was none to be found before."""
        self._residency: Residency | None = None
        self._residency_asked = False

    @property
    def residency(self) -> "Residency | None":
        """How to ask what the page cache holds; None: not yet, or the system does not tell."""
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
        """Note that `file` has a descriptor now; another loses its own where there are too many."""
        # Room is made first, so that it is not the file's own descriptor that goes.
        if len(self._ring) >= self.open_max and get_ident() == self.owner:
            self._make_room()
        with self._lock:
            self._ring[file] = None
            self.devices.add(file.device)
            # Whoever only looks on (the scrub) does not stand in for the one in use.
            if file.writable or file.path not in self._named:
                self._named[file.path] = file

    def closed(self, file: OpenFile) -> None:
        """Note that `file` was closed by its user, whether it had a descriptor or not."""
        with self._lock:
            self._ring.pop(file, None)
            if self._named.get(file.path) is file:
                del self._named[file.path]

    def renamed(self, source: str, target: str) -> None:
        """Note that the file `source` is called `target` now, and open it by that name."""
        with self._lock:
            file = self._named.pop(source, None)
            if file is not None:
                file.path = target
                self._named[target] = file

    def pin(self, file: OpenFile) -> int:
        """Return the descriptor of `file`, kept open until `unpin`.

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
        """End one `pin`."""
        with self._lock:
            file.pins -= 1

    def pin_all(self, files: Sequence[OpenFile]) -> list[int]:
        """Return the descriptors of `files`, open until `unpin_all`. OSError: none is pinned."""
        with self._lock:
            for file in files:
                file.pins += 1
        try:
            return [file.descriptor() for file in files]
        except BaseException:
            self.unpin_all(files)
            raise

    def unpin_all(self, files: Sequence[OpenFile]) -> None:
        """End one `pin_all`."""
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
        spare = len(ring) + 1 - self.open_max
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
                del ring[file]  # its name is kept: it is opened again by it, or by the next one
            spare -= 1
            os.close(fd)
        if spare > 0:
            if needed == looks:
                # Thousands of logs that are written in one turn would each look at all before.
                self._passed_over = looks // _LOOKS_AN_OPENING
            self._relieve(at_once=full)

    def _relieve(self, *, at_once: bool) -> None:
        """Flush files that wait for nobody's flush, so that they may be closed.

        `at_once`: a turn that wrote to thousands of files would else run out of descriptors.
        """
        if (self._relieving and not at_once) or self._workers is None:
            return
        found = [file for file in self._ring if file.unflushed and not file.pins][:_LOOKED_AT_MAX]
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
                except OSError as error:  # told to who flushes it: the system tells it once
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

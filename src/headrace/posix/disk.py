"""`RealDisk`: the file system of the operating system. Implements `ports.disk`.

* Within a pass over a connection's requests (`begin_gather` … `end_gather`) appends to a file are
  gathered into one call: a system call that releases the interpreter's lock costs more than the
  small batch it writes.
* Non-blocking reads read the page cache only (`preadv2` with RWF_NOWAIT).
* The number of open files is limited (`open_files`).
* Flushes run on one thread per kind of work, never on the loop; a handful at most at one time.
* Results are delivered on the loop.
"""

import fcntl
import os
import struct
from collections.abc import Callable, Collection
from contextlib import suppress
from time import perf_counter
from typing import TypeVar

from headrace.model.invariant import InvariantError
from headrace.ports.disk import DiskFile, Failures
from headrace.posix.append_writer import SLOW_SECONDS, Writer
from headrace.posix.files import RealFile, write_all
from headrace.posix.flush_strategies import FLUSHES, Fdatasync, Syncfs
from headrace.posix.open_files import OPEN_MAX, OpenFiles
from headrace.posix.read_only_disk import LookUps
from headrace.posix.threads import Workers

T = TypeVar("T")

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_DIRECTORIES_FEW = 8
"""Above this number of directories, one syncfs replaces single fsyncs."""


_RECORD_LOCK = struct.Struct("hhqqi4x")
"""`struct flock` of 64-bit Linux: type, whence, start, length, pid."""


def _holder(fd: int) -> int | None:
    """Return the process that holds a lock on the file, or None if the kernel knows none."""
    asked = _RECORD_LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    found = _RECORD_LOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    return None if found[0] == fcntl.F_UNLCK or found[4] <= 0 else int(found[4])


def lock_holder(path: str) -> int | None:
    """Return the process that holds the lock file, a Headrace or Kafka; None if unknown."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return _holder(fd)
    finally:
        os.close(fd)


def in_use(path: str) -> bool:
    """Return whether a Headrace or Kafka process holds the lock file. Writes nothing.

    Raises OSError.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


class RealDisk(LookUps):
    """The file system of the log directories. Implements `ports.disk.BrokerDisk`."""

    def __init__(
        self, workers: Workers | None, strategy: str = "auto", open_max: int = OPEN_MAX
    ) -> None:
        """Make a disk; `strategy` (log.flush.strategy): fdatasync, syncfs, aio or auto.

        `open_max` (log.open.files.max): above it, files not used recently have no descriptor.
        Without `workers` (tools without a loop) `run` works synchronously, and `flush` is
        unavailable.
        """
        self._workers = workers
        self.files = OpenFiles(workers, open_max)
        self.writer = Writer(workers, self.files)
        self._strategy = FLUSHES[strategy]()
        self._all = Syncfs()

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> DiskFile:
        """Open a file; create it if `create`."""
        flags = os.O_CLOEXEC | (os.O_RDWR if writable else os.O_RDONLY)
        fd = os.open(path, flags | os.O_CREAT if create else flags, 0o644)
        return RealFile(path, fd, self.files, flags)

    def begin_gather(self) -> None:
        """Delay writes from now on; written buffers must not change until `end_gather`."""
        self.files.active = True

    def end_gather(self, later: Callable[[Failures], None]) -> Failures | None:
        """Perform the delayed writes; return the failures by path.

        None while the kernel blocks writers: a thread writes, and `later` gets the failures on the
        loop.
        """
        gather = self.files
        active, gather.active = gather.active, False
        if not gather.files and not (active and self.writer.busy):
            # else an answer may depend on another pass's writes, such as the answer to a retry
            return []
        files, gather.files = gather.files, []
        failed, gather.lost = gather.lost, []
        if self.writer.wanted and not failed:
            return self.writer.hand_over(files, later)
        began = perf_counter()
        for file in files:
            try:
                file.write_held()
            except OSError as error:
                failed.append((file.path, error))
        seconds = perf_counter() - began
        if seconds > SLOW_SECONDS:
            self.writer.took(seconds, sum(file.held_bytes for file in files), len(files))
        return failed

    @property
    def passes_handed_over(self) -> int:
        """Number of passes that a thread has written."""
        return self.writer.passes

    def real_path(self, path: str) -> str:
        """Return the path with symbolic links resolved."""
        return os.path.realpath(path)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        try:
            os.mkdir(path)
        except FileNotFoundError:
            os.makedirs(path, exist_ok=True)
        except FileExistsError:
            if not os.path.isdir(path):
                raise

    def rename(self, source: str, target: str) -> None:
        """Replace `target` by `source` atomically."""
        os.replace(source, target)
        self.files.renamed(source, target)

    def remove(self, path: str) -> None:
        """Delete a file."""
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        """Delete a directory with its content."""
        import shutil  # rarely needed and slow to import

        shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        """Make renames and new names in a directory durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_directories(self, paths: Collection[str]) -> None:
        """Fsync directories, by one syncfs if there are many and the strategy permits it."""
        fds = []
        try:
            for path in paths:
                with suppress(FileNotFoundError):
                    fds.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
                if len(fds) > _DIRECTORIES_FEW and not isinstance(self._strategy, Fdatasync):
                    self._all.flush(fds, 0, fds[-1:])
                    return
            for fd in fds:
                os.fsync(fd)
        finally:
            for fd in fds:
                os.close(fd)

    def sync_all(self, path: str) -> None:
        """Flush the whole file system of `path` by syncfs; blocking."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._all.flush([fd], 0, [fd])
        finally:
            os.close(fd)

    def absolute(self, path: str) -> str:
        """Return the absolute path."""
        return os.path.abspath(path)

    def boot_id(self) -> str:
        """Return the kernel's id of this boot; "" if it has none."""
        try:
            with open(_BOOT_ID, encoding="ascii") as file:
                return file.read().strip()
        except (OSError, ValueError):
            return ""

    def replace(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Replace a file's content atomically and durably; `mode` is limited by the umask."""
        temporary = path + ".tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            write_all(fd, 0, [content])
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
        self.sync_directory(os.path.dirname(path) or ".")

    def lock(self, path: str) -> Callable[[], None]:
        """Lock the file exclusively; BlockingIOError names the process that holds it."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Java locks with fcntl records: both kinds together exclude Kafka as well.
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as held:
            holder = _holder(fd)
            os.close(fd)
            who = "another process" if holder is None else f"process {holder}"
            raise BlockingIOError(held.errno, who, path) from None
        except OSError:
            os.close(fd)
            raise
        return lambda: os.close(fd)

    def flush(self, files: Collection[DiskFile], done: Callable[[OSError | None], None]) -> None:
        """Make written data of `files` durable on the flush thread, then call `done` on the
        loop."""
        workers = self._workers
        if workers is None:
            raise InvariantError("a disk without workers was asked to flush")
        ours = [file for file in files if isinstance(file, RealFile)]
        failure: OSError | None = None
        size = 0
        if self.files.files:  # during a pass
            for file in ours:
                file.write_held()
        for file in ours:
            size += file.unflushed
            file.unflushed = 0
            if file.failure is not None:
                failure = file.failure
        try:
            fds = self.files.pin_all(ours)
        except OSError as error:
            failure, ours, fds = error, [], []
        devices = self._one_each(ours, fds)
        handed_over = self.writer.last

        def work() -> None:
            told = failure
            if handed_over is not None:
                handed_over.wait()
                told = next((file.failure for file in ours if file.failure), told)
            if told is not None:
                raise told
            self._strategy.flush(fds, size, devices)

        def flushed(error: OSError | None) -> None:
            self.files.unpin_all(ours)
            done(error)

        workers.flush(work, flushed)

    def _one_each(self, files: list[RealFile], fds: list[int]) -> list[int]:
        """Return one descriptor for each file system that the files are on."""
        if len(self.files.devices) == 1:
            return fds[:1]
        return [*{file.device: fd for file, fd in zip(files, fds, strict=True)}.values()]

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run blocking `work` on a thread, then `done` on the loop with its result or error."""
        if self._workers is None:
            done(work())
        else:
            self._workers.run(work, done)

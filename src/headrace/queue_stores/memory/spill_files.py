"""The spill files: in a log directory, for all queues, deleted when the process ends.

Extents are appended to the newest file, one call at a time, and read back from any; a file is open
only meanwhile. Nothing is flushed. A file is deleted once none of its extents is needed. If most
bytes of all files are not needed, the extents of the emptiest file are moved to the newest.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.log.file_names import process_file
from headrace.model.errors import HeadraceError
from headrace.model.protocols import AMQP
from headrace.queue_stores.memory.spill_extent import (
    Content,
    Extent,
    SpillFile,
    decode,
    encode,
)

if TYPE_CHECKING:
    from headrace.ports.disk import Disk

_logger = logging.getLogger(__name__)
FILE_BYTES = 64 * 1024 * 1024
"""Bytes after which the next file begins."""
SLACK_FILES = 2
"""Files' worth of unneeded bytes that are allowed, beyond as many as are needed."""
MOVED_BYTES = 4 * 1024 * 1024
"""Bytes that are moved to another file at once, or a little more."""

Written = Callable[[OSError | None], None]
HaveContent = Callable[[Content | Exception], None]


class SpillFiles:
    """All spill files of a broker. On the deciding thread."""

    def __init__(self, disk: "Disk", directory: str, file_bytes: int = FILE_BYTES) -> None:
        """Keep spill files in log directory `directory`; its next start deletes leftover files."""
        self.directory = directory
        self._disk = disk
        self._file_bytes = file_bytes
        self._files: dict[SpillFile, None] = {}
        """All files; the newest, which is appended to, comes last."""
        self._made = 0
        self._writing: SpillFile | None = None
        self._on_written: Callable[[], None] | None = None
        self._live = 0
        self.bytes = 0
        """Bytes of all files on the disk."""

    def __len__(self) -> int:
        """Return the number of spill files."""
        return len(self._files)

    # Writing

    def write(self, extents: Sequence[Extent], done: Written) -> None:
        """Write extents that are in memory, then call `done`, with an OSError if none was written.

        One call at a time. Extents whose messages were settled meanwhile get no place in a file.
        """
        contents = [extent.content() for extent in extents]
        self._write(extents, lambda: [encode(content) for content in contents], done)

    @property
    def is_wasteful(self) -> bool:
        """Whether most bytes of the spill files are not needed."""
        return self.bytes > 2 * self._live + SLACK_FILES * self._file_bytes

    def move(self, done: Written) -> None:
        """Move some extents of the emptiest file to the newest, then call `done` as `write` does.

        May be called only while `is_wasteful`.
        """
        newest = self._newest()
        older = (file for file in self._files if file is not newest)
        source = min(older, key=lambda file: file.live / file.end)
        extents: list[Extent] = []
        size = 0
        for extent in source.extents:
            extents.append(extent)
            size += extent.size
            if size >= MOVED_BYTES:
                break
        places = [(extent.at, extent.size) for extent in extents]

        def read() -> list[bytes]:
            file = self._disk.open(source.path, writable=False)
            try:
                return [file.read(at, size) for at, size in places]
            finally:
                file.close()

        self._write(extents, read, done)

    def _write(
        self, extents: Sequence[Extent], parts_of: Callable[[], list[bytes]], done: Written
    ) -> None:
        file = self._writing = self._newest()
        at = file.end

        def work() -> list[int]:
            parts = parts_of()
            self._append(file.path, at, parts)
            return [len(part) for part in parts]

        def written(sizes: list[int] | BaseException) -> None:
            self._writing = None
            error: OSError | None = None
            if isinstance(sizes, OSError):
                error = sizes
            elif isinstance(sizes, BaseException):
                raise sizes
            else:
                self._place(file, extents, sizes)
            self._remove_if_empty(file)
            if self._on_written is not None:
                self._on_written()
            done(error)

        self._disk.run(work, written)

    def _append(self, path: str, at: int, parts: Sequence[bytes]) -> None:
        """Append to a file, on a thread; after an OSError the file ends where it did."""
        file = self._disk.open(path, create=True)
        try:
            file.write_at(at, parts)
        except OSError:
            with suppress(OSError):  # the rest is overwritten later
                file.truncate(at)
            raise
        finally:
            file.close()

    def _newest(self) -> SpillFile:
        newest = next(reversed(self._files), None)
        if newest is None or newest.end >= self._file_bytes:
            newest = SpillFile(f"{self.directory}/{process_file(AMQP.process_files, self._made)}")
            self._made += 1
            self._files[newest] = None
        return newest

    def _place(self, file: SpillFile, extents: Sequence[Extent], sizes: Sequence[int]) -> None:
        """Note the places of written extents, unless they are not needed any more."""
        before = file.end
        for extent, size in zip(extents, sizes, strict=True):
            if extent.left:
                self.free(extent)
                extent.file, extent.at, extent.size = file, file.end, size
                file.extents[extent] = None
                file.live += size
                self._live += size
            file.end += size
        self.bytes += file.end - before

    # Reading

    def read(self, extent: Extent, done: HaveContent) -> None:
        """Read an extent from its file; `done` takes the content or OSError, DamagedExtent."""
        file, at, size, count = extent.file, extent.at, extent.size, extent.count
        if file is None:
            done(HeadraceError("it was never written"))
            return

        def work() -> Content:
            opened = self._disk.open(file.path, writable=False)
            try:
                return decode(opened.read(at, size), count)
            finally:
                opened.close()

        def have_read(result: Content | BaseException) -> None:
            if isinstance(result, OSError | HeadraceError):
                if extent.file is not file:
                    self.read(extent, done)  # moved to another file, and the first one is deleted
                else:
                    done(result)
            elif isinstance(result, BaseException):
                raise result
            else:
                done(result)

        self._disk.run(work, have_read)

    # Removing

    def free(self, extent: Extent) -> None:
        """Note that an extent's place in a file, if any, is not needed any more."""
        file, extent.file = extent.file, None
        if file is not None:
            del file.extents[extent]
            file.live -= extent.size
            self._live -= extent.size
            self._remove_if_empty(file)

    def _remove_if_empty(self, file: SpillFile) -> None:
        if file.extents or file is self._writing or file not in self._files:
            return
        del self._files[file]
        self.bytes -= file.end

        def removed(result: BaseException | None) -> None:
            if isinstance(result, OSError) and not isinstance(result, FileNotFoundError):
                _logger.warning(
                    "spill file %s is no longer needed and could not be deleted: %s. The next start"
                    " deletes it", file.path, result,
                )  # fmt: skip

        self._disk.run(lambda: self._disk.remove(file.path), removed)

    def close(self, done: Callable[[], None]) -> None:
        """Delete all files, after a write that is under way."""

        def remove() -> None:
            for path in paths:
                with suppress(OSError):  # the next start tries again
                    self._disk.remove(path)

        if self._writing is not None:
            self._on_written = lambda: self.close(done)
            return
        paths = [file.path for file in self._files]
        self._files.clear()
        self._disk.run(remove, lambda _: done())

"""`Unflushed` and `FlushWork`: files and directories of a log that its next flush must include."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from headrace.log.segment.segment import Segment
from headrace.model.nouns import Offset
from headrace.ports.disk import DiskFile

_new = tuple.__new__  # makes a named tuple in two fifths of its constructor's time


class FlushWork(NamedTuple):
    """The files and directories to flush so that all records below `upto` are durable."""

    files: Sequence[DiskFile]
    directories: Sequence[str]
    """Directories to fsync as well, for the entries of new files."""
    upto: Offset
    sealed: Collection[Segment]
    loose: Collection[DiskFile]
    """Small files that are closed once they are flushed."""
    truncations: int
    """`Log.truncations` when the work was collected; if it changed since, offsets are stale."""


class Unflushed:
    """Sealed segments, small files and directory entries of a log that are not flushed yet."""

    __slots__ = ("_directories", "_loose", "_sealed")

    def __init__(self) -> None:
        self._sealed: list[tuple[Segment, list[DiskFile]]] = []
        self._loose: list[DiskFile] = []
        self._directories: list[str] = []

    def add_segment(self, segment: Segment, files: list[DiskFile]) -> None:
        """Add a sealed segment with its open files; the last of `files` is its snapshot.

        The snapshot's file is closed here, after its flush.
        """
        self._sealed.append((segment, files))

    def add_file(self, file: DiskFile) -> None:
        """Add a small file, to be flushed and then closed."""
        self._loose.append(file)

    def add_directory(self, directory: str) -> None:
        """Add a directory whose entries have changed, to be flushed."""
        if directory not in self._directories:
            self._directories.append(directory)

    @property
    def segments(self) -> bool:
        """Whether sealed segments wait for a flush."""
        return bool(self._sealed)

    @property
    def small_files(self) -> bool:
        """Whether small files wait for a flush."""
        return bool(self._loose)

    def take_small_files(self, into: list[DiskFile]) -> Sequence[str]:
        """Move the small files to `into`, to be flushed and then closed; return the directories to
        flush after them."""
        into += self._loose
        directories, self._loose, self._directories = self._directories, [], []
        return directories

    def work(self, active: Sequence[DiskFile], upto: Offset, truncations: int) -> FlushWork:
        """Return everything to flush now; pass the result to `settled` after the flush."""
        if not (self._sealed or self._loose or self._directories):
            usual: FlushWork = _new(FlushWork, (active, (), upto, (), (), truncations))
            return usual
        loose, self._loose = self._loose, []
        directories, self._directories = self._directories, []
        files = [file for _, sealed in self._sealed for file in sealed]
        sealed = [segment for segment, _ in self._sealed]
        return FlushWork([*files, *loose, *active], directories, upto, sealed, loose, truncations)

    def settled(self, work: FlushWork) -> None:
        """Drop the sealed segments of `work` after their flush, and close their files."""
        for segment, opened in self._sealed:
            if segment in work.sealed:
                opened[-1].close()
                segment.close_indexes()
        self._sealed = [pair for pair in self._sealed if pair[0] not in work.sealed]

    def forget(self, gone: Collection[Segment], *, oldest: bool = False) -> bool:
        """Drop segments that are being deleted; return whether a snapshot still needs a flush.

        If they are the `oldest` of the log, the last one's snapshot is the only record of their
        producers: it stays and waits for its flush.
        """
        files = [opened[-1] for segment, opened in self._sealed if segment in gone]
        self._sealed = [pair for pair in self._sealed if pair[0] not in gone]
        left = files[-1:] if oldest else []
        self._loose += left
        for file in files[: len(files) - len(left)]:
            file.close()
        return bool(left)

    def close(self) -> None:
        """Drop everything that waits for a flush, and close the files owned here."""
        for _, opened in self._sealed:
            opened[-1].close()
        self._sealed.clear()
        for file in self._loose:
            file.close()
        self._loose.clear()

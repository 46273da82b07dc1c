"""What of a log waits for its next flush, besides its active segment."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from headrace.log.segment.segment import Segment
from headrace.model.nouns import Offset
from headrace.ports.disk import DiskFile

_new = tuple.__new__


class FlushWork(NamedTuple):
    """What must reach the disk so that everything below `upto` is there."""

    files: Sequence[DiskFile]
    directories: Sequence[str]
    """Directories whose entries must be durable too, before the files count."""
    upto: Offset
    sealed: Collection[Segment]
    loose: Collection[DiskFile]
    """Small files, closed once they are flushed."""
    truncations: int
    """How often the log had been cut short: offsets may hold something else since."""


class Unflushed:
    """Closed segments, small files and directory entries whose flush is still to come."""

    __slots__ = ("_directories", "_loose", "_sealed")

    def __init__(self) -> None:
        self._sealed: list[tuple[Segment, list[DiskFile]]] = []
        self._loose: list[DiskFile] = []
        self._directories: list[str] = []

    def add_segment(self, segment: Segment, files: list[DiskFile]) -> None:
        """Add a segment closed for good; the last of `files`, its snapshot, nobody else closes."""
        self._sealed.append((segment, files))

    def add_file(self, file: DiskFile) -> None:
        """Add a small file that is closed once it is flushed."""
        self._loose.append(file)

    def add_directory(self, directory: str) -> None:
        """Note that the entries of `directory` have changed."""
        if directory not in self._directories:
            self._directories.append(directory)

    @property
    def segments(self) -> bool:
        """Whether closed segments wait."""
        return bool(self._sealed)

    def work(self, active: Sequence[DiskFile], upto: Offset, truncations: int) -> FlushWork:
        """Return all that is to be flushed now; hand it back to `settled` when that is done."""
        if not (self._sealed or self._loose or self._directories):
            usual: FlushWork = _new(FlushWork, (active, (), upto, (), (), truncations))
            return usual
        loose, self._loose = self._loose, []
        directories, self._directories = self._directories, []
        files = [file for _, sealed in self._sealed for file in sealed]
        sealed = [segment for segment, _ in self._sealed]
        return FlushWork([*files, *loose, *active], directories, upto, sealed, loose, truncations)

    def settled(self, work: FlushWork) -> None:
        """Take in that `work` is on the disk: its segments wait no more."""
        for segment, opened in self._sealed:
            if segment in work.sealed:
                opened[-1].close()
                segment.close_indexes()
        self._sealed = [pair for pair in self._sealed if pair[0] not in work.sealed]

    def forget(self, gone: Collection[Segment], *, oldest: bool = False) -> bool:
        """Forget segments that are about to go; tells whether what they leave needs a flush.

        Where they are the `oldest`, the last one's snapshot is where the next segment begins, and
        alone tells of producers whose batches go: it waits for its flush still.
        """
        files = [opened[-1] for segment, opened in self._sealed if segment in gone]
        self._sealed = [pair for pair in self._sealed if pair[0] not in gone]
        left = files[-1:] if oldest else []
        self._loose += left
        for file in files[: len(files) - len(left)]:
            file.close()
        return bool(left)

    def close(self) -> None:
        """Let nothing wait any more; files that nobody else closes are closed."""
        for _, opened in self._sealed:
            opened[-1].close()
        self._sealed.clear()
        for file in self._loose:
            file.close()
        self._loose.clear()

"""`SmallFiles`: atomic replacement of small files in a partition's directory, flushed later."""

from headrace.log.unflushed import Unflushed
from headrace.ports.disk import Disk


class SmallFiles:
    """The writer of the small files in one partition's directory; `unflushed` gets their
    flushes."""

    __slots__ = ("_directory", "_disk", "_unflushed")

    def __init__(self, disk: Disk, directory: str, unflushed: Unflushed) -> None:
        self._disk = disk
        self._directory = directory
        self._unflushed = unflushed

    def write(self, name: str, content: bytes) -> None:
        """Replace a small file by rename without a flush; durable with the next flush.

        Raises OSError. A power cut before may leave it torn. So only content that can be rebuilt
        from the log or from the metadata store is written this way.
        """
        path = f"{self._directory}/{name}"
        file = self._disk.open(f"{path}.tmp", create=True)
        file.truncate(0)
        file.write_at(0, (content,))
        self._disk.rename(f"{path}.tmp", path)
        self._unflushed.add_file(file)
        self._unflushed.add_directory(self._directory)

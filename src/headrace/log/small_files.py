"""The small files of a partition's directory, written without waiting."""

from headrace.log.unflushed import Unflushed
from headrace.ports.disk import Disk


class SmallFiles:
    """Writes the small files beside one log; `unflushed` has them made durable."""

    __slots__ = ("_directory", "_disk", "_unflushed")

    def __init__(self, disk: Disk, directory: str, unflushed: Unflushed) -> None:
        self._disk = disk
        self._directory = directory
        self._unflushed = unflushed

    def write(self, name: str, content: bytes) -> None:
        """Replace a small file of the directory without waiting; durable with the next flush.

        A power cut before that may leave it torn: what is written so can be told from the log or
        from the metadata store, and a kill of the process does it no harm. OSError.
        """
        path = f"{self._directory}/{name}"
        file = self._disk.open(f"{path}.tmp", create=True)
        file.truncate(0)
        file.write_at(0, (content,))
        self._disk.rename(f"{path}.tmp", path)
        self._unflushed.add_file(file)
        self._unflushed.add_directory(self._directory)

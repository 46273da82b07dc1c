"""`cleaner-offset-checkpoint`: the offset up to which each log of a directory is compacted."""

import logging
from collections.abc import Container

from headrace.log import file_names, text_files
from headrace.log.text_files import read_file
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.disk import Disk

_logger = logging.getLogger(__name__)


class CleanerOffsets:
    """The entries of Kafka's `cleaner-offset-checkpoint`. Without it logs are compacted again."""

    __slots__ = ("_disk", "_path", "entries")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{file_names.CLEANER_OFFSETS}"
        self.entries: dict[TopicPartition, Offset] = {}

    def read(self) -> None:
        """Read the file if it exists and is valid; blocking. Raises OSError."""
        try:
            content = read_file(self._disk, self._path)
            if content is not None:
                self.entries = text_files.read_offsets(content, self._path)
        except CorruptLogError as error:
            _logger.warning(
                "%s; all logs count as not compacted and are compacted again from their starts",
                error,
            )

    def content(self, present: Container[TopicPartition]) -> bytes:
        """Return the bytes of the file: the entries of the partitions in `present`."""
        self.entries = {at: end for at, end in self.entries.items() if at in present}
        return text_files.write_offsets(self.entries)

    def write(self, content: bytes) -> None:
        """Replace the file; blocking. Raises OSError."""
        self._disk.replace(self._path, content)

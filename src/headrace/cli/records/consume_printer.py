"""What `headrace consume` prints of chunks of records, and how far that went."""

import sys
from collections.abc import Iterator
from typing import Protocol

from headrace.cli.records.formats import Formatter
from headrace.model.errors import CorruptLogError, HeadraceError
from headrace.model.nouns import TopicPartition
from headrace.record.compression import CorruptBatch
from headrace.record.record import Record


class Printable(Protocol):
    """Records of one partition as they came."""

    @property
    def partition(self) -> TopicPartition: ...

    @property
    def position(self) -> int:
        """The first offset wanted."""

    @property
    def next_position(self) -> int:
        """The offset behind the last there is."""

    def record_lists(self) -> Iterator[list[Record]]:
        """Yield the records from `position` on, many at a time."""


class Printer:
    """Writes records to standard output and counts them."""

    def __init__(self, formatter: Formatter, most: int | None) -> None:
        self._formatter = formatter
        self.left = most
        """How many more are to be printed; None: all that come."""
        self.printed: dict[TopicPartition, int] = {}
        """The offset after the last record printed of each partition."""

    def print(self, chunk: Printable) -> bool:
        """Print a chunk's records; False when enough have been printed.

        DamagedBytes where they end before the chunk does.
        """
        partition, following, count = chunk.partition, chunk.position, 0
        texts: list[bytes] = []
        try:
            for records in chunk.record_lists():
                wanted = records if self.left is None else records[: self.left - count]
                done = 0
                for text, of_records in self._formatter.pieces(partition, wanted):
                    texts.append(text)
                    done += of_records
                    count += of_records
                    following = wanted[done - 1].offset + 1
                if count == self.left:
                    return False
            following = chunk.next_position
        except (CorruptLogError, CorruptBatch) as error:
            raise DamagedBytes(partition, following, error) from None
        finally:
            _write(b"".join(texts))
            if self.left is not None:
                self.left -= count
            if following > chunk.position:
                self.printed[partition] = following
        return True


def _write(text: bytes) -> None:
    """Write a chunk's text at once, also where PYTHONUNBUFFERED has standard output unbuffered."""
    out, rest = sys.stdout.buffer, memoryview(text)
    while rest:
        rest = rest[out.write(rest) :]
    out.flush()


class DamagedBytes(Exception):
    """A chunk holds bytes that are not what was written."""

    def __init__(self, partition: TopicPartition, offset: int, error: HeadraceError) -> None:
        super().__init__(str(error))
        self.partition = partition
        self.offset = offset
        """The first that was not printed."""
        self.error = error

"""The printer of `headrace consume`: it writes chunks of records and remembers the offsets."""

import sys
from collections.abc import Iterator
from typing import Protocol

from headrace.model.errors import CorruptLogError, HeadraceError
from headrace.model.nouns import TopicPartition
from headrace.record.compression import CorruptBatch
from headrace.record.record import Record
from headrace.terminal.record_formats import Formatter


class Printable(Protocol):
    """A fetched chunk of one partition's records."""

    @property
    def partition(self) -> TopicPartition: ...

    @property
    def position(self) -> int:
        """The first offset of the chunk that is to be printed."""

    @property
    def next_position(self) -> int:
        """The offset after the chunk's last record."""

    def record_lists(self) -> Iterator[list[Record]]:
        """Yield the records from `position` on, many at a time."""


class Printer:
    """Writes consumed records to standard output and counts them."""

    def __init__(self, formatter: Formatter, most: int | None) -> None:
        self._formatter = formatter
        self.left = most
        """Records still to be printed; None: no limit."""
        self.printed: dict[TopicPartition, int] = {}
        """By partition: the offset after the last printed record."""

    def print(self, chunk: Printable) -> bool:
        """Print a chunk's records; return False once enough have been printed.

        DamagedBytes if the records end before the chunk does.
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
    """Write a chunk's text completely, also to unbuffered standard output (PYTHONUNBUFFERED)."""
    out, rest = sys.stdout.buffer, memoryview(text)
    while rest:
        rest = rest[out.write(rest) :]
    out.flush()


class DamagedBytes(Exception):
    """A chunk contains damaged records."""

    def __init__(self, partition: TopicPartition, offset: int, error: HeadraceError) -> None:
        super().__init__(str(error))
        self.partition = partition
        self.offset = offset
        """The first offset that was not printed."""
        self.error = error

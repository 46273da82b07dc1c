"""Find the records of a batch that have no key, without decoding the others."""

from collections.abc import Callable, Iterator

from headrace.record.compression import CorruptBatch
from headrace.record.record import read_unsigned


def keyless(data: bytes, count: int, breathe: Callable[[int], None]) -> Iterator[int]:
    """Yield the number of each of the `count` records that has no key.

    `breathe` is called before each record. Values and headers are skipped. Raises CorruptBatch.
    """
    at = 0
    try:
        for number in range(count):
            breathe(number)
            size = data[at]
            at += 1
            if size >= 0x80:
                size, at = read_unsigned(data, at - 1)
            size = (size >> 1) ^ -(size & 1)
            end = at + size
            if size < 1 or end > len(data):
                raise CorruptBatch("a record is longer than its batch")
            at += 1
            for _ in range(2):  # timestamp delta and offset delta
                while data[at] >= 0x80:
                    at += 1
                at += 1
            if at >= end:
                raise CorruptBatch("a record ends before its key")
            if data[at] & 1:  # zig-zag: odd is negative
                yield number
            at = end
    except IndexError:
        raise CorruptBatch("the records end early") from None
    if at != len(data):
        raise CorruptBatch(f"{len(data) - at} bytes after the last record")

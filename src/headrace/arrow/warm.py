"""Compile the kernels before they are needed: `headrace arrow warm`."""

import time

import pyarrow as pa

from headrace.arrow.read.decode import PartitionDecoder
from headrace.arrow.typed.json_decoder import JsonDecoder
from headrace.arrow.write.encode import RowEncoder
from headrace.kernels.choose import numba_unwanted
from headrace.kernels.compact_records import KernelRecords
from headrace.log.compaction.records import Span
from headrace.record import batch as batches
from headrace.record.batch_layout import HEADER_BYTES
from headrace.record.record import Record


def warm() -> float:
    """Run each kernel once so that its compiled form is cached; return the seconds that took.

    The cache is `NUMBA_CACHE_DIR` or in this user's cache directory; other users compile again.
    Does nothing without numba.
    """
    began = time.monotonic()
    if numba_unwanted():
        return 0.0
    records = [
        Record(offset, 1, b"key %d" % offset, b"value", (("h", b"v"),)) for offset in range(3)
    ]
    data = batches.build(records)
    # Plain batches use one kernel; a decoder that skips corrupt batches uses another.
    for on_corrupt in (None, lambda error: None):
        decoder = PartitionDecoder("t", 0, offset_from=0, on_corrupt=on_corrupt)
        for _ in decoder.feed(data):
            pass
        for _ in decoder.flush():
            pass
    encoder = RowEncoder(lambda topic: 1, batch_bytes=4096)
    values = pa.array([b"value"], pa.binary())
    # Rows with a partition column use a kernel of their own.
    for columns in ({"value": values}, {"value": values, "partition": pa.array([0], pa.int32())}):
        for _ in encoder.encode(pa.table(columns), "t"):
            pass
    kernel = KernelRecords(8, 8)
    span = Span(data[HEADER_BYTES:], len(records), 0, len(records) - 1)
    kernel.index(span, 0)
    kernel.filter(span, 1, True)
    for _ in JsonDecoder("number BIGINT").decode(pa.array([b"{}"], pa.binary())):
        pass
    return time.monotonic() - began

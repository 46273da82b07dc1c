"""Record batches to Arrow: one decoder for segments on disk and for what Fetch brings.

    decode.py    PartitionDecoder: bytes of whole batches in, pyarrow.RecordBatch out
    unfold.py    the codecs, with objects kept between batches
    kernel.py    numba: walks the records of one batch, copies keys, values, headers
    alike.py     its way through runs of records of one shape, without parsing them
    twin.py      the same in plain Python, taken where numba is absent or HEADRACE_NUMBA=0
    run.py       numba: many plain batches in one call, unfolded by lz4_kernel.py, checked
                 by crc_kernel.py; lane.py uses it
    raw.py       loads, stores and copies that those kernels are made of
    engine.py    which of the two, and where compiled code is cached
    cache.py     a directory that nobody else writes to
    door.py      `open`: a topic's segments on disk as a RecordBatchReader, no broker needed
    segments.py  finding segments and positions beside whoever writes them
    stream.py    reading one partition, crew.py several at a time, files.py a disk to look at only
    layout.py    what kernel and twin agree on: state slots, outcomes
    columns.py   output buffers (reused once nobody refers to them), schema, RecordBatch assembly

Needs the `arrow` extra. Bytes are never trusted: every length is checked before a byte moves, and a
batch that breaks the format raises `CorruptBatch`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.arrow.open_topic import open as open  # noqa: A004 - headrace.arrow.open is its name

__all__ = ["open"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - pyarrow is imported by whoever opens the door
    if name == "open":
        from headrace.arrow import open_topic

        return open_topic.open
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

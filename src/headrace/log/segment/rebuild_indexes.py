"""The indexes of a segment of a log that nobody has open, built again."""

from contextlib import closing

from headrace.log.segment.segment import Segment
from headrace.model.nouns import Offset
from headrace.ports.disk import Disk

INDEX_BYTES_MAX = 10 << 20
"""segment.index.bytes by default: no topic is asked here."""


def reindex(disk: Disk, directory: str, base: Offset) -> None:
    """Write both indexes of the segment at `base` anew from its batches, durably.

    Blocking; BadBatch, OSError.
    """
    with closing(Segment(disk, directory, base, index_bytes_max=INDEX_BYTES_MAX)) as segment:
        segment.load_size()
        segment.rebuild_indexes()
        for file in segment.seal():
            file.sync()

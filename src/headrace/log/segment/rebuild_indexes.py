"""`reindex`: rebuild the indexes of a segment whose log is not open."""

from contextlib import closing

from headrace.log.segment.segment import Segment
from headrace.model.nouns import Offset
from headrace.ports.disk import Disk

INDEX_BYTES_MAX = 10 << 20
"""The default of segment.index.bytes; topic settings are unknown here."""


def reindex(disk: Disk, directory: str, base: Offset) -> None:
    """Rebuild both index files of the segment with base offset `base` from its batches, durably.

    Blocking. Raises BadBatch, OSError.
    """
    with closing(Segment(disk, directory, base, index_bytes_max=INDEX_BYTES_MAX)) as segment:
        segment.load_size()
        segment.rebuild_indexes()
        for file in segment.seal():
            file.sync()

"""Records that were encoded and compressed elsewhere, and wait for a producer's id to be sealed."""

from typing import NamedTuple

from headrace.record.batch import TRANSACTIONAL, seal
from headrace.record.compression import Codec


class EncodedRecords(NamedTuple):
    """The records of one batch, without its header."""

    payload: bytes
    """Compressed by `codec`, numbered from 0 on, their times counted from `base_ms`."""
    codec: Codec
    record_count: int
    base_ms: int
    max_ms: int

    def sealed(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool
    ) -> bytes:
        """Return the whole batch as this producer sends it; -1, -1, -1: as nobody's."""
        attributes = int(self.codec) | (TRANSACTIONAL if transactional else 0)
        return seal(
            self.payload, 0, -1, attributes, self.record_count - 1, self.base_ms, self.max_ms,
            producer_id, producer_epoch, base_sequence, self.record_count,
        )  # fmt: skip

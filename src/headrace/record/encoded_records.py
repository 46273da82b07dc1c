"""`EncodedRecords`: records encoded and compressed elsewhere, before they get a batch header."""

from typing import NamedTuple

from headrace.record.batch import TRANSACTIONAL, seal
from headrace.record.compression import Codec


class EncodedRecords(NamedTuple):
    """The encoded records of one batch, without its header."""

    payload: bytes
    """The records, compressed by `codec`: offsets from 0, timestamps relative to `base_ms`."""
    codec: Codec
    record_count: int
    base_ms: int
    max_ms: int

    def sealed(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool
    ) -> bytes:
        """Return the batch with a header for this producer; -1, -1, -1 for one without
        idempotence."""
        attributes = int(self.codec) | (TRANSACTIONAL if transactional else 0)
        return seal(
            self.payload, 0, -1, attributes, self.record_count - 1, self.base_ms, self.max_ms,
            producer_id, producer_epoch, base_sequence, self.record_count,
        )  # fmt: skip

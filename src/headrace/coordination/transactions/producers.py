"""`ProducerEpoch`: the producer id and epoch of a transactional producer."""

from typing import NamedTuple

NO_EPOCH = -1
TV0, TV2 = 0, 2
"""Transaction versions of clients (KIP-890): 0 the classic protocol, 2 an epoch per transaction."""


class ProducerEpoch(NamedTuple):
    """A producer id and epoch."""

    producer_id: int
    epoch: int

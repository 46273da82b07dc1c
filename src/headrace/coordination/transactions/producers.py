"""Who a producer of transactions says it is, as frontends and coordinators speak of it."""

from typing import NamedTuple

NO_EPOCH = -1
TV0, TV2 = 0, 2
"""Transaction versions of clients (KIP-890): with 2 every transaction has an epoch of its own."""


class ProducerEpoch(NamedTuple):
    """Who a producer says it is."""

    producer_id: int
    epoch: int

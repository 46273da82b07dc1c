"""The partition of a key: murmur2 of its bytes, as in Kafka's Java client.

Kafka's clients thus send equal keys to the same partition.
"""

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_SHIFT = 24
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the 32-bit unsigned hash of org.apache.kafka.common.utils.Utils.murmur2."""
    size = len(data)
    hash_ = _SEED ^ size
    whole = size & ~3
    for at in range(0, whole, 4):
        word = (int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER) & _MASK
        word ^= word >> _SHIFT
        hash_ = ((hash_ * _MULTIPLIER) & _MASK) ^ ((word * _MULTIPLIER) & _MASK)
    if size > whole:
        hash_ ^= int.from_bytes(data[whole:], "little")
        hash_ = (hash_ * _MULTIPLIER) & _MASK
    hash_ ^= hash_ >> 13
    hash_ = (hash_ * _MULTIPLIER) & _MASK
    return hash_ ^ (hash_ >> 15)


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key among `partitions` partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions if partitions > 1 else 0

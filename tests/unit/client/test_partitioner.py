"""Partitions as Java's client chooses them."""

import random
from collections import Counter

import pytest

from headrace.client.producer.partitioner import StickyPartitioner
from headrace.record.key_partition import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_javas(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF


def test_it_agrees_with_kafka_python() -> None:
    from kafka.partitioner.default import murmur2 as theirs

    chance = random.Random(5)
    for size in range(64):
        key = chance.randbytes(size)
        assert murmur2(key) == theirs(key) & 0xFFFFFFFF


def test_a_key_always_goes_to_the_same_partition() -> None:
    one, other = StickyPartitioner(), StickyPartitioner()
    for number in range(100):
        key = b"key-%d" % number
        assert one.choose(key, 7) == other.choose(key, 7) == partition_of(key, 7)


def test_without_keys_a_batch_stays_together_and_batches_spread() -> None:
    partitioner = StickyPartitioner(random.Random(1))
    counts: Counter[int] = Counter()
    for _ in range(300):
        chosen = {partitioner.choose(None, 5) for _ in range(10)}
        assert len(chosen) == 1
        counts[chosen.pop()] += 1
        partitioner.next_batch(5)
    assert set(counts) == set(range(5))
    assert min(counts.values()) > 30


def test_one_partition_is_always_it() -> None:
    partitioner = StickyPartitioner()
    for _ in range(3):
        assert partitioner.choose(None, 1) == 0
        partitioner.next_batch(1)


def test_a_hash_beyond_31_bits_gives_javas_partition() -> None:
    # Java has -973932308 for it, and takes the sign off before it divides.
    assert murmur2(b"21") == 0x1_0000_0000 - 973932308
    assert [partition_of(b"21", count) for count in (3, 5, 7)] == [
        (0x7FFF_FFFF & -973932308) % count for count in (3, 5, 7)
    ]

"""How long the loop stands still while a broker's coordinators load: seventeen at once.

    python -m bench.loading [--shards 17] [--records 50000]

Shards of `__consumer_offsets`, each of a log of as many committed offsets, are led in one turn of
the loop, as a start does. A beat on the same loop tells how late it was called, and how much work
of the loop's own lay between (on a busy machine the first says more of the neighbours).
"""

import argparse
import asyncio
import gc
from bisect import bisect_right
from time import perf_counter, thread_time
from types import SimpleNamespace
from typing import Any

from headrace.broker.metadata_image import MetadataImage
from headrace.broker.waiters import CommitWaiters
from headrace.config.broker import load
from headrace.coordination.groups import records
from headrace.coordination.groups.committed_offsets import Committed
from headrace.coordination.groups.group_coordinators import GroupCoordinators
from headrace.log.segment.batch_reader import ReadResult
from headrace.model.errors import ErrorCode
from headrace.model.nouns import Offset
from headrace.posix.clock import RealClock, RealRandom
from headrace.record.batch import build_pairs, stamp
from headrace.server.main import GC_THRESHOLDS
from headrace.shards.shard import World

_BATCH_RECORDS = 100
_GROUPS = 50
_BEAT_SECONDS = 0.001


class WarmLog:
    """A log that the page cache holds: whole batches, found by their offsets."""

    start_offset = Offset(0)

    def __init__(self, shard: int, count: int) -> None:
        self.end_offset = self.high_watermark = Offset(count)
        self._bases = list(range(0, count, _BATCH_RECORDS))
        self._batches = [
            _batch(shard, base, min(base + _BATCH_RECORDS, count)) for base in self._bases
        ]

    def read(self, offset: Offset, max_bytes: int, *, below: Offset) -> ReadResult:
        """Read whole batches from `offset` on; at least one."""
        at = bisect_right(self._bases, offset) - 1
        taken = bytearray()
        while at < len(self._batches):
            if taken and len(taken) + len(self._batches[at]) > max_bytes:
                break
            taken += self._batches[at]
            at += 1
        return ReadResult(taken, Offset(min(at * _BATCH_RECORDS, below)))

    def read_from_disk(self, offset: Offset, max_bytes: int, *, below: Offset) -> ReadResult:
        """As `read`: nothing of it is on a disk."""
        return self.read(offset, max_bytes, below=below)


class LedPartition:
    """A partition that leads: its log, and who waits for its high watermark."""

    def __init__(self, log: WarmLog) -> None:
        self.log = log
        led: Any = log
        waiters = CommitWaiters(led, ErrorCode.NONE)
        waiters.refusal = None
        self.when_committed = waiters.when_committed


def _batch(shard: int, first: int, end: int) -> bytes:
    pairs = [
        (
            records.offset_key((f"group-{shard}-{number % _GROUPS}", f"topic-{number}", 0)),
            records.offset_value(Committed(number, 0, "", 1_780_000_000_000)),
        )
        for number in range(first, end)
    ]
    batch = bytearray(build_pairs(pairs, 1_780_000_000_000))
    stamp(batch, Offset(first), 0)
    return bytes(batch)


def measure(shards: int, count: int) -> dict[str, float]:
    """Lead all at once; how long it takes, longest time and most work without a beat."""
    took, longest, most = asyncio.run(_measure(shards, count))
    return {
        "s": took,
        "loop late, most: ms": longest * 1000,
        "its own work, most: ms": most * 1000,
    }


async def _measure(shards: int, count: int) -> tuple[float, float, float]:
    loop = asyncio.get_running_loop()
    config, _ = load(flags={"log.dirs": "/unused"})
    disk: Any = SimpleNamespace(run=None)  # all is in the page cache
    groups = GroupCoordinators(
        world=World(RealClock(loop), RealRandom(), disk),
        config=lambda: config,
        image=lambda: MetadataImage("bench"),
        group_setting=lambda group_id, key: 0,
    )
    partitions: list[Any] = [LedPartition(WarmLog(shard, count)) for shard in range(shards)]
    longest = most = 0.0
    last, worked = perf_counter(), thread_time()

    def beat() -> None:
        nonlocal longest, most, last, worked
        now, work = perf_counter(), thread_time()
        longest, most = max(longest, now - last - _BEAT_SECONDS), max(most, work - worked)
        last, worked = now, work
        loop.call_later(_BEAT_SECONDS, beat)

    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    beat()
    await asyncio.sleep(0.05)
    longest = most = 0.0
    began = perf_counter()
    for index, partition in enumerate(partitions):
        groups.led.lead(index, partition, 0)
    loaded = loop.create_future()
    groups.when_loaded(lambda: loaded.set_result(None))
    await loaded
    await asyncio.sleep(0.01)
    took = perf_counter() - began
    groups.close()
    return took, longest, most


def main() -> None:
    """Print one line a figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shards", type=int, default=17)
    parser.add_argument("--records", type=int, default=50_000)
    options = parser.parse_args()
    for name, value in measure(options.shards, options.records).items():
        print(f"{name}: {value:.1f}")


if __name__ == "__main__":
    main()

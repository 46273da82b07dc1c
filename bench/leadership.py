"""Leaders that change, a third of 3,333 partitions to us and a third from us: what it costs.

    python -m bench.leadership [partitions]

The orders of a controller, as a broker's applier carries them out after another broker has gone or
come back, several times over: CPU time of the loop's thread, and of its longest turn meanwhile.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Callable
from functools import partial

from headrace.broker.metadata_image import ImageDelta, PartitionInfo, TopicInfo
from headrace.cluster.decisions.orders import Follow, Lead, Orders, Replication
from headrace.cluster.membership.applier import Applier
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.server.assembly import Server
from headrace.server.main import GC_THRESHOLDS
from headrace.testing.broker import BrokerThread

TOPIC, TOPIC_ID = "led", bytes(range(16))
BROKERS = (BrokerId(0), BrokerId(1), BrokerId(2))
CONTROLLER_EPOCH = 5
CHANGES = 5
Figures = dict[str, float]


def _orders(
    applier: Applier, count: int, epoch: int, leader_of: Callable[[int], BrokerId], *, new: bool
) -> Orders:
    """Leaders of all partitions under a new epoch; `new`: nobody has led them before."""
    orders: list[Lead | Follow] = []
    shown = []
    for number in range(count):
        leader = leader_of(number)
        replication = Replication(
            TopicPartition(TOPIC, number), TOPIC_ID, leader, LeaderEpoch(epoch), BROKERS, BROKERS,
            epoch, new,
        )  # fmt: skip
        orders.append(Lead(replication) if leader == BROKERS[0] else Follow(replication))
        shown.append(PartitionInfo(number, leader, LeaderEpoch(epoch), BROKERS, BROKERS))
    topics = [TopicInfo(TOPIC, TOPIC_ID, tuple(shown))] if new else []
    partitions = {} if new else {TOPIC: shown}
    delta = ImageDelta(topics, partitions=partitions)
    return Orders(CONTROLLER_EPOCH, applier.broker_epoch, orders, delta)


def _in_rotation(change: int, number: int) -> BrokerId:
    return BROKERS[(number + change) % len(BROKERS)]


async def _longest_turn() -> float:
    """Beat once a turn of the loop until cancelled: CPU seconds of the longest one."""
    longest, last = 0.0, time.thread_time()
    try:
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, last = max(longest, now - last), now
    except asyncio.CancelledError:
        return longest


async def _change(server: Server, count: int) -> Figures:
    applier = server.controller.applier
    await applier.take(_orders(applier, count, 1, lambda _: BROKERS[0], new=True))
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)  # as a broker does that has started
    spent = longest = 0.0
    for change in range(CHANGES):
        orders = _orders(applier, count, 2 + change, partial(_in_rotation, change), new=False)
        beat = asyncio.create_task(_longest_turn())
        await asyncio.sleep(0)
        began = time.thread_time()
        failed = await applier.take(orders)
        spent = max(spent, time.thread_time() - began)
        beat.cancel()
        longest = max(longest, await beat)
        if failed:
            raise RuntimeError(f"{len(failed)} changes were not carried out: {failed}")
    return {"CPU s": spent, "its own work in a turn, most: ms": longest * 1000}


def measure(count: int) -> Figures:
    """Change the leaders of `count` partitions several times; the dearest one."""
    with BrokerThread({"partitions.max": str(count + 1000)}) as broker:
        return broker.run(lambda server: _change(server, count))


def main() -> None:
    for name, value in measure(int(sys.argv[1]) if sys.argv[1:] else 3333).items():
        print(f"{name}: {value:.3f}")


if __name__ == "__main__":
    main()

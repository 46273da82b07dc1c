"""Many logs cut short at once: how long it takes, and how long the loop stands still for it.

    python -m bench.truncations [logs] [directory]

Each log has some batches of several producers, flushed, behind them a tail that its leader does not
have. Then all of them are cut, as a broker does that comes back as a follower; beside it a timer is
due each millisecond, and tells how late it was.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from headrace.config.log_config import LogConfig
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.log import Log
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition
from headrace.posix.clock import RealClock, RealRandom
from headrace.posix.disk import RealDisk
from headrace.posix.threads import Workers
from headrace.record.batch import build, new_record, parse_header

BATCHES = 40
RECORD_BYTES = 500
TAIL = 5
TICK_SECONDS = 0.001
Figures = dict[str, float]


def _fill(log: Log, first: int, count: int, epoch: int) -> None:
    for number in range(first, first + count):
        record = new_record(b"v" * RECORD_BYTES, timestamp=1_780_000_000_000 + number)
        batch = memoryview(
            bytearray(
                build([record], producer_id=number % 3, producer_epoch=0, base_sequence=number // 3)
            )
        )
        log.append(batch, parse_header(batch), LeaderEpoch(epoch), record.timestamp)


async def _flushed(directory: LogDirectory, logs: list[Log]) -> None:
    for log in logs:
        directory.flusher.flush_soon(log)
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def look() -> None:
        if directory.flusher.idle:
            done.set_result(None)
        else:
            loop.call_later(0.01, look)

    look()
    await done


async def _measure(path: str, count: int) -> Figures:
    loop = asyncio.get_running_loop()
    workers = Workers(loop)
    directory = LogDirectory.open(
        RealDisk(workers), RealClock(loop), RealRandom(), path, broker_id=0, cluster_id="bench"
    )
    logs = [
        directory.create_log(TopicPartition("cut", number), bytes(range(16)), LogConfig())
        for number in range(count)
    ]
    for log in logs:
        _fill(log, 0, BATCHES, 0)
    await _flushed(directory, logs)
    for log in logs:
        _fill(log, BATCHES, TAIL, 1)
    await _flushed(directory, logs)
    late: list[float] = []

    async def tick() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(TICK_SECONDS)
            late.append(time.perf_counter() - began - TICK_SECONDS)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0.2)
    late.clear()
    done: asyncio.Future[BaseException | None] = loop.create_future()
    began = time.perf_counter()
    directory.truncate_logs([(log, Offset(BATCHES)) for log in logs], done.set_result)
    failure = await done
    seconds = time.perf_counter() - began
    ticking.cancel()
    if failure is not None:
        raise failure
    if any(log.end_offset != BATCHES for log in logs):
        raise RuntimeError("a log was not cut")
    directory.close(clean=False)
    workers.stop()
    late.sort()
    return {
        "s": seconds,
        "loop late, most: ms": late[-1] * 1000,
        "loop late, p99: ms": late[int(len(late) * 0.99)] * 1000,
    }


def measure(place: Path, count: int) -> Figures:
    """Cut `count` logs in a new directory below `place`."""
    return asyncio.run(_measure(tempfile.mkdtemp(dir=place), count))


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as place:
        for name, value in measure(Path(place), count).items():
            print(f"{name}: {value:.2f}")


if __name__ == "__main__":
    main()

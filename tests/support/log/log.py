"""A log directory on a simulated disk, and what the log's tests do with it again and again."""

from collections.abc import Callable

from headrace.config.log_config import LogConfig
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.directory.periods import Periods
from headrace.log.directory.unchanged_logs import FILE_NAME
from headrace.log.flusher import Strategy, fdatasync_each
from headrace.log.log import Appended, Log, NeedsDisk, Origin, ReadResult
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition
from headrace.record import batch as wire
from headrace.testing.clock import SimClock, SimRandom
from headrace.testing.disk import SimDisk

NOW_MS = 1_780_000_000_000
PLACE = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))
CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=200, segment_index_bytes=1024)


class FlushListener:
    """Tells a test of a log's flushes."""

    def __init__(self, told: Callable[[Offset], object]) -> None:
        self._told = told

    def log_flushed(self, upto: Offset) -> None:
        self._told(upto)

    def log_readable(self) -> None:
        """Nobody waits here."""


class Held:
    """Wants of a log what is in some runs of offsets, both ends inclusive; to be changed."""

    def __init__(self, *runs: tuple[int, int]) -> None:
        self.runs = list(runs)

    def first(self) -> Offset | None:
        return min((Offset(first) for first, _ in self.runs), default=None)

    def wants(self, first: Offset, below: Offset) -> bool:
        return any(begin < below and first <= end for begin, end in self.runs)


def held_from(offset: int) -> Held:
    """Wants all from an offset on."""
    return Held((offset, 1 << 62))


class World:
    """One broker's storage: a disk, a clock, a log directory. `restart` is a new process."""

    def __init__(
        self,
        disk: SimDisk | None = None,
        *,
        config: LogConfig = CONFIG,
        strategy: Strategy = fdatasync_each,
        periods: Periods | None = None,
        path: str = "/data",
        broker_id: int = 0,
        cluster_id: str = "c",
        at_rest: bool = False,
    ) -> None:
        """`at_rest`: logs that did not change are believed; else each start looks into all."""
        self.path = path
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.clock = SimClock(NOW_MS)
        self.disk = disk or SimDisk(self.clock.wall_ms)
        self.config = config
        self.strategy = strategy
        self.periods = periods or Periods()
        self.at_rest = at_rest
        self.directory = self._open()

    def _open(self) -> LogDirectory:
        rows = f"{self.path}/{FILE_NAME}"
        if not self.at_rest and self.disk.exists(rows):
            self.disk.remove(rows)
        directory = LogDirectory.open(
            self.disk,
            self.clock,
            SimRandom(),
            self.path,
            broker_id=self.broker_id,
            cluster_id=self.cluster_id,
            strategy=self.strategy,
            periods=self.periods,
        )
        directory.load_blocking(lambda _: self.config)
        return directory

    def log(self, place: TopicPartition = PLACE) -> Log:
        """The partition's log, made where it is missing."""
        found = self.directory.logs.get(place)
        if found is None:
            found = self.directory.create_log(place, TOPIC_ID, self.config)
        return found

    def settle(self) -> None:
        """Let everything that is due now happen: turns, flushes, jobs."""
        while self.clock.turn() or self.disk.settle():
            pass

    def flush(self, log: Log) -> None:
        """Flush a log and wait for it; the high watermark follows, as a lone partition's does."""
        self.directory.flusher.flush_soon(log)
        self.settle()
        log.high_watermark = log.flushed_offset

    def restart(self, *, clean: bool) -> None:
        """End this process and start another on the same disk."""
        self.directory.close(clean)
        self.start()

    def start(self) -> None:
        """Start the next process, the one before having ended."""
        self.directory = self._open()

    def after_power_cut(self, left: SimDisk) -> "World":
        """The same broker, started on what a power cut left of its disk."""
        return World(
            left,
            config=self.config,
            periods=self.periods,
            path=self.path,
            broker_id=self.broker_id,
            cluster_id=self.cluster_id,
        )

    def close(self) -> None:
        self.directory.close(clean=False)


def batch_of(
    *values: bytes,
    timestamp: int = NOW_MS,
    producer: tuple[int, int, int] | None = None,
    transactional: bool = False,
    codec: wire.Codec = wire.Codec.NONE,
) -> bytearray:
    """A batch as a client sends it; `producer`: id, epoch, first sequence."""
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    records = [wire.new_record(value, timestamp=timestamp) for value in values]
    return bytearray(
        wire.build(
            records,
            compression=codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
    )


def append(
    log: Log,
    *values: bytes,
    epoch: int = 0,
    timestamp: int = NOW_MS,
    now_ms: int = NOW_MS,
    producer: tuple[int, int, int] | None = None,
    transactional: bool = False,
    codec: wire.Codec = wire.Codec.NONE,
) -> Appended:
    """Append one batch of these values."""
    view = memoryview(
        batch_of(
            *values,
            timestamp=timestamp,
            producer=producer,
            transactional=transactional,
            codec=codec,
        )
    )
    return log.append(view, wire.check_produced(view), LeaderEpoch(epoch), now_ms)


def append_marker(
    log: Log, producer_id: int, *, commit: bool, epoch: int = 0, leader_epoch: int = 0
) -> Appended:
    """End the producer's transaction."""
    kind = wire.ControlType.COMMIT if commit else wire.ControlType.ABORT
    view = memoryview(
        bytearray(
            wire.build_marker(
                kind, 0, producer_id=producer_id, producer_epoch=epoch, timestamp=NOW_MS
            )
        )
    )
    header = wire.parse_header(view)
    return log.append(view, header, LeaderEpoch(leader_epoch), NOW_MS, Origin.COORDINATOR)


def read(log: Log, at: Offset, max_bytes: int, *, below: Offset) -> ReadResult:
    """What a reader gets from `at` on, by a thread where the broker's own must not wait."""
    found = log.read(at, max_bytes, below=below)
    if isinstance(found, NeedsDisk):
        return log.read_from_disk(at, max_bytes, below=below)
    return found


def values(log: Log, start: int | None = None, below: int | None = None) -> dict[int, bytes | None]:
    """Offset to value of every record, as a reader from `start` on gets them."""
    at = Offset(log.start_offset if start is None else start)
    end = Offset(log.end_offset if below is None else below)
    found: dict[int, bytes | None] = {}
    while at < end:
        result = read(log, at, 300, below=end)
        assert result.next_offset > at or not result.data
        if not result.data:
            break
        for record in records_of(bytes(result.data)):
            if record.offset >= at:
                found[record.offset] = record.value
        at = result.next_offset
    return found


def records_of(data: bytes) -> list[wire.Record]:
    """The records of whole batches, control batches left out."""
    found: list[wire.Record] = []
    for position, header in wire.iterate(data):
        if not header.attributes & wire.CONTROL:
            found += wire.records(data[position : position + wire.size_of(header)])
    return found


def truncate_to(log: Log, offset: Offset, *, unclean: bool = True) -> None:
    """Cut a log's tail off and wait for it; raises what it could not be done for."""
    directory = log.context.events
    assert isinstance(directory, LogDirectory)
    results: list[BaseException | None] = []
    directory.truncate_logs([(log, offset)], results.append, unclean=unclean)
    finish(directory, results)


def reset_to(log: Log, start: Offset) -> None:
    """Have a log begin anew at `start`, and wait for it."""
    directory = log.context.events
    assert isinstance(directory, LogDirectory)
    results: list[BaseException | None] = []
    directory.reset_logs([(log, start)], results.append)
    finish(directory, results)


def finish(directory: LogDirectory, results: list[BaseException | None]) -> None:
    """Let everything happen that is due; raises the result if it is an error."""
    disk, clock = directory.disk, directory.clock
    assert isinstance(clock, SimClock)
    while clock.turn() or disk.settle():  # type: ignore[attr-defined]
        pass
    (result,) = results
    if result is not None:
        raise result


def content(disk: SimDisk, path: str) -> bytes:
    """All bytes of a file."""
    file = disk.open(path, writable=False)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def overwrite(disk: SimDisk, path: str, data: bytes) -> None:
    """Have a file hold `data` and nothing else, made where it is missing."""
    disk.make_directory(path.rpartition("/")[0])
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write_at(0, (data,))
    file.close()


def bases(world: World) -> list[int]:
    return [segment.base_offset for segment in world.log().segments]

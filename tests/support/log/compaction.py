"""Logs to compact on a simulated disk, and what a compacted log must still hold."""

from collections.abc import Callable

from headrace.config.keys.log import LogKeys
from headrace.config.log_config import LogConfig
from headrace.config.value_types import Value
from headrace.log.compaction.clean_segments import compact
from headrace.log.compaction.cleaner import LogCleaner
from headrace.log.compaction.cleaner_settings import CleanerSettings
from headrace.log.compaction.job import Counts, Done, Event, Job
from headrace.log.compaction.records import PlainRecords, Records
from headrace.log.compaction.worker import InlineWorker
from headrace.log.log import Appended, Log, Origin
from headrace.model.nouns import LeaderEpoch, Offset
from headrace.record import batch as wire
from headrace.testing.disk import SimDisk
from tests.support.log.log import NOW_MS, World, read

Row = tuple[int, bytes | None, bytes | None]
"""Offset, key, value."""

COMPACTED = LogConfig(
    segment_bytes=900,
    index_interval_bytes=150,
    segment_index_bytes=4096,
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
    file_delete_delay_ms=500,
)


def put(
    log: Log,
    *pairs: tuple[bytes | None, bytes | None],
    timestamp: int = NOW_MS,
    codec: wire.Codec = wire.Codec.NONE,
    producer: tuple[int, int, int] | None = None,
    transactional: bool = False,
) -> Appended:
    """Append one batch of (key, value); `producer`: id, epoch, first sequence."""
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    made = wire.build(
        [wire.new_record(value, key, timestamp + at) for at, (key, value) in enumerate(pairs)],
        compression=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    view = memoryview(bytearray(made))
    return log.append(view, wire.parse_header(view), LeaderEpoch(0), NOW_MS, Origin.COORDINATOR)


def batches_of(log: Log, start: int | None = None) -> list[tuple[wire.BatchHeader, bytes]]:
    """Every batch of the log, as a reader gets them."""
    found = []
    at = Offset(log.start_offset if start is None else start)
    while at < log.end_offset:
        result = read(log, at, 1 << 20, below=log.end_offset)
        if not result.data:
            break
        data = bytes(result.data)
        for position, header in wire.iterate(data):
            whole = data[position : position + wire.size_of(header)]
            assert wire.crc_ok(whole, header)
            found.append((header, whole))
        at = result.next_offset
    return found


def rows(log: Log, *, committed: bool = False) -> list[Row]:
    """Every data record; of committed transactions only if `committed`."""
    aborted = log.aborted_transactions(log.start_offset, log.end_offset) if committed else []
    found: list[Row] = []
    for header, data in batches_of(log):
        if header.attributes & wire.CONTROL:
            continue
        if header.attributes & wire.TRANSACTIONAL and any(
            one.producer_id == header.producer_id
            and one.first_offset <= header.base_offset <= one.last_offset
            for one in aborted
        ):
            continue
        found += [(one.offset, one.key, one.value) for one in wire.records(data)]
    return found


def newest(found: list[Row]) -> dict[bytes, tuple[int, bytes | None]]:
    """Of each key the last offset and value."""
    return {key: (offset, value) for offset, key, value in found if key is not None}


def cleaner_of(world: World, **settings: Value) -> LogCleaner:
    """A cleaner that works in steps of the simulated disk, started."""
    made = LogCleaner(
        [world.directory],
        clock=world.clock,
        disk=world.disk,
        worker=InlineWorker(world.disk),
        settings=lambda: CleanerSettings(LogKeys(log_cleaner_backoff_ms=1000, **settings)),
    )
    made.start()
    world.settle()
    return made


def superseded(world: World) -> Log:
    """A flushed log in which one key goes on and others end: compaction empties what is between."""
    log = world.log()
    for number in range(12):
        put(log, (b"same", b"%02d" % number * 100), (b"k%d" % (number // 4), b"%d" % number))
    world.flush(log)
    world.directory.checkpoint()
    world.settle()
    return log


def with_gaps(*, at_rest: bool = False, later: int = 12) -> World:
    """A compacted log with gaps in and between its segments, and `later` batches behind them."""
    world = World(config=COMPACTED, at_rest=at_rest)
    log = superseded(world)
    compact_now(world, cleaner_of(world))
    for number in range(later):
        put(log, (b"later %d" % number, b"v" * 200))
    world.flush(log)
    return world


def compact_now(world: World, cleaner: LogCleaner) -> None:
    """Let the cleaner look until nothing is left to do, and late removals happen."""
    world.clock.advance(1.0)
    world.settle()
    world.clock.advance(1.0)
    world.settle()


def job_of(log: Log, **changes: object) -> Job:
    """A job for everything below the active segment."""
    upper = log.segments[-1].base_offset
    values: dict[str, object] = {
        "directory": log.directory,
        "partition": str(log.topic_partition),
        "segments": tuple((int(one.base_offset), one.size) for one in log.segments[:-1]),
        "first_dirty": int(log.start_offset),
        "upper": int(upper),
        "aborted": tuple(tuple(one) for one in log.aborted_transactions(Offset(0), upper)),
        "producers": tuple(
            (one.producer_id, one.last_offset, one.producer_epoch)
            for one in log.producers.kept.entries()
        ),
        "now_ms": NOW_MS,
        "delete_retention_ms": 1000,
        "segment_bytes": log.config.segment_bytes,
        "segment_index_bytes": log.config.segment_index_bytes,
        "index_interval_bytes": log.config.index_interval_bytes,
        "map_bytes": 1 << 20,
        "load_factor": 0.9,
        "io_buffer_bytes": 4096,
        "io_bytes_per_second": float("inf"),
        "inflated_bytes_max": 1 << 24,
    }
    return Job(**{**values, **changes})  # type: ignore[arg-type]


def run_job(
    job: Job, disk: SimDisk, engine: Records | None = None
) -> tuple[list[Event], Counts | None]:
    """All events of a job, and its counts where it came to its end."""
    steps = compact(job, disk, engine or PlainRecords(1000))
    events = [one for one in steps if not isinstance(one, int)]
    last = events[-1]
    return events, last.counts if isinstance(last, Done) else None


Act = Callable[[], object]

"""Stories that end with the power: what was told when, and what a disk left by a cut must hold.

A `Story` does things to partitions of a World and notes, by number of disk operations, from when on
a batch may be there, must be there or must be gone. `problems` recovers a disk that a cut left and
says what contradicts the notes: G1 (what was flushed is there), G3 (byte for byte), G5 (producers),
G12 (a prefix of what was written, in one piece), and that indexes, epochs, aborted transactions and
searches agree with the batches. `enumerate_cuts` cuts at every operation and counts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from headrace.config.log_config import LogConfig
from headrace.log.directory.state_files.durable_read_bounds import read_bound
from headrace.log.log import Log, Origin
from headrace.log.text_files import NO_TOPIC_ID
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition
from headrace.record import batch as wire
from headrace.testing.disk import SimDisk
from headrace.testing.disk_crash import crash_states
from tests.support.log.crash_check import recovered_problems
from tests.support.log.log import NOW_MS, PLACE, TOPIC_ID, FlushListener, World, batch_of

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=150, segment_index_bytes=256)
NEVER = 1 << 60


@dataclass(eq=False)
class Told:
    """One batch of a history."""

    base: int
    last: int
    data: bytes
    """As it lies in the file, stamped."""
    since: int
    """The operation before which it cannot be there."""
    until: int = NEVER
    """The operation from which on it must be gone: it was truncated away."""


@dataclass(eq=False)
class History:
    """What was done to one partition, from its creation to its deletion."""

    place: TopicPartition
    topic_id: bytes
    config: LogConfig
    batches: list[Told] = field(default_factory=list)
    flushed: list[tuple[int, int]] = field(default_factory=list)
    """(operations done, everything below was told to be durable); may go down by a truncation."""
    marks: list[tuple[int, int]] = field(default_factory=list)
    """(operations done, no high watermark above this can have been saved)."""
    starts: list[tuple[int, int]] = field(default_factory=list)
    """(operations, the log may start here from now on)."""
    surely_starts: list[tuple[int, int]] = field(default_factory=list)
    """(operations, the log must not start before this any more)."""
    deleting: int = NEVER
    """The operation from which on the partition may be gone."""
    deleted: int = NEVER
    """The operation from which on it must be gone."""
    compacted: bool = False
    """Batches may be missing, or hold less: `values` decides, not bytes."""

    def promised(self, cut: int) -> int | None:
        """The offset below which everything must be there; None: perhaps not even the partition."""
        return next((upto for ops, upto in reversed(self.flushed) if ops <= cut), None)

    def tell(self, ops: int, upto: int) -> None:
        """Everything below `upto` is durable."""
        self.flushed.append((ops, upto))
        self.marks.append((ops, upto))

    def mark_by(self, cut: int) -> int:
        return next((upto for ops, upto in reversed(self.marks) if ops <= cut), 0)

    def start_by(self, cut: int) -> int:
        return max((start for ops, start in self.starts if ops <= cut), default=0)

    def start_from(self, cut: int) -> int:
        return max((start for ops, start in self.surely_starts if ops <= cut), default=0)

    def possible(self, cut: int) -> dict[int, list[Told]]:
        """Batches that may be there, by base offset."""
        found: dict[int, list[Told]] = {}
        for told in self.batches:
            if told.since <= cut < told.until:
                found.setdefault(told.base, []).append(told)
        return found


class Story:
    """A world whose disk remembers, and the histories of its partitions."""

    def __init__(self, world: World | None = None, config: LogConfig = SMALL) -> None:
        self.world = world or World(config=config)
        self.config = self.world.config
        self.histories: list[History] = []
        self.begun = self.ops
        """Operations that belong to the start, not to the story."""

    @property
    def ops(self) -> int:
        """Operations done so far."""
        return len(self.world.disk.ops)

    def history(self, place: TopicPartition = PLACE) -> History:
        """The newest one of that partition."""
        return next(one for one in reversed(self.histories) if one.place == place)

    # --- what a story does ---------------------------------------------------------------------

    def create(self, place: TopicPartition = PLACE, topic_id: bytes = TOPIC_ID) -> Log:
        """Make a partition; it is promised with its first flush."""
        history = History(place, topic_id, self.config)
        self.histories.append(history)
        self.world.directory.create_log(place, topic_id, self.config)
        return self.log(place)

    def log(self, place: TopicPartition = PLACE) -> Log:
        """The partition's log, its flushes noted."""
        log = self.world.directory.logs[place]
        history = self.history(place)

        def flushed(upto: Offset) -> None:
            history.tell(self.ops, upto)
            log.high_watermark = upto

        log.listeners = (FlushListener(flushed),)
        return log

    def append(
        self,
        log: Log,
        *values: bytes,
        epoch: int = 0,
        timestamp: int = NOW_MS,
        producer: tuple[int, int, int] | None = None,
        transactional: bool = False,
    ) -> Told:
        """Append one batch and note it."""
        view = memoryview(
            batch_of(*values, timestamp=timestamp, producer=producer, transactional=transactional)
        )
        header = wire.check_produced(view)
        return self._noted(log, view, header, epoch, Origin.CLIENT)

    def end_transaction(self, log: Log, producer: int, *, commit: bool, epoch: int = 0) -> Told:
        """Append the marker of a producer's transaction."""
        kind = wire.ControlType.COMMIT if commit else wire.ControlType.ABORT
        marker = wire.build_marker(
            kind, 0, producer_id=producer, producer_epoch=0, timestamp=NOW_MS
        )
        view = memoryview(bytearray(marker))
        return self._noted(log, view, wire.parse_header(view), epoch, Origin.COORDINATOR)

    def _noted(
        self, log: Log, view: memoryview, header: wire.BatchHeader, epoch: int, origin: Origin
    ) -> Told:
        since = self.ops
        done = log.append(view, header, LeaderEpoch(epoch), NOW_MS, origin)
        told = Told(done.base_offset, done.last_offset, bytes(view), since)
        self.history(log.topic_partition).batches.append(told)
        return told

    def flush(self, log: Log) -> None:
        """Flush and wait; what is told then is a promise."""
        self.world.flush(log)

    def move_start(self, log: Log, move: Callable[[], object]) -> None:
        """From the first operation of `move` on the log may start where it then does."""
        before = self.ops
        try:
            move()
        finally:
            self.history(log.topic_partition).starts.append((before, log.start_offset))

    def delete_records(self, log: Log, before: int) -> None:
        """Move the start and wait for the checkpoint: then it is a promise."""
        self.move_start(log, lambda: log.delete_records(Offset(before)))
        self.world.settle()
        if not self.world.directory.fenced:
            self.history(log.topic_partition).surely_starts.append((self.ops, log.start_offset))

    def checkpoint(self) -> None:
        """Write the checkpoints."""
        self.world.directory.checkpoint()
        self.world.settle()

    def truncate(self, *cuts: tuple[Log, int]) -> None:
        """A follower's truncation: what goes may be there until this returns, and not after."""
        wanted = [(log, Offset(offset)) for log, offset in cuts]
        self._cut(dict(cuts), {}, lambda done: self.world.directory.truncate_logs(
            wanted, done, unclean=True
        ))  # fmt: skip

    def reset(self, log: Log, start: int) -> None:
        """A follower begins anew where its leader does: nothing that was there is promised."""
        self._cut({log: 0}, {log: start}, lambda done: self.world.directory.reset_logs(
            [(log, Offset(start))], done
        ))  # fmt: skip

    def _cut(
        self,
        offsets: dict[Log, int],
        starts: dict[Log, int],
        act: Callable[[Callable[[BaseException | None], None]], None],
    ) -> None:
        histories = {log: self.history(log.topic_partition) for log in offsets}
        results: list[BaseException | None] = []
        story = self

        class Listener:
            """Told when a flush that ran before has ended, and nothing is cut yet."""

            def about_to_cut(self, log: Log, end: Offset | None) -> None:
                history = histories.get(log)
                if history is None or results:
                    return
                if log in starts:
                    history.starts.append((story.ops, starts[log]))
                promised = history.promised(story.ops)
                if promised is not None:
                    there = (told for told in history.batches if told.until == NEVER)
                    below = (told.last + 1 for told in there if told.last < offsets[log])
                    history.flushed.append((story.ops, min(promised, max(below, default=0))))

        self.world.directory.listen(Listener())
        act(results.append)
        self.world.settle()
        for result in results:
            if result is not None:
                raise result
        for log, history in histories.items():
            history.marks.append((self.ops, log.high_watermark))
            for told in history.batches:
                if told.last >= offsets[log] and told.until == NEVER:
                    told.until = self.ops

    def delete(self, place: TopicPartition = PLACE) -> None:
        """Delete the partition and wait until that is durable, its files not removed yet."""
        history = self.history(place)
        history.deleting = self.ops
        self.world.directory.delete_log(place)
        self.world.settle()
        if not self.world.directory.fenced:
            history.deleted = self.ops

    def restart(self, *, clean: bool) -> None:
        """A new process; a clean stop promises all that was written."""
        ends = {place: log.end_offset for place, log in self.world.directory.logs.items()}
        self.world.directory.close(clean)
        if clean and not self.world.directory.fenced:
            for place, end in ends.items():
                self.history(place).tell(self.ops, end)
        self.world.restart(clean=False)
        for place in self.world.directory.logs:
            self.log(place)


def problems(story: Story, cut: int, left: SimDisk) -> Iterator[str]:
    """What is wrong with the disk that a cut left: first all is recovered, then life goes on."""
    try:
        told_readers = [
            (one, read_bound(left, story.world.path, one.place, one.topic_id).end)
            for one in story.histories
        ]
    except CorruptLogError as error:
        yield f"readers of the files are told nothing: {error}"
        return
    try:
        world = story.world.after_power_cut(left)
    except Exception as error:  # noqa: BLE001 - whatever keeps it from starting is a finding
        yield f"does not start: {error!r}"
        return
    for place, damage in world.directory.quarantined.items():
        yield f"{place} was put out of service: {damage}"
    for place in {one.place for one in story.histories}:
        mine = [one for one in story.histories if one.place == place]
        log = world.directory.logs.get(place)
        if place not in world.directory.quarantined:
            yield from _place_problems(mine, cut, log)
    for history, end in told_readers:
        log = world.directory.logs.get(history.place)
        if log is None or end is None or log.topic_id != history.topic_id:
            continue
        if end > min(history.mark_by(cut), log.end_offset):
            yield f"readers are let up to {end} of {log}, promised {history.mark_by(cut)}"
    yield from _goes_on(world)
    world.close()


def _place_problems(mine: list[History], cut: int, log: Log | None) -> Iterator[str]:
    """One partition: which of its histories is it, and does it hold what that one says?"""
    known = NO_TOPIC_ID if log is None else log.topic_id
    for history in mine:
        promised = history.promised(cut)
        if known != history.topic_id and promised is not None and cut < history.deleting:
            yield f"{history.place} with its id is gone, {promised} offsets were flushed"
    if log is None:
        return
    # Without an id it was torn before its first flush: any history may explain it.
    candidates = [one for one in mine if known in (one.topic_id, NO_TOPIC_ID)]
    explained = [list(recovered_problems(one, cut, log)) for one in candidates]
    yield from min(explained, key=len, default=[f"{log} is of no topic there was"])
    if any(known == one.topic_id and cut >= one.deleted for one in mine):
        yield f"{log} is back, although it was deleted"


def _goes_on(world: World) -> Iterator[str]:
    for place, log in sorted(world.directory.logs.items()):
        end = log.end_offset
        view = memoryview(batch_of(b"goes on"))
        epoch = LeaderEpoch(max(log.epochs.latest, 0))
        log.append(view, wire.check_produced(view), epoch, NOW_MS)
        world.flush(log)
        if log.flushed_offset != end + 1:
            yield f"{place} does not go on"


class Count(NamedTuple):
    """How much an enumeration looked at."""

    cuts: int = 0
    states: int = 0
    """Disks made."""
    distinct: int = 0
    """Of them different ones, each recovered and compared."""

    def __add__(self, other: object) -> "Count":
        if not isinstance(other, Count):
            return NotImplemented
        return Count(*(a + b for a, b in zip(self, other, strict=True)))


COUNTS: dict[str, Count] = {}
"""What each enumeration counted, for the summary at the end of a run."""


def enumerate_cuts(
    story: Story, *, seed: int = 1, samples: int = 3, step: int = 1, since: int = 0
) -> tuple[Count, list[str]]:
    """Cut before every operation (or every `step`th); what was found, each with its cut."""
    cuts = states = 0
    seen: set[tuple[bytes, tuple[object, ...]]] = set()
    found: list[str] = []
    for cut in range(since, story.ops + 1, step):
        cuts += 1
        for left in crash_states(story.world.disk, cut, seed=seed, samples=samples):
            states += 1
            key = (fingerprint(left), promises(story, cut))
            if key not in seen:
                seen.add(key)
                found += [f"cut before {cut}: {one}" for one in problems(story, cut, left)]
    return Count(cuts, states, len(seen)), found


def promises(story: Story, cut: int) -> tuple[object, ...]:
    """All that `problems` asks of a cut: where it is equal, equal disks are judged once."""
    return tuple(
        (
            one.promised(cut),
            one.mark_by(cut),
            one.start_by(cut),
            one.start_from(cut),
            cut >= one.deleting,
            cut >= one.deleted,
            tuple(told.since <= cut < told.until for told in one.batches),
        )
        for one in story.histories
    )


def fingerprint(disk: SimDisk) -> bytes:
    """Equal for disks with the same names and contents."""
    total = blake2b(digest_size=16)

    def walk(number: int, path: str) -> None:
        node = disk.nodes[number]
        total.update(f"{path}\0{len(node.content)}\0".encode())
        total.update(node.content)
        for name, child in sorted((node.entries or {}).items()):
            walk(child, f"{path}/{name}")

    walk(0, "")
    return total.digest()


def assert_nothing_found(name: str, story: Story, **how: int) -> Count:
    """Enumerate, count under `name`, and fail with the first findings."""
    count, found = enumerate_cuts(story, **how)
    COUNTS[name] = COUNTS.get(name, Count()) + count
    assert not found, f"{len(found)} findings: {found[:6]}"
    assert count.distinct > 1
    return count

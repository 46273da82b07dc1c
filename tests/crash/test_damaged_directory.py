"""Every file of a log directory with a bit flipped, missing, or under another name.

Whatever a start makes of it: what is served is what was written, offset by offset, and where
anything of that is not served, the broker has said so.
"""

import os
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import NamedTuple

import pytest

from headrace.config.log_config import LogConfig
from headrace.log import file_names
from headrace.log.log import Log
from headrace.model.errors import ApiError, ConfigError, CorruptLogError
from headrace.model.nouns import Offset, TopicPartition
from headrace.record import batch as wire
from headrace.testing.disk import SimDisk
from tests.support.log.compaction import COMPACTED, cleaner_of, compact_now, put
from tests.support.log.log import (
    CONFIG,
    NOW_MS,
    PLACE,
    TOPIC_ID,
    World,
    append,
    append_marker,
    content,
    read,
)

LONG = bool(os.environ.get("HEADRACE_LONG"))
FLIPS_PER_FILE = 60 if LONG else 3
THIN = TopicPartition("compacted", 0)
TRIMMED = TopicPartition("trimmed", 2)
PLACES = (PLACE, THIN, TRIMMED)
STOPS = ["stopped", "killed"]

Batches = list[tuple[int, int, bytes]]
"""First and last offset, bytes."""


class Left(NamedTuple):
    """A directory that a broker left, and what it served."""

    disk: SimDisk
    served: dict[TopicPartition, Batches]


def config_of(place: TopicPartition) -> LogConfig:
    return COMPACTED if place == THIN else CONFIG


class SeveralTopics(World):
    """With each topic's own settings."""

    def log(self, place: TopicPartition = PLACE) -> Log:
        self.config = config_of(place)
        return super().log(place)


def stored(log: Log) -> Batches:
    """All sound batches, those behind a damaged one included: a consumer can be moved on."""
    found: Batches = []
    at = log.start_offset
    while at < log.end_offset:
        try:
            result = read(log, at, 1, below=log.end_offset)
        except ApiError:
            at = Offset(at + 1)
            continue
        data = bytes(result.data)
        if not data:
            break
        header = wire.parse_header(data)
        assert wire.crc_ok(data, header)
        last = header.base_offset + header.last_offset_delta
        if not found or found[-1][0] != header.base_offset:
            found.append((header.base_offset, last, data))
        at = Offset(max(result.next_offset, at + 1))
    return found


def left(how: str) -> Left:
    """Logs with segments, transactions, epochs, deleted records and compaction behind them."""
    world = SeveralTopics(at_rest=True)
    log = world.log()
    for number in range(12):
        producer = (7, 0, number)
        append(log, b"%02d" % number * 100, epoch=number // 5, producer=producer,
               timestamp=NOW_MS + number)  # fmt: skip
    append(log, b"undone", producer=(8, 0, 0), transactional=True, epoch=2)
    append_marker(log, 8, commit=False, leader_epoch=2)
    append(log, b"last", epoch=2)
    world.flush(log)
    trimmed = world.log(TRIMMED)
    for number in range(8):
        append(trimmed, b"%02d" % number * 100, epoch=number // 3)
    world.flush(trimmed)
    trimmed.delete_records(Offset(5))
    thin = world.log(THIN)
    for number in range(12):
        put(thin, (b"same", b"%02d" % number * 100), (b"k%d" % (number // 4), b"%d" % number))
    world.flush(thin)
    compact_now(world, cleaner_of(world))
    world.directory.apply_retention()
    for one in (log, trimmed, thin):
        one.context.events.publish((one,))
    world.directory.checkpoint()
    world.settle()
    served = {place: stored(world.log(place)) for place in PLACES}
    if how == "killed":
        world.directory.at_rest.write_soon(world.directory.logs.values(), world.clock)
        world.settle()
    world.directory.close(clean=how == "stopped")
    return Left(world.disk, served)


@pytest.fixture(scope="module", params=STOPS)
def before(request: pytest.FixtureRequest) -> Left:
    return left(request.param)


def copied(disk: SimDisk) -> SimDisk:
    again = SimDisk(disk.now_ms)
    again.nodes, again.boot = deepcopy(disk.nodes), disk.boot
    return again


def files_of(disk: SimDisk) -> list[str]:
    found = []
    for name in disk.list("/data"):
        path = f"/data/{name}"
        if disk.is_directory(path):
            found += [f"{path}/{inside}" for inside in disk.list(path)]
        elif name != file_names.LOCK:
            found.append(path)
    return found


def wrong(disk: SimDisk, served: dict[TopicPartition, Batches], said: Callable[[], str]) -> str:
    """What is wrong with a start on the damaged directory; "" for nothing."""
    try:
        world = SeveralTopics(disk, at_rest=True)
    except (ConfigError, CorruptLogError):
        return ""  # refused, with a line that says why
    try:
        for place in PLACES:
            log = world.directory.logs.get(place)
            if log is None:
                if world.directory.refused(place, TOPIC_ID) is None:
                    return f"{place} would be begun anew"
                continue
            problem = differs(served[place], log)
            if problem and f"/{place}" not in said() and str(place) not in said():
                return f"{place}: {problem}, and nobody said so:\n{said()}"
            if problem.startswith("!"):
                return f"{place}: {problem}"
    finally:
        world.close()
    return ""


def differs(wanted: Batches, log: Log) -> str:
    """How what is served is less than what was; with a "!" where it is wrong."""
    found = stored(log)
    first = wanted[0][0] if wanted else 0
    known = {base: data for base, _, data in wanted}
    for base, last, data in found:
        # Deleted, compacted away: what is still in the files may come back, and that is said.
        if base in known and _but_the_epoch(known[base]) != _but_the_epoch(data):
            return f"! offset {base} holds something else"
        if base not in known and last >= first:
            return f"! offset {base} was never written"
    there = {base for base, _, _ in found}
    absent = [base for base in known if base not in there]
    return f"offsets {absent} are not served" if absent else ""


def _but_the_epoch(data: bytes) -> bytes:
    """Neither offset nor epoch are under a checksum; the offset is compared, the epoch no data."""
    return data[:12] + data[16:]


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    return lambda: "\n".join(caplog.messages)


def damages(disk: SimDisk) -> Iterator[tuple[str, Callable[[SimDisk], object]]]:
    draw = random.Random(3)
    for path in files_of(disk):
        size = len(content(disk, path))
        for _ in range(min(FLIPS_PER_FILE, size * 8)):
            at, bit = draw.randrange(size), draw.randrange(8)
            name = f"bit {bit} of byte {at} of {path}"
            yield name, partial(SimDisk.flip, path=path, position=at, mask=1 << bit)
        yield f"{path} missing", partial(SimDisk.remove, path=path)
        for what, left in (("empty", 0), ("halved", size // 2)):
            yield f"{path} {what}", partial(shortened, path=path, size=left)
        head, _, name = path.rpartition("/")
        for _ in range(3):
            at, bit = draw.randrange(len(name)), draw.randrange(5)
            changed = name[:at] + chr(ord(name[at]) ^ (1 << bit)) + name[at + 1 :]
            target = f"{head}/{changed}"
            if "/" not in changed and not disk.exists(target):
                yield f"{path} called {changed}", partial(renamed, path=path, target=target)
    for place in PLACES:
        path = f"/data/{place}"
        yield f"{place} missing", partial(SimDisk.remove_tree, path=path)
        target = f"/data/{place.topic}-{place.partition + 4}"
        yield f"{place} called otherwise", partial(renamed, path=path, target=target)


def shortened(disk: SimDisk, *, path: str, size: int) -> None:
    disk.open(path).truncate(size)


def renamed(disk: SimDisk, *, path: str, target: str) -> None:
    disk.rename(path, target)


def test_nothing_is_lost_in_silence_and_nothing_wrong_is_served(
    before: Left, said: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    found = []
    tried = 0
    for name, damage in damages(before.disk):
        disk = copied(before.disk)
        damage(disk)
        caplog.clear()
        problem = wrong(disk, before.served, said)
        tried += 1
        if problem:
            found.append(f"{name}: {problem}")
    assert tried > 300
    assert not found, f"{len(found)} of {tried}: " + "\n".join(found[:12])


def test_what_is_held_against_it_is_found(before: Left, said: Callable[[], str]) -> None:
    """The comparison itself: other bytes under a sound checksum, and a log that is shorter."""
    assert wrong(copied(before.disk), before.served, said) == ""
    longer = {place: [*one, (99, 99, b"more")] for place, one in before.served.items()}
    assert "not served" in wrong(copied(before.disk), longer, said)
    base, last, data = before.served[PLACE][2]
    other = dict(before.served) | {PLACE: [(base, last, data[:-1] + b"?")]}
    assert wrong(copied(before.disk), other, said)

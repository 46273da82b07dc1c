"""What is kept of share partitions: written, replayed, fenced and pruned, on a disk that is cut."""

from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.config.durations import duration_ms
from headrace.coordination.share.keys import NOT_SET, ShareKey
from headrace.coordination.share.state_shard import FORGOTTEN_AFTER_MS, StateShard
from headrace.delivery.batches import covering, stretches
from headrace.delivery.cursor_state import CursorState
from headrace.delivery.record_states import Acquired, RecordState, StateBatch
from headrace.model.errors import ErrorCode
from headrace.model.nouns import SHARE_STATE_TOPIC
from headrace.record.batch import ControlType, Record, build, build_marker, stamp
from headrace.shards.shard import ShardState
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.coordinator_records import share_state as wire
from tests.support.processes.broker import Room, created, play, room, until

KEY = ShareKey("g", bytes(range(16)), 3)
SETTINGS: dict[str, Any] = {
    "share_coordinator_state_topic_num_partitions": "1",
    "share_coordinator_snapshot_update_records_per_snapshot": "4",
}
DONE = (StateBatch(5, 6, RecordState.ACKNOWLEDGED, 1),)


def back(offset: int, tries: int) -> StateBatch:
    return StateBatch(offset, offset, RecordState.AVAILABLE, tries)


class Asked:
    """An answer that comes by callback."""

    def __init__(self) -> None:
        self.answers: list[ErrorCode | None] = []

    def __call__(self, answer: ErrorCode | None) -> None:
        self.answers.append(answer)


async def shard(here: Room) -> StateShard:
    await here.controller.ensure_internal_topic(SHARE_STATE_TOPIC)
    found = here.coordinators.share.states.led.at(0)
    assert found is not None
    await until(lambda: found.state is not ShardState.LOADING)
    return found


async def wait(asked: Asked) -> ErrorCode | None:
    await until(lambda: bool(asked.answers))
    (answer,) = asked.answers
    return answer


async def write(one: StateShard, start: int, *batches: StateBatch, epoch: int = 0) -> Any:
    asked = Asked()
    one.write(KEY, epoch, 0, CursorState(start, batches, 0), asked)
    return await wait(asked)


async def initialize(one: StateShard, epoch: int, start: int) -> ErrorCode | None:
    asked = Asked()
    one.initialize(KEY, epoch, start, asked)
    return await wait(asked)


def test_what_is_written_is_replayed_as_snapshots_and_updates(tmp_path: Path) -> None:
    disk = SimDisk()

    async def first() -> None:
        async with room(tmp_path, disk, kill=True, **SETTINGS) as here:
            one = await shard(here)
            assert await initialize(one, 0, NOT_SET) is None
            for start in range(1, 8):
                assert await write(one, start, back(start + 2, start)) is None
            assert await write(one, 4, *DONE) is None

    async def second() -> None:
        async with room(tmp_path, disk, **SETTINGS) as here:
            kept = (await shard(here)).read(KEY)
            assert kept is not None
            assert kept.known.start == 7
            assert kept.known.batches() == (
                StateBatch(7, 7, RecordState.AVAILABLE, 5),
                StateBatch(8, 8, RecordState.AVAILABLE, 6),
                StateBatch(9, 9, RecordState.AVAILABLE, 7),
            )
            assert kept.snapshot_epoch == 1, "after four updates all of it was written"
            assert kept.updates == 3

    play(first())
    play(second())


def test_old_pictures_are_fenced(tmp_path: Path) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk(), **SETTINGS) as here:
            one = await shard(here)
            assert await write(one, 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert await initialize(one, 2, 10) is None
            assert await write(one, 11, epoch=1) is ErrorCode.FENCED_STATE_EPOCH
            assert await initialize(one, 1, 0) is ErrorCode.FENCED_STATE_EPOCH
            assert await write(one, 11, epoch=2) is None
            asked = Asked()
            one.write(KEY, 2, -1, CursorState(12), asked)
            assert await wait(asked) is ErrorCode.FENCED_LEADER_EPOCH
            asked = Asked()
            one.make(KEY, 0, asked)
            assert await wait(asked) is None
            kept = one.read(KEY)
            assert kept is not None
            assert kept.known.start == 11, "making what is there changes nothing"

    play(story())


def test_the_front_of_the_log_goes_and_cold_state_stays(tmp_path: Path) -> None:
    disk = SimDisk()
    cold = ShareKey("cold", bytes(16), 0)

    async def first() -> None:
        async with room(tmp_path, disk, kill=True, **SETTINGS) as here:
            one = await shard(here)
            asked = Asked()
            one.initialize(cold, 0, 77, asked)
            assert await wait(asked) is None
            assert await initialize(one, 0, 0) is None
            for start in range(1, 300):
                assert await write(one, start) is None
            log = here.broker.partition(SHARE_STATE_TOPIC, 0).log
            one.prune()
            assert log.start_offset == 0, "the cold one's only snapshot is the first record"
            clock: Any = here.broker.clock
            clock.advance(400)
            await until(lambda: one.journal.idle)
            one.prune()
            assert log.start_offset > 200

    async def second() -> None:
        async with room(tmp_path, disk, **SETTINGS) as here:
            one = await shard(here)
            first_kept, kept = one.read(cold), one.read(KEY)
            assert first_kept is not None
            assert kept is not None
            assert (first_kept.known.start, kept.known.start) == (77, 299)

    play(first())
    play(second())


def test_a_state_that_is_deleted_stays_away(tmp_path: Path) -> None:
    disk = SimDisk()

    async def first() -> None:
        async with room(tmp_path, disk, kill=True, **SETTINGS) as here:
            one = await shard(here)
            assert await initialize(one, 0, 5) is None
            asked = Asked()
            one.delete(KEY, asked)
            assert await wait(asked) is None

    async def second() -> None:
        async with room(tmp_path, disk, **SETTINGS) as here:
            assert (await shard(here)).read(KEY) is None

    play(first())
    play(second())


def test_an_update_of_another_snapshot_is_passed_over(tmp_path: Path) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk(), **SETTINGS) as here:
            one = await shard(here)
            assert await initialize(one, 0, 5) is None
            key = wire.encode_key(wire.ShareKey(*KEY, wire.UPDATE_KEY_TYPE))
            one.apply(9, None, key, wire.encode_update(wire.UpdateValue(7, 0, 50)))
            kept = one.read(KEY)
            assert kept is not None
            assert kept.known.start == 5

    play(story())


def batch(base: int, count: int, **fields: Any) -> bytes:
    records = [Record(at, 1000, None, b"v", ()) for at in range(count)]
    return build(records, base_offset=base, **fields)


class Void:
    producer_id, first_offset, last_offset = 9, 6, 7


def test_markers_gaps_and_aborted_data_are_not_handed_out() -> None:
    marker = bytearray(
        build_marker(ControlType.ABORT, 0, producer_id=9, producer_epoch=0, timestamp=1000)
    )
    stamp(marker, 8, 0)
    transaction = {"producer_id": 9, "producer_epoch": 0, "transactional": True}
    data = b"".join((
        batch(0, 3), batch(5, 1), batch(6, 2, **transaction), bytes(marker), batch(9, 2),
    ))  # fmt: skip
    found = [(one.first, one.last, one.wanted) for one in stretches(data, 1, [Void()])]
    assert found == [
        (1, 2, True), (3, 4, False), (5, 5, True), (6, 7, False), (8, 8, False), (9, 10, True),
    ]  # fmt: skip
    assert [one.wanted for one in stretches(data, 1)] == [True, False, True, True, False, True]


def test_only_batches_with_something_in_them_are_sent() -> None:
    whole = [batch(0, 2), batch(2, 2), batch(4, 2)]
    data = b"".join(whole)
    found = list(stretches(data, 0))
    sent = covering(data, found, [Acquired(1, 1, 1), Acquired(4, 5, 1)])
    assert [bytes(one) for one in sent] == [whole[0], whole[2]]
    (sent_whole,) = covering(data, found, [Acquired(0, 5, 1)])
    assert bytes(sent_whole) == data


@pytest.mark.parametrize(
    ("text", "ms"),
    [("PT1H", 3_600_000), ("P1DT2H3M4.5S", 93_784_500), ("PT0.001S", 1), ("P2D", 172_800_000)],
)
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "PT1", "-PT1H", "P1DT", "PT1H1D"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no duration|negative"):
        duration_ms(text)


def test_state_of_a_topic_that_is_gone_is_forgotten_once_it_is_old(tmp_path: Path) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk(), authorizer=None, **SETTINGS) as here:
            (made,) = await created(here, NewTopic("t", 1))
            one = await shard(here)
            there = ShareKey("g", made.topic_id, 0)
            for key in (KEY, there):
                asked = Asked()
                one.initialize(key, 0, 5, asked)
                assert await wait(asked) is None
            one.prune()
            assert one.read(KEY) is not None
            here.broker.clock.advance(FORGOTTEN_AFTER_MS / 1000 + 1)  # type: ignore[attr-defined]
            one.prune()
            assert one.read(KEY) is None
            assert one.read(there) is not None

    play(story())

"""The log of held messages: what is answered is on disk, what is settled does not come back."""

import pytest

from headrace.held import held_log
from headrace.held.held_log import HeldLog, HeldRead
from headrace.held.held_records import HeldMessage, HeldPlace, decode_message, decode_state
from headrace.held.topic_targets import TopicTargets
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.ports.callbacks import ignore_result
from headrace.posix.awaiting import called_back
from headrace.record.batch import build
from headrace.record.record import new_record
from tests.support.held.room import TARGET, HeldRoom, message
from tests.support.log.compaction import COMPACTED, cleaner_of, compact_now
from tests.support.log.log import World


def read(room: HeldRoom, *offsets: int) -> HeldRead[TopicPartition]:
    """Read messages."""

    async def work() -> HeldRead[TopicPartition]:
        return await called_back(lambda done: room.log.read(offsets, done))

    return room.run(work())


def place(room: HeldRoom, offset: int) -> HeldPlace:
    """Return the place of a message."""
    return read(room, offset).found[offset].place


def settle(room: HeldRoom, *offsets: int, counted: bool = False) -> None:
    """Settle messages on disk."""
    done: list[ApiError | None] = []
    places = [place(room, offset) for offset in offsets]
    room.log.settle(places, done.append, lambda offset: counted)
    room.world.settle()
    assert done == [None]


def loaded(room: HeldRoom) -> tuple[dict[int, int], dict[int, int]]:
    """Return the unsettled messages' times by offset, and their attempts."""
    held: dict[int, int] = {}
    state = room.run(room.log.load(held.__setitem__))
    return {at: ms for at, ms in held.items() if at not in state.settled}, state.attempts


def test_an_append_is_answered_when_it_is_on_disk() -> None:
    room = HeldRoom()
    found: list[int | ApiError] = []
    room.log.append(message("a"), 5, found.append)
    room.clock.turn()
    assert found == [], "it is written, and not flushed"
    room.world.settle()
    assert found == [0]
    stored = read(room, 0).found[0]
    assert stored.message == message("a")
    assert stored.message.target == TARGET


def test_messages_of_one_turn_are_one_batch_in_their_order() -> None:
    room = HeldRoom()
    assert room.append("a", "b", "c") == [0, 1, 2]
    data = room.partition.log.read_from_disk(0, 1 << 16, below=3).data  # type: ignore[arg-type]
    assert len(data) < 3 * 150
    found = read(room, 2, 0, 1).found
    assert [found[at].message.body for at in range(3)] == [b"a", b"b", b"c"]


def test_a_message_without_a_body_or_headers_comes_back() -> None:
    room = HeldRoom()
    found: list[int | ApiError] = []
    empty = message("")._replace(headers=())
    room.log.append(empty, 5, found.append)
    room.world.settle()
    assert read(room, 0).found[0].message == empty


def test_unsettled_messages_are_loaded_after_a_kill() -> None:
    room = HeldRoom()
    room.append("a", "b", time_ms=7)
    room.append("c", time_ms=9)
    settle(room, 1)
    assert loaded(room.killed()) == ({0: 7, 2: 9}, {})


def test_unsettled_messages_outlive_compaction_and_settled_ones_do_not() -> None:
    world = World(config=COMPACTED)
    room = HeldRoom(world)
    for number in range(50):
        room.append(str(number), time_ms=7)
    for offset in range(0, 50, 2):
        settle(room, offset)
    world.directory.checkpoint()
    world.settle()
    compact_now(world, cleaner_of(world))
    assert read(room, 0, 2, 4).found == {}
    assert set(loaded(room)[0]) == set(range(1, 50, 2))
    assert set(loaded(room.killed())[0]) == set(range(1, 50, 2))


def test_attempts_are_counted_and_end_with_the_message() -> None:
    room = HeldRoom()
    room.append("a", "b", "c")
    done: list[ApiError | None] = []
    for offset, count in ((0, 1), (1, 1), (0, 2)):
        room.log.count(place(room, offset), count, done.append)
    room.world.settle()
    assert done == [None] * 3
    settle(room, 1, counted=True)
    assert loaded(room.killed())[1] == {0: 2}


def test_a_read_skips_what_is_not_there() -> None:
    room = HeldRoom()
    room.append("a")
    settle(room, 0)
    assert set(read(room, 0, 1, 2, 99).found) == {0}, "1 is the record that settles it"


def test_a_read_of_many_bytes_leaves_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    room = HeldRoom()
    monkeypatch.setattr(held_log, "READ_BYTES_MAX", 10)
    monkeypatch.setattr(held_log, "READ_BYTES", 1)
    for body in ("a" * 8, "b" * 8, "c" * 8):
        room.append(body)
    found = read(room, 2, 0, 1)
    assert (set(found.found), found.unread) == ({2, 0}, [1])


def test_records_of_others_are_neither_messages_nor_states() -> None:
    for key, value in ((b"k", b"v"), (None, b"v"), (b"k" * 24, b"v"), (b"k" * 25, b"v")):
        record = new_record(value, key)
        assert decode_message(record, TopicTargets()) is None
        if key != b"k" * 24:
            assert decode_state(record) is None


def test_appends_are_refused_when_the_log_is_not_led() -> None:
    room = HeldRoom()
    room.partition.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    found: list[int | ApiError] = []
    room.log.append(message("a"), 5, found.append)
    room.log.append(message("b"), 5, found.append)
    room.log.settle([HeldPlace(0, b"k" * 24)], lambda error: found.append(error or 0))
    room.world.settle()
    codes = [each.code for each in found if isinstance(each, ApiError)]
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 3


def test_a_batch_written_by_others_does_not_stop_the_load() -> None:
    room = HeldRoom()
    room.append("a", time_ms=3)
    below_zero = b"\xff" * 24
    foreign = [new_record(b"v", b"k"), new_record(None, b"k" * 24), new_record(b"v", below_zero)]
    room.partition.append_internal(build(foreign), now_ms=room.now_ms)
    room.append("b", time_ms=4)
    assert loaded(room)[0] == {0: 3, 4: 4}


def test_each_message_is_reported_once_whether_it_is_read_or_committed_later() -> None:
    room = HeldRoom()
    room.append("read")
    found: list[tuple[int, int]] = []
    answered: list[int | ApiError] = []

    def held(offset: int, time_ms: int) -> None:
        found.append((offset, time_ms))
        if offset == 0:
            room.log.append(message("while it is read"), 9, answered.append)
        assert offset < 2 or offset not in answered, "it is reported before it is answered"

    async def load() -> None:
        room.log.append(message("written"), 7, answered.append)
        room.clock.turn()
        assert answered == [], "it is not flushed when the log is read"
        await room.log.load(held)

    room.run(load())
    room.append("later", time_ms=11)
    assert sorted(found) == [(0, 0), (1, 7), (2, 9), (3, 11)]
    assert answered == [1, 2]


class ByName:
    """Targets that are texts."""

    def encode(self, target: str) -> bytes:
        return target.encode()

    def decode(self, encoded: bytes) -> str:
        return encoded.decode()


def test_targets_may_be_other_than_topics() -> None:
    room = HeldRoom()
    log = HeldLog(room.partition, room.world.disk, room.clock, room.random, ByName())
    log.append(HeldMessage("größe", b"x"), 5, ignore_result)
    room.world.settle()

    async def work() -> HeldRead[str]:
        return await called_back(lambda done: log.read([0], done))

    assert room.run(work()).found[0].message == HeldMessage("größe", b"x")

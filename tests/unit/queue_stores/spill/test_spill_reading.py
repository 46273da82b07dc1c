"""What is read back of queues in memory that are on disk, when, and what becomes of the rest."""

import pytest

from headrace.queue_stores.memory.spill import KEPT_SHARE
from headrace.queue_stores.memory.spill_extent import Extent
from headrace.queue_stores.memory.spill_files import HaveContent
from headrace.queues.engine.hosted_queue import HostedQueue
from tests.support.queues.spill import MARK, ONE, SpillRoom, flipped, logged, number_of


def on_disk_with_room() -> tuple[SpillRoom, HostedQueue]:
    """A queue of 300 messages, most of them on disk, and memory that is not short."""
    room = SpillRoom(MARK)
    queue, other = room.queue(), room.queue(name="other")
    room.fill(queue, 300)
    room.fill(other, 60)
    other.purge()
    room.published = 300
    return room, queue


def at_hand(room: SpillRoom, queue: HostedQueue) -> list[Extent]:
    """The extents on disk that are in memory as well."""
    older = room.store(queue)._older
    extents = [] if older is None else older._extents
    return [extent for extent in extents if extent.file is not None and extent.is_at_hand]


def short_of_memory(room: SpillRoom) -> None:
    """Have memory short, and keep it so."""
    room.disk.fail_writes()
    hog = room.queue(name="hog")
    while room.use.bytes <= room.use.spill_at + 10 * ONE:
        room.publish(hog)
    room.settle()


def test_of_what_is_handed_out_two_extents_are_at_hand_and_none_that_is_passed() -> None:
    room, queue = on_disk_with_room()
    most = 0
    for below in range(1, 301):
        room.get(queue)
        found = at_hand(room, queue)
        assert all(extent.end > below for extent in found)
        most = max(most, len(found))
    assert most == 2
    room.channel.recover()
    while (delivery := room.get(queue)) is not None:
        found = at_hand(room, queue)
        assert len(found) <= 1 or number_of(delivery[2]) > 290
    assert room.store(queue)._older is not None
    room.channel.ack(0, multiple=True)
    assert room.store(queue)._older is None


def test_after_the_first_the_next_extent_is_read_before_it_is_needed() -> None:
    room, queue = on_disk_with_room()
    while not (found := at_hand(room, queue)):
        room.get(queue)
    first = found[0]
    room.get(queue)
    assert [extent.base for extent in at_hand(room, queue)] == [first.base, first.end]


def test_what_could_not_be_written_and_is_held_comes_back() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.disk.fail_writes()
    room.publish(queue, 150)
    room.settle()
    for _ in range(150):
        room.get(queue)
    room.channel.recover()
    assert room.all_of(queue) == list(range(150))


def test_a_queue_that_cannot_be_read_gives_nothing_though_some_is_at_hand_and_says_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.fill(queue, 300)
    flipped(room)
    store = room.store(queue)
    assert store.read(0, 1)[1]
    for position in (200, 250):
        assert store.read(position, 1) == ((), ())
    room.settle()
    assert store.read(0, 1) == ((), ())
    assert len(logged(caplog)) == 1


def test_a_large_queue_that_is_deleted_while_it_is_read_is_not_said_to_be_damaged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    room = SpillRoom(4000 * 210, extent_bytes=21_000)
    queue = room.queue()
    while queue.ready < 25_000:
        room.publish(queue, 500, size=8)
        room.settle()
    flipped(room)
    room.store(queue).read(20_000, 1)
    queue.delete()
    room.disk.settle()  # it is swept in the turns after that
    room.settle()
    assert logged(caplog) == []
    assert (room.use.bytes, room.names) == (0, [])


def test_what_is_settled_while_it_is_read_takes_no_memory() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.fill(queue, 300)
    store = room.store(queue)
    store.read(200, 1)
    store.settle(range(300))
    room.settle()
    assert (room.use.bytes, room.spill._kept, room.names) == (0, {}, [])


def test_files_that_are_mostly_of_no_use_are_emptied_though_nothing_is_written() -> None:
    room = SpillRoom(MARK, file_bytes=3000)
    queue = room.queue()
    room.fill(queue, 300)
    room.consume(queue)
    for tag in range(1, 301):
        if tag % 60:
            room.channel.ack(tag)
    wasteful = [room.files.is_wasteful]
    room.settle()
    assert [*wasteful, room.files.is_wasteful] == [True, False]
    room.channel.recover()
    room.wake()
    assert (room.taken()[-5:], queue.unacked) == ([59, 119, 179, 239, 299], 5)


def test_what_is_needed_next_stays_however_short_memory_is_and_nothing_is_read_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.fill(queue, 300)
    short_of_memory(room)
    reads = []
    read = room.files.read

    def counted(extent: Extent, done: HaveContent) -> None:
        reads.append(extent)
        assert room.use.bytes > room.use.spill_at
        read(extent, done)

    monkeypatch.setattr(room.files, "read", counted)
    hog = room.queue(name="another")
    for number in range(300):
        delivery = room.get(queue, no_ack=True)
        assert delivery is not None
        assert number_of(delivery[2]) == number
        while room.use.bytes <= room.use.spill_at + 10 * ONE:
            room.publish(hog)
            room.published -= 1
        room.settle()
    assert len(reads) == len(set(reads)) > 20


def test_what_was_used_longest_ago_goes_first_and_nothing_while_memory_is_not_short() -> None:
    room = SpillRoom(400 * ONE)
    queues = [room.queue(name=name) for name in "abcdefgh"]
    other = room.queue(name="other")
    for queue in queues:
        room.fill(queue, 100)
    room.fill(other, 200)
    other.purge()
    olders = [older for queue in queues if (older := room.store(queue)._older) is not None]
    firsts = [older._extents[0] for older in olders[:4]]
    for extent in (*firsts, firsts[0]):
        for _ in range(2):
            extent.owner.read(extent.base, 1)  # type: ignore[attr-defined]
            room.settle()
    kept = [extent for extent in room.spill._kept if extent in firsts]
    assert kept == [*firsts[1:], firsts[0]]
    assert room.spill._kept_bytes > KEPT_SHARE * room.use.bytes_max
    room.spill._run()
    assert [extent for extent in room.spill._kept if extent in firsts] == kept
    short_of_memory(room)
    left = [extent for extent in room.spill._kept if extent in firsts]
    assert 0 < len(left) < len(kept)
    assert left == kept[-len(left) :]

"""What a durable queue knows after a stop, a kill and a power cut."""

from typing import Any

import pytest

from headrace.log.file_names import SETTLED
from headrace.queue_stores.log import settled_files
from headrace.queue_stores.log.settled_files import SettledFiles
from headrace.queue_stores.unacked_positions import HandedOut
from headrace.testing.disk_crash import crash_states
from tests.support.log.log import batch_of
from tests.support.queues.log import LogQueue
from tests.support.queues.queues import settings


def path_of(here: LogQueue) -> str:
    return f"{here.partition.log.directory}/{SETTLED}"


def test_after_a_clean_stop_only_what_was_handed_out_is_redelivered() -> None:
    here = LogQueue()
    here.published("a", "b", "c", "d")
    assert here.gets(3) == ["a", "b", "c"]
    here.acknowledge(2)
    again = here.stopped()
    assert again.gets() == ["a*", "c*", "d"]


def test_after_a_kill_what_was_acknowledged_a_tenth_of_a_second_ago_does_not_come_back() -> None:
    here = LogQueue()
    here.published("a", "b", "c", "d")
    assert here.gets(3) == ["a", "b", "c"]
    here.acknowledge(2)
    here.world.clock.advance(0.1)
    again = here.killed()
    assert (again.q.ready, again.q.ready_bytes) == (3, 3)
    assert again.gets() == ["a*", "c*", "d*"]


def test_settling_needs_no_more_than_the_named_time_to_be_written() -> None:
    here = LogQueue()
    here.published("a", "b")
    here.gets()
    here.wait()
    here.acknowledge(1)
    here.wait(settled_files.SETTLED_WRITE_SECONDS - 0.001)
    assert here.killed().q.ready == 2
    here.wait(0.001)
    assert here.killed().q.ready == 1


def test_whatever_a_power_cut_leaves_nothing_settled_durably_comes_back_nor_is_lost() -> None:
    here = LogQueue()
    here.published(*"abcdef")
    here.gets(4)
    here.acknowledge(1, 3)
    here.wait()
    here.acknowledge(2)
    ops = len(here.world.disk.ops)
    here.wait()
    for cut in range(ops, len(here.world.disk.ops) + 1):
        for left in crash_states(here.world.disk, cut, seed=cut, samples=6):
            found = here.after(left).gets()
            assert found in (["b*", "d*", "e*", "f*"], ["d*", "e*", "f*"])
    assert here.killed().gets() == ["d*", "e*", "f*"]


def test_a_lost_tail_of_the_log_settles_nothing_that_is_written_in_its_place() -> None:
    here = LogQueue(flush_on_ack=False)
    here.published("kept")
    here.world.flush(here.partition.log)
    base = len(here.world.disk.ops)
    here.published("lost 1", "lost 2")
    assert here.gets() == ["kept", "lost 1", "lost 2"]
    here.acknowledge(1, 2, 3)
    here.wait()
    assert base < len(here.world.disk.ops)
    (left, *_) = crash_states(here.world.disk, len(here.world.disk.ops), seed=1)
    again = here.after(left)
    assert again.partition.log.end_offset == 1
    again.published("new 1", "new 2")
    assert again.gets() == ["new 1", "new 2"]
    assert again.killed().gets() == ["new 1*", "new 2*"]


def test_it_is_clipped_by_epochs_whoever_appended_before_it_was_loaded() -> None:
    here = LogQueue(flush_on_ack=False)
    here.published("kept")
    here.world.flush(here.partition.log)
    here.published("lost 1", "lost 2")
    here.gets()
    here.acknowledge(2, 3)
    here.wait()
    (left, *_) = crash_states(here.world.disk, len(here.world.disk.ops), seed=1)
    world = here.world.after_power_cut(left)
    again = LogQueue(world, epoch=2, load=False, flush_on_ack=False)
    again.produce(batch_of(b"new 1", b"new 2", b"new 3"))
    again.load()
    assert again.q.ready == 4
    assert again.gets() == ["kept*", "new 1", "new 2", "new 3"]


def test_redelivered_is_still_told_two_kills_later() -> None:
    here = LogQueue(ahead=10)
    bodies = [f"{number:02}" for number in range(40)]
    here.published(*bodies)
    assert here.gets(25) == bodies[:25]
    again = here.killed()
    assert again.gets(1) == ["00*"]
    again.wait()
    third = again.killed().gets()
    assert [body[:2] for body in third] == bodies
    assert all(body.endswith("*") for body in third[:25])
    assert not third[-1].endswith("*"), "what was not near being handed out is not called so"


def test_a_torn_file_is_believed_up_to_the_tear_and_written_anew() -> None:
    here = LogQueue()
    here.published("a", "b", "c")
    here.gets()
    here.acknowledge(1)
    here.wait()
    here.acknowledge(2)
    here.wait()
    size = here.world.disk.open(path_of(here)).size()
    here.world.disk.flip(path_of(here), size - 1)
    again = here.killed()
    assert again.gets() == ["b*", "c*"]
    again.acknowledge(1)
    again.wait()
    assert again.killed().gets() == ["c*"]


def test_returns_are_counted_on_after_a_restart_and_the_limit_holds_over_it() -> None:
    here = LogQueue(queue_settings=settings(delivery_limit=2))
    here.published("a", "b")
    for _ in range(2):
        assert here.get() is not None
        here.channel.nack(here.channel.next_tag - 1)
    here.wait()
    again = here.killed()
    delivery = again.get()
    assert delivery is not None
    assert delivery[4] == 2
    again.channel.nack(1)
    assert again.gets() == ["b*"]
    again.wait()
    assert again.killed().gets() == ["b*"]


def test_counts_are_known_without_reading_what_was_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = LogQueue()
    here.published("aaa", "bb")
    here.produce(batch_of(b"cccc"))
    here.settle()
    here.gets(1)
    here.acknowledge(1)
    here.wait()
    with monkeypatch.context() as patched:
        patched.delattr("headrace.queue_stores.log.message_reader.messages_in")
        again = here.killed()
    assert (again.q.ready, again.q.ready_bytes) == (2, 6)
    here.published("d")
    again = here.killed()
    assert (again.q.ready, again.q.ready_bytes) == (3, 7)


def test_a_file_that_grows_long_is_replaced_by_what_it_comes_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headrace.queue_stores.log.settlement.FILE_BYTES_MAX", 500)
    here = LogQueue(ahead=1000)
    bodies = [f"{number:02}" for number in range(60)]
    here.published(*bodies)
    here.gets()
    for tag in range(2, 61, 2):
        here.acknowledge(tag)
        here.wait()
        # A whole one has 16 bytes for each run, and is doubled at most before the next.
        assert here.world.disk.open(path_of(here)).size() < 2200
    again = here.killed()
    assert again.gets() == [f"{number:02}*" for number in range(0, 60, 2)]


def test_a_whole_file_tells_runs_that_are_not_reached_yet_since_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = LogQueue()
    here.published(*"abcdef")
    here.gets()
    here.acknowledge(3, 5)
    here.wait()
    monkeypatch.setattr("headrace.queue_stores.log.settlement.FILE_BYTES_MAX", 0)
    again = here.killed()
    assert again.gets(1) == ["a*"]
    for _ in range(8):
        again.store.note_returned(0, 1)
        again.wait()
    assert again.killed().gets() == ["a*", "b*", "d*", "f*"]


@pytest.mark.parametrize("settled", ["acknowledged", "purged"])
def test_message_behind_many_settled_ones_is_delivered_after_a_start(settled: str) -> None:
    here = LogQueue(ahead=10)
    here.published(*(str(number) for number in range(30)))
    here.gets(1 if settled == "purged" else 30)
    if settled == "purged":
        here.q.purge()
    else:
        here.acknowledge(*range(2, 31))
    here.wait()
    again = here.stopped()
    again.published("behind")
    assert again.gets() == ["0*", "behind"]


def test_no_file_is_made_before_the_first_message() -> None:
    here = LogQueue()
    here.wait()
    assert not here.world.disk.exists(path_of(here))
    again = here.stopped()
    assert again.q.ready == 0
    again.published("a")
    assert again.world.disk.exists(path_of(again))


def test_holes_cost_less_than_sixteen_bytes_each() -> None:
    import tracemalloc

    out = HandedOut()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for first in range(0, 200_000, 1000):
        out.add(range(first, first + 1000), [10] * 1000)
    for position in range(0, 200_000, 2):
        assert out.settle(position)
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert used < 16 * 100_000
    assert (out.count, out.bytes, out.lowest()) == (100_000, 1_000_000, 1)
    assert not out.settle(0)
    assert list(out.gaps(0, 5)) == [(0, 0), (2, 2), (4, 4)]


def test_what_is_settled_while_a_frame_is_written_waits_for_that_and_no_longer() -> None:
    here = LogQueue()
    here.published(*"abc")
    here.gets()
    here.acknowledge(1)
    here.world.clock.advance(0.06)
    assert here.world.disk.busy, "the frame is being flushed"
    here.acknowledge(2)
    here.world.clock.advance(0.06)
    here.world.disk.settle()
    assert here.killed().gets() == ["c*"]


@pytest.mark.parametrize("end", ["a stop", "a kill"])
def test_what_is_not_persistent_is_not_there_after_a_start(end: str) -> None:
    here = LogQueue(drops_transient=True)
    here.publish("a", persistent=False)
    here.publish("b")
    here.publish("c", "dd", persistent=False)
    here.publish("e")
    here.wait()
    assert here.gets(1) == ["a"]
    again = here.stopped() if end == "a stop" else here.killed()
    assert (again.q.ready, again.q.ready_bytes) == (2, 2)
    assert again.gets() == (["b", "e"] if end == "a stop" else ["b*", "e*"])
    again.acknowledge(1)
    again.wait()
    once_more = again.killed()
    assert (once_more.q.ready, once_more.gets()) == (1, ["e*"])


def test_a_queue_that_keeps_all_keeps_what_is_not_persistent() -> None:
    here = LogQueue()
    here.publish("a", persistent=False)
    here.wait()
    assert here.stopped().gets() == ["a"]


def test_what_was_not_persistent_is_dropped_by_the_next_start_where_this_one_is_killed() -> None:
    here = LogQueue(drops_transient=True)
    here.publish("a", "b", persistent=False)
    here.publish("c")
    here.wait()
    first = here.killed()
    assert first.q.ready == 1
    assert first.killed().gets() == ["c*"]


def test_messages_published_since_a_start_are_kept_until_the_next() -> None:
    here = LogQueue(drops_transient=True)
    here.publish("a", persistent=False)
    here.wait()
    again = here.stopped()
    again.publish("b", persistent=False)
    again.publish("c")
    again.wait()
    assert again.gets() == ["b", "c"]


def test_what_is_not_persistent_is_gone_also_if_the_broker_is_killed_at_once() -> None:
    here = LogQueue(drops_transient=True)
    here.published("a")
    here.wait()
    here.publish("b", "c", persistent=False)
    here.publish("d")
    here.store.write()
    again = here.killed()
    assert (again.q.ready, again.q.ready_bytes) == (2, 2)
    again.publish("e")
    again.store.write()
    third = again.killed()
    assert (third.q.ready, third.q.ready_bytes) == (3, 3)
    assert third.gets() == ["a*", "d*", "e*"]


class Frames:
    """A queue that has a frame to write, and what became of it."""

    def __init__(self, directory: str, at: int | None) -> None:
        self.path = settled_files.settled_path(directory)
        self.at = at
        self.content = b"frame"
        self.told: list[OSError | None] = []
        self.taken = False

    def take_frame(self) -> "Frames | None":
        if self.taken:
            return None
        self.taken = True
        return self

    def written(self, error: OSError | None) -> None:
        self.told.append(error)


def test_no_more_files_are_open_at_a_time_than_named_however_many_queues_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settled_files, "FILES_MAX", 3)
    world = LogQueue().world
    files = SettledFiles(world.disk, world.clock)
    directories = [f"/data/q-{number}" for number in range(8)]
    for directory in directories:
        world.disk.make_directory(directory)
    world.disk.sync_directory("/data")
    flushed: list[int] = []
    flush = world.disk.flush

    def counted(some: Any, done: Any) -> None:
        flushed.append(len(some))
        flush(some, done)

    monkeypatch.setattr(world.disk, "flush", counted)
    queues = [Frames(directory, 0) for directory in directories]
    for queue in queues:
        files.note_changed(queue, soon=True)
    world.settle()
    assert sorted(flushed) == [2, 3, 3]
    assert [queue.told for queue in queues] == [[None]] * 8
    for left in crash_states(world.disk, len(world.disk.ops), seed=1):
        assert all(left.exists(queue.path) for queue in queues), "each has its name for good"


def test_a_queue_about_which_nothing_new_is_known_writes_nothing_when_it_stops() -> None:
    here = LogQueue()
    here.published("a", "b")
    again = here.stopped()
    size = again.world.disk.open(path_of(again)).size()
    once_more = again.stopped()
    assert once_more.world.disk.open(path_of(once_more)).size() == size
    assert once_more.gets() == ["a", "b"]
    assert once_more.stopped().gets() == ["a*", "b*"]

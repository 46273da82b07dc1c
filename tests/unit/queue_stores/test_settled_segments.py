"""What of a queue's log is settled goes at once, by whole segments, also behind what is not."""

import pytest

from headrace.delivery.settled_runs import runs_of
from headrace.model.nouns import Offset
from headrace.queue_stores.unacked_positions import BLOCK_POSITIONS, HandedOut
from headrace.testing.disk_crash import crash_states
from tests.support.log.log import NOW_MS, Held, batch_of
from tests.support.queues.log import LogQueue

COUNT = 60
LARGE = 500
"""Some seven of these make a segment."""


def bodies(first: int = 0, count: int = COUNT) -> list[str]:
    return [f"{number:0{LARGE}}" for number in range(first, first + count)]


def publish(here: LogQueue, first: int = 0, count: int = COUNT) -> None:
    """A batch for each message."""
    for body in bodies(first, count):
        here.published(body)


def taken(**settings: bool) -> LogQueue:
    """A queue of which all is handed out and nothing settled."""
    here = LogQueue(**settings)  # type: ignore[arg-type]
    publish(here)
    assert here.gets() == bodies()
    return here


def bases(here: LogQueue) -> list[int]:
    return [segment.base_offset for segment in here.partition.log.segments]


def of(position: int, found: list[int]) -> int:
    """Where the segment begins that has a position."""
    return max(base for base in found if base <= position)


def test_one_message_at_the_head_keeps_its_segment_and_nothing_behind_it() -> None:
    here = taken()
    before = bases(here)
    assert len(before) > 6
    here.acknowledge(*range(2, COUNT + 1))
    here.wait()
    assert bases(here) == [0, before[-1]]
    assert here.partition.log.start_offset == 0
    again = here.killed()
    assert again.gets() == [f"{bodies()[0]}*"]
    again.acknowledge(1)
    again.wait()
    assert bases(again) == [before[-1]]
    publish(again, COUNT, 1)
    assert again.gets() == bodies(COUNT, 1)


def test_each_message_that_is_out_keeps_its_own_segment() -> None:
    here = taken()
    before = bases(here)
    held = (0, before[3], before[5] - 1)
    here.acknowledge(*(tag for tag in range(1, COUNT + 1) if tag - 1 not in held))
    here.wait()
    assert bases(here) == [0, before[3], before[4], before[-1]]
    assert here.killed().gets() == [f"{bodies()[at]}*" for at in held]


def test_what_nobody_has_taken_keeps_its_segments() -> None:
    here = LogQueue()
    publish(here)
    before = bases(here)
    here.gets(before[3] + 1)
    here.acknowledge(*range(2, before[3] + 2))
    here.wait()
    assert bases(here) == [0, *before[3:]]
    assert here.gets() == bodies(before[3] + 1, COUNT - before[3] - 1)


def test_what_came_back_keeps_its_segment() -> None:
    here = taken()
    before = bases(here)
    here.channel.nack(before[2] + 1, requeue=True)
    here.acknowledge(*(tag for tag in range(2, COUNT + 1) if tag != before[2] + 1))
    here.wait()
    assert bases(here) == [0, before[2], before[-1]]


def test_nothing_goes_before_its_settling_is_durable() -> None:
    here = taken()
    before = bases(here)
    here.wait()
    here.acknowledge(*range(2, COUNT + 1))
    settlement = here.store._settlement
    assert settlement.wants(Offset(before[1]), Offset(before[2]))
    assert not settlement.out.has_any(before[1], before[2])
    here.world.clock.advance(0.06)
    assert here.world.disk.busy, "the frame is being flushed"
    assert settlement.wants(Offset(before[1]), Offset(before[2]))
    here.acknowledge(1)
    assert settlement.wants(Offset(0), Offset(1))
    here.settle()
    assert not settlement.wants(Offset(before[1]), Offset(before[2]))
    assert settlement.wants(Offset(0), Offset(1)), "that is not written yet"
    here.wait()
    assert bases(here) == [before[-1]]


def test_what_is_purged_counts_as_settled_once_that_is_durable() -> None:
    here = LogQueue()
    publish(here)
    before = bases(here)
    here.gets(1)
    here.wait()
    settlement = here.store._settlement
    here.q.purge()
    assert settlement.wants(Offset(before[1]), Offset(before[2]))
    here.world.clock.advance(0.06)
    assert settlement.wants(Offset(before[1]), Offset(before[2]))
    here.settle()
    assert not settlement.wants(Offset(before[1]), Offset(before[2]))
    here.wait()
    assert bases(here) == [0, before[-1]]


def test_what_waits_to_be_written_is_told_to_the_position() -> None:
    here = LogQueue()
    here.published(*"abc")
    here.gets()
    here.acknowledge(1)
    here.wait()
    here.acknowledge(2)
    wants = here.store._settlement.wants
    assert [wants(Offset(0), Offset(below)) for below in (1, 2)] == [False, True]
    assert wants(Offset(1), Offset(2))


def test_what_is_purged_is_told_to_the_position() -> None:
    here = LogQueue()
    publish(here)
    here.gets(2)
    here.acknowledge(1, 2)
    here.wait()
    here.q.purge()
    wants = here.store._settlement.wants
    assert [wants(Offset(0), Offset(below)) for below in (2, 3)] == [False, True]
    assert wants(Offset(COUNT - 1), Offset(COUNT))
    here.wait()
    assert not wants(Offset(0), Offset(COUNT))


def test_whatever_a_power_cut_leaves_what_went_was_settled() -> None:
    here = taken()
    held = (0, 30)
    here.wait()
    ops = len(here.world.disk.ops)
    here.acknowledge(*(tag for tag in range(1, COUNT + 1) if tag - 1 not in held))
    here.wait()
    assert len(bases(here)) == 3
    here.wait(70)
    for cut in range(ops, len(here.world.disk.ops) + 1):
        for left in crash_states(here.world.disk, cut, seed=cut, samples=2):
            again = here.after(left)
            found = again.gets()
            assert {f"{bodies()[at]}*" for at in held} <= set(found)
            assert found in (
                [f"{body}*" for body in bodies()],
                [f"{bodies()[at]}*" for at in held],
            )
            assert again.q.ready == 0


def test_what_a_kill_left_of_it_goes_at_the_next_start() -> None:
    here = taken()
    before = bases(here)
    here.acknowledge(*range(2, COUNT + 1))
    here.world.clock.advance(0.06)
    here.world.disk.settle(1)  # the frame is durable, and nobody has been told
    again = here.killed()
    again.wait()
    assert bases(again) == [0, before[-1]]
    assert again.gets() == [f"{bodies()[0]}*"]


def test_what_was_settled_before_a_start_goes_though_nothing_is_handed_out_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = taken()
    before = bases(here)
    monkeypatch.setattr("headrace.log.retention.unwanted", lambda log, below: [])
    here.acknowledge(*(tag for tag in range(2, COUNT + 1) if tag != before[3] + 1))
    here.wait()
    assert bases(here) == before
    monkeypatch.undo()
    again = here.stopped()
    again.settle()
    assert bases(again) == [0, before[3], before[-1]]


def test_a_segment_that_was_settled_partly_before_a_start_goes_when_all_of_it_is() -> None:
    here = taken()
    before = bases(here)
    middle = before[3] + 2
    here.acknowledge(*range(middle + 1, COUNT + 1))
    here.wait()
    assert bases(here) == [*before[:4], before[-1]]
    again = here.killed()
    assert len(again.gets()) == middle
    again.acknowledge(*range(2, middle + 1))
    again.wait()
    assert bases(again) == [0, before[-1]]


def test_what_others_hold_of_it_stays() -> None:
    here = taken()
    before = bases(here)
    place = here.partition.topic_partition
    here.partition.log.context.holds.add(place, Held((before[4], before[4])))
    here.acknowledge(*range(2, COUNT + 1))
    here.wait()
    assert bases(here) == [0, before[4], before[-1]]


def test_messages_are_found_behind_what_has_gone_from_between() -> None:
    here = LogQueue(cache_bytes_max=0)
    publish(here)
    before = bases(here)
    here.gets(before[4])
    here.acknowledge(*range(2, before[4] + 1))
    here.wait()
    assert bases(here) == [0, *before[4:]]
    again = here.killed()
    left = 1 + COUNT - before[4]
    assert (again.q.ready, again.q.ready_bytes) == (left, left * LARGE)
    assert [body.rstrip("*") for body in again.gets()] == [
        bodies()[0], *bodies(before[4], COUNT - before[4]),
    ]  # fmt: skip


# --- Kafka's transactions in a queue's log -------------------------------------------------


def test_markers_and_what_was_aborted_count_as_settled_over_a_restart() -> None:
    here = LogQueue()
    here.published("head")
    log = here.partition.log
    for number in range(12):
        commit = number % 2 == 0
        here.partition.append_internal(
            batch_of(b"%03d" % number * 200, producer=(9, 0, number), transactional=True),
            now_ms=NOW_MS,
        )
        here.partition.append_marker(9, 0, commit=commit, coordinator_epoch=1, now_ms=NOW_MS)
        here.settle()
    publish(here, count=10)
    found = here.gets()
    assert found[0] == "head"
    assert len(found) == 1 + 6 + 10
    here.acknowledge(*range(2, len(found) + 1))
    here.wait()
    state = here.store._settlement
    assert not state.wants(Offset(1), Offset(log.end_offset))
    again = here.killed()
    assert not again.store._settlement.wants(Offset(1), Offset(log.end_offset))
    assert again.store._settlement.wants(Offset(0), Offset(1))
    assert again.gets() == ["head*"]


def passed(here: LogQueue) -> None:
    """A message, what was aborted, and another message, which is at offset 3."""
    here.published("before")
    here.partition.append_internal(
        batch_of(b"aborted", producer=(9, 0, 0), transactional=True), now_ms=NOW_MS
    )
    here.partition.append_marker(9, 0, commit=False, coordinator_epoch=1, now_ms=NOW_MS)
    here.settle()
    here.published("behind")
    assert here.gets() == ["before", "behind"]


def test_what_is_passed_settles_no_message_beside_it() -> None:
    here = LogQueue()
    passed(here)
    here.store.write_settled()
    here.wait()
    wants = here.store._settlement.wants
    found = [wants(Offset(at), Offset(at + 1)) for at in range(4)]
    assert found == [True, False, False, True]
    again = here.killed()
    assert again.gets() == ["before*", "behind*"]


def test_what_was_settled_before_a_start_is_not_written_again_when_it_is_passed() -> None:
    here = LogQueue(ahead=10_000)
    here.published(*map(str, range(200)))
    here.gets()
    here.acknowledge(*range(2, 200, 2))
    here.wait()
    again = here.killed()
    size = again.world.disk.open(again.store._settlement.path).size()
    assert len(again.gets()) == 101
    again.store.write_settled()
    again.wait()
    assert again.world.disk.open(again.store._settlement.path).size() - size < 200


# --- its parts ---------------------------------------------------------------------------


def test_whether_anything_is_out_of_a_range_is_told_to_the_position() -> None:
    for many in (0, 2000):
        out = HandedOut()
        positions = [*range(100_000, 100_000 + many), 300_000, 300_700]
        out.add(positions, [1] * len(positions))
        assert out.has_any(300_000, 300_001)
        assert not out.has_any(300_001, 300_700)
        assert out.has_any(300_001, 300_701)
        assert not out.has_any(299_000, 300_000)
        assert not out.has_any(300_701, 1_000_000)
        assert out.has_any(0, 1_000_000)
        out.settle(300_700)
        assert not out.has_any(300_001, 400_000)
        assert out.has_any(100_000, 300_001)
    block = HandedOut()
    block.add(range(BLOCK_POSITIONS, 2 * BLOCK_POSITIONS), [1] * BLOCK_POSITIONS)
    assert block.has_any(BLOCK_POSITIONS, 2 * BLOCK_POSITIONS)
    assert not block.has_any(0, BLOCK_POSITIONS)
    assert not block.has_any(2 * BLOCK_POSITIONS, 3 * BLOCK_POSITIONS)


def test_runs_cover_what_lies_in_one_of_them_and_what_follows_lies_in_none() -> None:
    runs = runs_of([(3, 5), (9, 9)])
    assert [runs.covers(3, below) for below in (4, 6, 7)] == [True, True, False]
    assert [runs.covers(first, 6) for first in (2, 4, 5)] == [False, True, True]
    assert runs.covers(9, 10)
    assert not runs.covers(8, 10)
    assert not runs.covers(6, 7)
    assert [runs.following(at) for at in range(11)] == [0, 1, 2, 6, 6, 6, 6, 7, 8, 10, 10]
    assert runs_of([]).following(7) == 7
    assert not runs_of([]).covers(7, 8)

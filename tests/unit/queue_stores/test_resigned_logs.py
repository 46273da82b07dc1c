"""A queue's log is released when another broker leads it, and loaded again with the next term."""

import pytest

from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset
from headrace.queue_stores.log.settled_files import settled_path
from tests.support.log.log import content
from tests.support.queues.log import LogQueue


def windows_bytes(here: LogQueue) -> int:
    return here.store._window._all.bytes


def first_held(here: LogQueue) -> Offset | None:
    """The first offset that must be retained; 0 for a queue's log without a holder."""
    return here.partition.log.context.holds.first(here.partition.topic_partition)


def test_resigned_log_releases_its_memory_and_its_hold() -> None:
    here = LogQueue()
    here.published("a", "b", "c")
    assert here.gets(1) == ["a"]
    here.acknowledge(1)
    here.wait()
    assert windows_bytes(here) > 0
    assert first_held(here) == 1
    here.store.resign()
    assert windows_bytes(here) == 0
    assert first_held(here) == 0
    assert not here.partition._watchers


def test_resigned_log_confirms_nothing() -> None:
    here = LogQueue()
    here.publish("a")
    here.store.write()
    here.publish("b")
    here.store.resign()
    here.settle()
    assert here.confirmed_upto == 0
    assert here.partition.log.end_offset == 1, "what was not written is forgotten"
    assert here.failures == []


def test_resigned_log_refuses_publishes_and_reads() -> None:
    here = LogQueue()
    here.published("a")
    here.store.resign()
    with pytest.raises(ApiError) as refused:
        here.publish("b")
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert here.store.read(0, 1) == ((), ())


def test_read_that_ends_after_the_resignation_takes_no_memory() -> None:
    before = LogQueue()
    before.published(*(f"{number:05}" for number in range(100)))
    here = before.killed()
    here.settle()
    here.world.disk.cold = True
    assert not here.store.read(0, 1)[0]
    reading = [here.store._reading]
    here.store.resign()
    here.settle()
    reading.append(here.store._reading)
    assert reading == [True, False]
    assert windows_bytes(here) == 0


def test_settlement_after_the_resignation_changes_no_file() -> None:
    here = LogQueue()
    here.published("a", "b")
    assert here.gets() == ["a", "b"]
    here.wait()
    path = settled_path(here.partition.log.directory)
    before = content(here.world.disk, path)
    here.store.resign()
    here.acknowledge(1, 2)
    here.wait()
    assert content(here.world.disk, path) == before
    assert here.led_again().gets() == ["a*", "b*"]


def test_load_under_way_ends_with_the_resignation() -> None:
    before = LogQueue()
    before.published(*(f"{number:05}" for number in range(100)))
    world = before.world.after_power_cut(before.world.disk.left_by_a_kill())
    world.disk.cold = True
    here = LogQueue(world, epoch=2, load=False)
    loaded: list[HeadraceError | None] = []
    here.store.load(loaded.append)
    assert loaded == []
    here.store.resign()
    (error,) = loaded
    assert isinstance(error, ApiError)
    here.settle()
    assert len(loaded) == 1
    assert not here.partition._watchers
    assert first_held(here) == 0


def test_queue_is_loaded_again_after_other_terms_of_the_same_process() -> None:
    here = LogQueue()
    here.published("a", "b", "c", "d")
    assert here.gets(3) == ["a", "b", "c"]
    here.acknowledge(1, 3)
    here.wait()
    here.store.resign()
    here.partition.role.follow(BrokerId(7), LeaderEpoch(2))
    here.partition.role.lead(LeaderEpoch(3))
    again = here.led_again()
    assert again.gets() == ["b*", "d*"]

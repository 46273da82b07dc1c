"""Partitions left out of fetches for a while: which, for how long, and what ends it."""

from types import SimpleNamespace
from typing import Any

from headrace.model.nouns import TopicPartition
from headrace.replication.followed_partition import FollowedPartition
from headrace.replication.paused_partitions import FULL_SECONDS, PausedPartitions
from tests.support.coordination.groups_kit import HandClock

KEYS = [(b"i" * 16, index) for index in range(3)]
HOLD_SECONDS = 0.25


class Followers:
    """Three followed partitions: 0 in a directory of its own, 1 and 2 in another."""

    def __init__(self) -> None:
        self.clock = HandClock()
        contexts = [SimpleNamespace(full=False), SimpleNamespace(full=False)]
        self.contexts = contexts
        self.throttle: Any = SimpleNamespace(
            names_any=False, exceeded=False, hold_seconds=lambda: HOLD_SECONDS,
            throttles=lambda topic, index: index in self.named, watch=self._watch,
            unwatch=self._unwatch,
        )  # fmt: skip
        self.named: set[int] = set()
        self.watchers: list[Any] = []
        self.members = {key: self._member(key, contexts[min(key[1], 1)]) for key in KEYS}
        self.ready: dict[Any, None] = dict.fromkeys(KEYS)
        self.sent = 0
        broker: Any = SimpleNamespace(
            clock=self.clock,
            throttles=SimpleNamespace(follower=self.throttle),
            directories=[SimpleNamespace(context=context) for context in contexts],
        )
        self.paused = PausedPartitions(broker, self.ready, self.members, self._changed, self._go_on)

    def _member(self, key: Any, context: Any) -> FollowedPartition:
        log: Any = SimpleNamespace(
            listen=lambda _: None, context=context, end_offset=5, cutting=False
        )
        partition: Any = SimpleNamespace(
            topic_id=key[0], topic_partition=TopicPartition("t", key[1]), log=log
        )
        follower: Any = SimpleNamespace(leader_high_watermark=9, ended=False)
        member = FollowedPartition(partition, follower, lambda _: None)
        member.succeeded()
        return member

    def _changed(self, key: Any) -> None:
        if self.members[key].paused:
            self.ready.pop(key, None)
        else:
            self.ready[key] = None

    def _go_on(self) -> None:
        self.sent += 1

    def _watch(self, callback: Any) -> None:
        self.watchers.append(callback)

    def _unwatch(self, callback: Any) -> None:
        self.watchers.remove(callback)

    def throttled(self, *indexes: int) -> None:
        """The throttle names these partitions, and its rate is exceeded."""
        self.named = set(indexes)
        self.throttle.names_any = self.throttle.exceeded = True


def test_partitions_of_a_full_directory_are_paused_and_those_of_another_are_fetched() -> None:
    here = Followers()
    here.contexts[1].full = True
    assert here.paused.hold()
    assert (list(here.ready), here.paused.count) == ([KEYS[0]], 2)
    here.clock.advance(FULL_SECONDS - 0.01)
    assert here.sent == 0
    here.contexts[1].full = False
    here.clock.advance(0.02)
    assert (set(here.ready), here.paused.count, here.sent) == (set(KEYS), 0, 1)


def test_each_pause_ends_after_its_time() -> None:
    here = Followers()
    here.contexts[1].full = True
    for round_ in range(1, 4):
        assert here.paused.hold()
        assert here.paused.count == 2
        here.clock.advance(FULL_SECONDS)
        assert (here.paused.count, here.sent) == (0, round_)


def test_nothing_is_sent_while_all_partitions_are_paused() -> None:
    here = Followers()
    here.throttled(0, 1, 2)
    assert not here.paused.hold()
    here.clock.advance(HOLD_SECONDS)
    assert (len(here.ready), here.sent) == (3, 1)


def test_a_throttled_partition_with_all_committed_records_is_fetched() -> None:
    here = Followers()
    here.throttled(0, 1)
    follower: Any = here.members[KEYS[0]].follower
    follower.leader_high_watermark = 5
    assert here.paused.hold()
    assert set(here.ready) == {KEYS[0], KEYS[2]}


def test_a_changed_throttle_releases_all_partitions_at_once() -> None:
    here = Followers()
    here.throttled(0, 1, 2)
    here.paused.hold()
    (changed,) = here.watchers
    here.throttle.exceeded = False
    changed()
    assert (len(here.ready), here.sent) == (3, 1)
    here.clock.advance(10)
    assert here.sent == 1, "the timer of the pause ended with it"


def test_a_partition_that_follows_no_longer_is_not_released() -> None:
    here = Followers()
    here.throttled(0, 1)
    here.paused.hold()
    here.paused.forget(KEYS[0])
    del here.members[KEYS[0]]
    assert here.paused.count == 1
    here.clock.advance(HOLD_SECONDS)
    assert (set(here.ready), here.sent) == ({KEYS[1], KEYS[2]}, 1)


def test_a_closed_fetcher_releases_nothing_and_leaves_the_throttle() -> None:
    here = Followers()
    here.throttled(0)
    here.paused.hold()
    here.paused.close()
    assert here.watchers == []
    here.clock.advance(10)
    assert (here.sent, here.clock.timers) == (0, 0)

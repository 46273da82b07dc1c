"""What the log refuses has not happened, in consumer groups and share groups alike."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from headrace.broker.partition import Partition
from headrace.coordination.groups.modern.timers import (
    ASSIGN,
    JOIN,
    REBALANCE,
    SESSION,
    SYNC,
    Timers,
)
from headrace.coordination.groups.share.group import ShareGroup
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.deadlines import Deadlines
from tests.support.client.consumer_kit import Consumer, cluster, group_of, grown, settle
from tests.support.coordination.groups_kit import HandClock, Room
from tests.support.coordination.share_room import GROUP, ShareRoom, share_room
from tests.support.processes.broker import play, until

SESSION_SECONDS = 45.0


@contextmanager
def _log_refuses(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """No partition takes what coordinators write."""

    def refuse(self: Partition, batch: bytes, *, now_ms: int) -> None:
        raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)

    with patch.context() as meanwhile:
        meanwhile.setattr(Partition, "append_internal", refuse)
        yield


def _group(share: ShareRoom) -> ShareGroup | None:
    return share.share.describe(GROUP).group


def test_a_group_the_log_refuses_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with share_room(tmp_path) as share:
            with _log_refuses(monkeypatch):
                assert (await share.beat("a")).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert _group(share) is None
            assert (await share.beat("a")).error is ErrorCode.NONE
            assert share.members() == ["a"]

    play(story())


def test_a_join_the_log_refuses_has_not_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with share_room(tmp_path) as share:
            await share.join("a")
            group = _group(share)
            assert group is not None
            epochs = (group.epoch, group.target_epoch)
            with _log_refuses(monkeypatch):
                assert (await share.beat("b")).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert share.members() == ["a"]
            assert (group.epoch, group.target_epoch) == epochs
            assert "b" not in group.target

    play(story())


def test_a_consumer_group_looks_at_grown_topics_again_where_the_log_refused() -> None:
    place = Room(image=cluster({"t": 1}))
    one = Consumer(place, "a")
    settle(one)
    before = group_of(place).epoch
    grown(place, {"t": 3})
    place.partition.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert one.beat().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group_of(place).epoch == before
    place.partition.refusal = None
    settle(one)
    assert group_of(place).epoch == before + 1
    assert one.count == 3


@pytest.mark.parametrize("leaves", [True, False], ids=["leave", "session"])
def test_a_member_whose_end_the_log_refuses_is_missed_a_session_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaves: bool
) -> None:
    async def story() -> None:
        async with share_room(tmp_path) as share:
            await share.join("a")
            with _log_refuses(monkeypatch):
                if leaves:
                    refused = await share.beat("a", -1)
                    assert refused.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
                else:
                    await share.advance(SESSION_SECONDS)
            assert share.members() == ["a"]
            await share.advance(SESSION_SECONDS)
            assert share.members() == []

    play(story())


def test_a_member_whose_leave_the_log_refuses_is_missed_a_session_later() -> None:
    place = Room(image=cluster({"t": 4}))
    one, two = Consumer(place, "a"), Consumer(place, "b")
    settle(one, two)
    place.partition.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert two.leave().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    place.partition.refusal = None
    assert sorted(group_of(place).members) == ["a", "b"]
    for _ in range(12):
        place.clock.advance(5)
        one.beat()
    assert list(group_of(place).members) == ["a"]


def test_timers_that_were_ended_do_not_ring_and_those_of_another_group_do() -> None:
    clock = HandClock()
    deadlines = Deadlines(clock)
    rung: list[tuple[bool, str]] = []
    ended, going = Timers(), Timers()
    for timers in (ended, going):
        for kind in (SESSION, REBALANCE, JOIN, SYNC, ASSIGN):
            timers.arm(deadlines, kind, "m", 5, partial(rung.append, (timers is going, kind)))
    ended.end()
    going.end_of("m")
    assert not any(ended.is_armed(kind, "m") for kind in (SESSION, REBALANCE, JOIN, SYNC, ASSIGN))
    clock.advance(6)
    assert rung == [(True, ASSIGN)]


def test_what_a_share_groups_member_had_is_the_others_as_soon_as_it_leaves(tmp_path: Path) -> None:
    async def story() -> None:
        async with share_room(tmp_path) as share:
            share.configure(share_assignment_interval_ms="0")
            await share.join("a", "b")
            group = _group(share)
            assert group is not None
            await share.beat("b", -1)
            assert (group.target_epoch, set(group.target)) == (group.epoch, {"a"})
            await until(lambda: not group.timers.is_armed(SESSION, "b"))
            assert group.timers.is_armed(SESSION, "a")

    play(story())

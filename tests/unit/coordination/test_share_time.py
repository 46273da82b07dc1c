"""Share groups by a clock that the test moves: locks, sessions, assignments, and the window."""

from pathlib import Path

import pytest

from headrace.coordination.share.acknowledgements import AckKind
from headrace.delivery.cursor_state import CursorState
from headrace.delivery.record_states import RecordState, StateBatch
from headrace.model.errors import ErrorCode
from headrace.model.nouns import Offset
from headrace.testing.disk import SimDisk
from tests.support.coordination.share_room import GROUP, TOPIC, ShareRoom, share_room
from tests.support.processes.broker import play, until

ACCEPT, RELEASE, REJECT, RENEW = AckKind.ACCEPT, AckKind.RELEASE, AckKind.REJECT, AckKind.RENEW
LOCK_SECONDS, SESSION_SECONDS = 30.0, 45.0
MOMENT = 1 / 1024
"""Exact in binary, so that sums of times are."""
LATE = ErrorCode.INVALID_RECORD_STATE


def test_a_lock_lasts_as_long_as_it_should_and_no_longer(tmp_path: Path) -> None:
    async def story() -> None:
        async with share_room(tmp_path) as share:
            await share.join("a", "b")
            await share.write(3)
            assert await share.fetch("a") == {0: 1, 1: 1, 2: 1}
            assert await share.ack("a", 0, 0, ACCEPT) is ErrorCode.NONE
            await share.advance(LOCK_SECONDS - MOMENT)
            assert await share.fetch("b") == {}
            await share.advance(MOMENT)
            assert share.share.partitions.counts.timed_out == 2
            assert await share.ack("a", 1, 2, ACCEPT) is LATE
            assert await share.fetch("b") == {1: 2, 2: 2}

    play(story())


def test_who_waits_is_woken_when_a_lock_runs_out(tmp_path: Path) -> None:
    async def story() -> None:
        async with share_room(tmp_path) as share:
            await share.join("a")
            await share.write(1)
            assert await share.fetch("a") == {0: 1}
            woken: list[str] = []
            partition = await share.partition()
            partition.delivery.watch(lambda: woken.append("b"))
            await share.advance(LOCK_SECONDS - MOMENT)
            assert woken == []
            await share.advance(MOMENT)
            assert woken == ["b"]

    play(story())


def test_locks_of_several_times_run_out_one_after_the_other(tmp_path: Path) -> None:
    async def story() -> None:
        async with share_room(tmp_path) as share:
            await share.join("a", "b")
            await share.write(1)
            assert await share.fetch("a") == {0: 1}
            await share.advance(10)
            await share.write(1)
            assert await share.fetch("b") == {1: 1}
            await share.advance(20)
            assert (await share.partition()).out == 1
            await share.advance(10 - MOMENT)
            assert (await share.partition()).out == 1
            await share.advance(MOMENT)
            assert (await share.partition()).out == 0

    play(story())


def test_a_renewed_lock_lasts_once_more_from_then_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with share_room(tmp_path) as share:
            await share.join("a", "b")
            await share.write(2)
            assert await share.fetch("a") == {0: 1, 1: 1}
            await share.advance(20)
            assert await share.ack("a", 0, 0, RENEW) is ErrorCode.NONE
            await share.advance(10)
            assert await share.fetch("b") == {1: 2}, "what was not renewed"
            await share.advance(20 - MOMENT)
            assert await share.ack("b", 1, 1, ACCEPT) is ErrorCode.NONE
            assert await share.fetch("b") == {}
            await share.advance(MOMENT)
            assert await share.fetch("b") == {0: 2}

    play(story())


@pytest.mark.parametrize("how", ["leaves", "is lost"])
def test_locks_of_who_is_no_member_any_more_run_out_in_their_time(tmp_path: Path, how: str) -> None:
    """Its last acknowledgement may still come; if it never does, others have the records."""

    async def story() -> None:
        lock_ms = "60000"
        async with share_room(tmp_path, share_record_lock_duration_ms=lock_ms) as share:
            await share.join("a", "b")
            await share.write(2)
            assert await share.fetch("a") == {0: 1, 1: 1}
            if how == "leaves":
                assert (await share.beat("a", -1)).error is ErrorCode.NONE
            await share.advance(60 - MOMENT)
            assert share.members() == []
            assert await share.ack("b", 0, 0, ACCEPT) is LATE, "nobody answers for another"
            assert await share.ack("a", 0, 0, ACCEPT) is ErrorCode.NONE
            assert await share.fetch("b") == {}
            await share.advance(MOMENT)
            assert await share.fetch("b") == {1: 2}
            assert await share.ack("a", 1, 1, ACCEPT) is LATE

    play(story())


def test_a_member_is_lost_one_session_after_it_was_last_heard_of(tmp_path: Path) -> None:
    async def story() -> None:
        async with share_room(tmp_path) as share:
            await share.join("a", "b")
            await share.advance(SESSION_SECONDS - MOMENT)
            assert share.members() == ["a", "b"]
            assert (await share.beat("a")).error is ErrorCode.NONE
            await share.advance(MOMENT)
            assert share.members() == ["a"]
            await share.advance(SESSION_SECONDS - 2 * MOMENT)
            assert share.members() == ["a"]
            await share.advance(MOMENT)
            assert share.members() == []

    play(story())


def test_the_session_of_a_former_membership_ends_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with share_room(tmp_path) as share:
            await share.join("a")
            await share.advance(20)
            assert (await share.beat("a", -1)).error is ErrorCode.NONE
            await share.join("a")
            await share.advance(SESSION_SECONDS - MOMENT)
            assert share.members() == ["a"]
            await share.advance(MOMENT)
            assert share.members() == []

    play(story())


def test_members_of_before_a_restart_have_one_session_to_be_heard_of(tmp_path: Path) -> None:
    disk = SimDisk()

    async def before() -> None:
        async with share_room(tmp_path, disk, kill=True) as share:
            await share.join("a", "b")

    async def after() -> None:
        async with share_room(tmp_path, disk) as share:
            assert share.members() == ["a", "b"]
            await share.advance(SESSION_SECONDS - MOMENT)
            assert share.members() == ["a", "b"]
            await share.advance(MOMENT)
            assert share.members() == []

    play(before())
    play(after())


def test_members_who_come_within_an_interval_share_the_first_assignment(tmp_path: Path) -> None:
    async def story() -> None:
        async with share_room(tmp_path, partitions=2) as share:
            first = await share.beat("a")
            assert first.assigned == frozenset()
            assert first.interval_ms <= 1000, "it is to come soon"
            await until(lambda: share.kept(1) is not None)
            await share.advance(0.5)
            assert (await share.beat("b")).assigned == frozenset()
            await share.advance(0.5 - MOMENT)
            assert (await share.beat("a", first.epoch)).assigned is None
            await share.advance(MOMENT)
            told = await share.beat("a", first.epoch)
            other = await share.beat("b", first.epoch)
            assert told.assigned is not None
            assert other.assigned is not None
            assert len(told.assigned) == len(other.assigned) == 1
            assert told.assigned != other.assigned
            assert told.interval_ms == 5000
            assert (await share.beat("a", told.epoch)).assigned is None, "told once"

    play(story())


def test_the_next_assignment_comes_one_interval_after_the_last(tmp_path: Path) -> None:
    async def story() -> None:
        async with share_room(tmp_path, partitions=2) as share:
            await share.join("a")
            await share.advance(1)
            assert _shares(share) == [2]
            await share.advance(0.5)
            await share.join("b")
            await share.advance(0.5 - MOMENT)
            assert _shares(share) == [2]
            await share.advance(MOMENT)
            assert _shares(share) == [1, 1]

    play(story())


def _shares(share: ShareRoom) -> list[int]:
    """How many partitions each member is to read, by the group's present targets."""
    group = share.share.describe(GROUP).group
    return [] if group is None else [len(parts) for parts in group.target.values()]


def test_a_member_may_be_one_epoch_behind_and_no_more(tmp_path: Path) -> None:
    async def story() -> None:
        async with share_room(tmp_path, share_assignment_interval_ms="0") as share:
            first = await share.beat("a")
            await share.join("b")
            second = await share.beat("a", first.epoch)
            assert second.epoch > first.epoch
            assert (await share.beat("a", first.epoch)).epoch == second.epoch
            await share.join("c", "d")
            third = await share.beat("a", second.epoch)
            assert third.epoch > second.epoch + 1
            assert (await share.beat("a", second.epoch)).error is ErrorCode.NONE
            for epoch in (first.epoch, second.epoch + 1, third.epoch + 1):
                refused = await share.beat("a", epoch)
                assert refused.error is ErrorCode.FENCED_MEMBER_EPOCH
            assert (await share.beat("a")).epoch == third.epoch, "it may join again"

    play(story())


def test_a_group_has_no_more_members_than_it_may(tmp_path: Path) -> None:
    async def story() -> None:
        async with share_room(tmp_path, of_broker={"group_share_max_size": "2"}) as share:
            await share.join("a", "b")
            assert (await share.beat("c")).error is ErrorCode.GROUP_MAX_SIZE_REACHED
            assert (await share.beat("a")).error is ErrorCode.NONE, "who is in it may join again"
            assert (await share.beat("b", -1)).error is ErrorCode.NONE
            await share.join("c")
            assert share.members() == ["a", "c"]

    play(story())


# What is kept, and what the log has


def test_what_is_kept_of_offsets_the_log_lost_says_nothing_of_new_ones(tmp_path: Path) -> None:
    async def story() -> None:
        async with share_room(tmp_path) as share:
            await share.join("a")
            await share.write(1, batches=3)
            done = StateBatch(1, 5, RecordState.ACKNOWLEDGED, 1)
            later = StateBatch(6, 6, RecordState.AVAILABLE, 3)
            kept: list[ErrorCode | None] = []
            change = CursorState(0, (done, later), 5)
            share.share.states.write(share.key(0), share.state_epoch(), 0, change, kept.append)
            await until(lambda: kept == [None])
            assert await share.fetch("a") == {0: 1}
            await share.write(1, batches=5)
            assert await share.fetch("a") == dict.fromkeys(range(3, 8), 1)

    play(story())


def test_a_group_that_was_beyond_the_end_of_the_log_begins_there(tmp_path: Path) -> None:
    async def story() -> None:
        async with share_room(tmp_path) as share:
            await share.join("a")
            await share.write(1, batches=3)
            kept: list[ErrorCode | None] = []
            share.share.states.initialize(
                [(share.key(0), 50)], share.state_epoch() + 1, kept.append
            )
            await until(lambda: kept == [None])
            assert (await share.partition()).start == 3
            await share.write(1)
            assert await share.fetch("a") == {3: 1}

    play(story())


def test_records_go_when_the_log_s_front_goes_whoever_holds_them(tmp_path: Path) -> None:
    async def story() -> None:
        async with share_room(tmp_path) as share:
            await share.join("a")
            await share.write(1, batches=5)
            assert len(await share.fetch("a")) == 5
            log = share.here.broker.partition(TOPIC, 0).log
            log.delete_records(Offset(3))
            assert await share.fetch("a") == {}
            assert ((await share.partition()).start, (await share.partition()).out) == (3, 2)
            share.share.partitions.forget(share.key(0))
            assert (await share.partition()).start == 3, "as is known before anybody fetches"

    play(story())


def test_a_record_is_given_up_after_as_many_deliveries_as_the_group_allows(tmp_path: Path) -> None:
    async def story() -> None:
        async with share_room(tmp_path, share_delivery_count_limit="3") as share:
            await share.join("a")
            await share.write(1)
            for tries in (1, 2, 3):
                assert await share.fetch("a") == {0: tries}
                await share.advance(LOCK_SECONDS)
            assert await share.fetch("a") == {}
            assert (await share.partition()).start == 1

    play(story())


def test_state_that_could_not_be_made_is_made_after_the_next_heartbeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with share_room(tmp_path, share_assignment_interval_ms="0") as share:
            with monkeypatch.context() as patch:
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
                patch.setattr(share.share.states, "make", lambda keys, epoch, done: done(error))
                first = await share.beat("a")
                assert first.error is ErrorCode.NONE
            assert share.kept(0) is None
            again = await share.beat("a", first.epoch)
            assert (again.error, again.interval_ms) == (ErrorCode.NONE, 1000)
            await until(lambda: share.kept(0) is not None)
            await until(lambda: share.share.describe(GROUP).group.target["a"])  # type: ignore[union-attr]
            told = await share.beat("a", again.epoch)
            assert told.assigned is not None
            assert len(told.assigned) == 1

    play(story())


# The window of what may be under way


async def _window(share: ShareRoom, count: int, *, batches: int = 1) -> None:
    await share.join("a")
    await share.write(count, batches=batches)


@pytest.mark.parametrize(("exactly", "given"), [(True, 100), (False, 150)])
def test_the_window_is_passed_by_whole_batches_only(
    tmp_path: Path, exactly: bool, given: int
) -> None:
    async def story() -> None:
        async with share_room(tmp_path, share_partition_max_record_locks="100") as share:
            await _window(share, 150)
            assert sorted(await share.fetch("a", exactly=exactly)) == list(range(given))
            assert await share.fetch("a", exactly=exactly) == {}
            assert await share.ack("a", 0, 59, ACCEPT) is ErrorCode.NONE
            expected = list(range(100, 150)) if exactly else []
            assert sorted(await share.fetch("a", exactly=exactly)) == expected

    play(story())


@pytest.mark.parametrize("exactly", [True, False])
def test_the_batch_that_fills_the_window_is_the_last(tmp_path: Path, exactly: bool) -> None:
    async def story() -> None:
        async with share_room(tmp_path, share_partition_max_record_locks="100") as share:
            await _window(share, 20, batches=7)
            assert sorted(await share.fetch("a", exactly=exactly)) == list(range(100))
            assert await share.ack("a", 0, 0, ACCEPT) is ErrorCode.NONE
            expected = [100] if exactly else list(range(100, 120))
            assert sorted(await share.fetch("a", exactly=exactly)) == expected

    play(story())


def test_what_came_back_is_handed_out_though_the_window_is_full(tmp_path: Path) -> None:
    async def story() -> None:
        async with share_room(tmp_path, share_partition_max_record_locks="100") as share:
            await _window(share, 10, batches=12)
            assert sorted(await share.fetch("a")) == list(range(100))
            assert await share.ack("a", 95, 99, RELEASE) is ErrorCode.NONE
            assert await share.fetch("a") == dict.fromkeys(range(95, 100), 2)

    play(story())

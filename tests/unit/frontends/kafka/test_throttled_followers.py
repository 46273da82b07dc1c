"""What a leader's throttle (KIP-73) holds back from a follower, and what wakes who waits for it."""

from pathlib import Path

import pytest

from headrace.config.value_types import LONG_MAX
from tests.support.cluster.followed import TOPIC, A, Asking, B, led, records_in, tell, turns
from tests.support.processes.broker import Room, append


async def throttled(here: Room, *partitions: int) -> None:
    """Lead two partitions with one record each, A in sync; the rate is far above its bound."""
    await led(here, A, partitions=2)
    for index in range(2):
        append(here.broker.partition(TOPIC, index), b"record")
    throttle = here.broker.throttles.leader
    throttle.set_replicas(TOPIC, frozenset(partitions))
    throttle.set_bound(10)
    throttle.count(1_000_000)


def test_who_is_out_of_sync_is_given_all_but_what_is_throttled(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await throttled(here, 0)
        given = await Asking(here, B).told(Asking(here, B).ask({0: (0, -1), 1: (0, -1)}))
        assert (records_in(given[0]), given[0].error_code) == (b"", 0)
        assert b"record" in records_in(given[1])

    tell(tmp_path, story)


def test_who_is_in_sync_is_given_it_and_it_counts(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await throttled(here, 0)
        before = here.broker.throttles.leader.bytes_per_second
        given = await Asking(here, A).at(0)
        assert b"record" in records_in(given)
        assert here.broker.throttles.leader.bytes_per_second > before

    tell(tmp_path, story)


def test_what_is_not_throttled_counts_for_nothing(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await throttled(here, 1)
        before = here.broker.throttles.leader.bytes_per_second
        await Asking(here, A).at(0)
        assert here.broker.throttles.leader.bytes_per_second <= before

    tell(tmp_path, story)


@pytest.mark.parametrize("by", ["rate", "replicas"])
def test_who_waits_for_what_is_held_back_is_given_it_once_it_is_free(
    tmp_path: Path, by: str
) -> None:
    async def story(here: Room) -> None:
        await throttled(here, 0)
        asking = Asking(here, B)
        await asking.told(asking.ask({0: (0, -1)}, wait_ms=0))
        waiting = asking.ask({}, wait_ms=60_000)
        await turns()
        assert not waiting.done
        if by == "rate":
            here.broker.throttles.leader.set_bound(LONG_MAX)
        else:
            here.broker.throttles.leader.set_replicas(TOPIC, None)
        here.broker.clock.turn()  # type: ignore[attr-defined]
        assert b"record" in records_in((await asking.told(waiting))[0])
        assert not here.broker.throttles.leader._watchers

    tell(tmp_path, story)

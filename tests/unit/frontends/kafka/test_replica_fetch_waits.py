"""What a follower that waits is woken by, and the sessions it asks in."""

from pathlib import Path

import pytest

from headrace.model.errors import ErrorCode
from tests.support.cluster.followed import (
    EPOCH,
    REGISTERED,
    A,
    Asking,
    B,
    code,
    dispatcher,
    is_flushed,
    lead,
    led,
    records_in,
    tell,
    turns,
)
from tests.support.processes.broker import Room, append, until

# --- waiting ------------------------------------------------------------------------------------


def test_a_follower_waits_for_the_log_to_grow_and_not_for_its_flush(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A, B)
        asking = Asking(here)
        await asking.at(0)
        waiting = asking.ask({})
        await turns()
        assert not waiting.done
        append(partition, b"new")
        here.broker.clock.turn()  # type: ignore[attr-defined]
        assert waiting.done
        assert b"new" in records_in((await asking.told(waiting))[0])

    tell(tmp_path, story)


@pytest.mark.parametrize("session", [True, False])
def test_a_follower_is_told_of_a_new_high_watermark_at_once(tmp_path: Path, session: bool) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A, B)
        append(partition)
        await until(is_flushed(partition))
        asking = Asking(here, session=session)
        await asking.told(asking.ask({0: (1, EPOCH)}, wait_ms=0))
        waiting = asking.ask({} if session else {0: (1, EPOCH)})
        await turns()
        assert not waiting.done
        await Asking(here, B).at(1)
        told = (await asking.told(waiting))[0]
        assert (told.high_watermark, told.records) == (1, b"")

    tell(tmp_path, story)


def test_a_new_term_is_told_to_a_follower_that_waits(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await led(here, A)
        asking = Asking(here)
        await asking.at(0)
        waiting = asking.ask({})
        await turns()
        lead(here, A, epoch=EPOCH + 1)
        assert code((await asking.told(waiting))[0]) is ErrorCode.FENCED_LEADER_EPOCH

    tell(tmp_path, story)


def test_a_term_of_other_replicas_hears_of_a_follower_that_waits(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A)
        append(partition)
        await until(is_flushed(partition))
        asking = Asking(here)
        await asking.at(1)
        waiting = asking.ask({})
        await turns()
        term = lead(here, A, assigned=(A,), version=1)
        await turns()
        assert not waiting.done
        append(partition)
        assert b"v" in records_in((await asking.told(waiting))[0])
        here.broker.clock.advance(20)  # type: ignore[attr-defined]
        await asking.at(2)
        assert term.shrink(here.broker.clock.monotonic(), 10.0) is None
        assert partition.high_watermark == 2

    tell(tmp_path, story)


def test_nobody_watches_after_a_fetch_without_a_session_and_after_a_session(
    tmp_path: Path,
) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A)
        term = partition.role.term
        assert term is not None
        alone = Asking(here, session=False)
        waiting = alone.ask({0: (0, -1)})
        assert (len(partition._watchers), len(term._watchers)) == (1, 1)
        append(partition)
        await alone.told(waiting)
        assert (len(partition._watchers), len(term._watchers)) == (0, 0)
        asking = Asking(here)
        await asking.at(0)
        assert (len(partition._watchers), len(term._watchers)) == (1, 1)
        asking.session_epoch = -1
        await asking.told(asking.ask({}, wait_ms=0))
        assert (len(partition._watchers), len(term._watchers)) == (0, 0)

    tell(tmp_path, story)


# --- sessions -----------------------------------------------------------------------------------


def test_clients_neither_evict_nor_enter_followers_sessions(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A)
        append(partition)
        shared = dispatcher(here).shared
        asking = Asking(here, shared=shared)
        await asking.at(0)
        here.broker.clock.advance(1000)  # type: ignore[attr-defined]
        client = Asking(here, -1, shared=shared)
        client.registration = -1
        await client.at(0, -1, wait_ms=0)
        assert client.session_id != 0
        for thief in (Asking(here, -1, shared=shared), Asking(here, B, shared=shared)):
            thief.registration = -1 if thief.broker < 0 else REGISTERED
            thief.session_id, thief.session_epoch = asking.session_id, 1
            answer = await thief.answered(thief.ask({}, wait_ms=0))
            assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            thief.session_id, thief.session_epoch = asking.session_id, -1
            await thief.answered(thief.ask({}, wait_ms=0))
        assert (await asking.told(asking.ask({}, wait_ms=0)))[0].records

    tell(tmp_path, story, max_incremental_fetch_session_cache_slots="1")


def test_a_restarted_follower_leaves_no_session_behind(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await led(here, A)
        shared = dispatcher(here).shared
        for registration in (REGISTERED, REGISTERED, REGISTERED + 1):
            asking = Asking(here, shared=shared)
            asking.registration = registration
            await asking.at(0)
        assert len(shared.fetch_sessions) == 1
        second = Asking(here, shared=shared)
        second.registration = REGISTERED + 1
        await second.at(0)
        assert len(shared.fetch_sessions) == 2
        await Asking(here, B, shared=shared).at(0)
        assert len(shared.fetch_sessions) == 3

    tell(tmp_path, story)

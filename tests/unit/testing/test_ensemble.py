"""The store that simulated brokers share keeps the stores' contract, between sessions too."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from headrace.ports.store import BadVersion, NoNode, SessionEvents, SessionLost, Store
from headrace.testing.sim.ensemble import SESSION_SECONDS, Ensemble
from headrace.testing.sim.loop import SimLoop
from tests.support.queues.store_contract import StoreContract


class TestEnsemble(StoreContract):
    """Each session is as good as a store of one's own."""

    @pytest.fixture(autouse=True)
    def places(self) -> None:
        self.ensembles: dict[Path, Ensemble] = {}

    def open(self, place: Path) -> Store:
        return self.ensembles.setdefault(place, Ensemble(0)).session()


def play(seed: int, story: Callable[[Ensemble], Coroutine[Any, Any, None]]) -> None:
    SimLoop(seed).play(story(Ensemble(seed)))


@pytest.mark.parametrize("seed", range(5))
def test_a_change_is_told_to_the_watches_of_all_sessions(seed: int) -> None:
    async def story(ensemble: Ensemble) -> None:
        one, two = ensemble.session(), ensemble.session()
        heard: list[str] = []
        await one.create("/w", b"")
        two.watch("/w", heard.append)
        await one.set("/w", b"1")
        await one.create("/w/child", b"")
        await asyncio.sleep(1)
        assert heard == ["/w", "/w"]
        assert (await two.get("/w")).value == b"1"

    play(seed, story)


@pytest.mark.parametrize("seed", range(10))
def test_of_two_writers_at_one_version_one_is_refused(seed: int) -> None:
    async def story(ensemble: Ensemble) -> None:
        sessions = [ensemble.session() for _ in range(2)]
        await sessions[0].create("/a", b"")
        results = await asyncio.gather(
            *(session.set("/a", b"x", 0) for session in sessions), return_exceptions=True
        )
        assert sorted(type(result).__name__ for result in results) == ["BadVersion", "Node"]
        with pytest.raises(BadVersion):
            await sessions[0].delete("/a", 0)

    play(seed, story)


def test_a_session_that_ends_takes_its_ephemeral_nodes_with_it_and_nobody_elses() -> None:
    async def story(ensemble: Ensemble) -> None:
        one, two = ensemble.session(), ensemble.session()
        await one.create("/one", b"", ephemeral=True)
        await two.create("/two", b"", ephemeral=True)
        assert (await two.get("/one")).owner == one.number != two.number
        heard: list[str] = []
        two.watch("/one", heard.append)
        ensemble.end(one)
        await asyncio.sleep(1)
        assert heard == ["/one"]
        with pytest.raises(NoNode):
            await two.get("/one")
        await two.get("/two")
        with pytest.raises(SessionLost):
            await one.get("/two")

    play(1, story)


def test_after_an_expiry_its_watchers_look_again_and_what_was_under_way_is_not_done() -> None:
    async def story(ensemble: Ensemble) -> None:
        events = SessionEvents()
        words: list[str] = []
        events.lost = lambda: words.append("lost")
        events.expired = lambda: words.append("expired")
        session = ensemble.session("", events)
        heard: list[str] = []
        session.watch("/w", heard.append)
        former = session.number
        asking = asyncio.ensure_future(session.create("/late", b"", ephemeral=True))
        await asyncio.sleep(0)
        ensemble.expire(session)
        assert (words, heard) == (["lost", "expired"], ["/w"])
        with pytest.raises(SessionLost):
            await asking
        with pytest.raises(NoNode):
            await session.get("/late")
        assert session.session != former

    play(1, story)


def test_who_fell_silent_was_last_heard_then() -> None:
    async def story(ensemble: Ensemble) -> None:
        session = ensemble.session()
        await asyncio.sleep(1)
        assert session.last_heard() == asyncio.get_running_loop().time()
        silent_since = session.last_heard()
        session.fall_silent()
        await asyncio.sleep(1)
        assert session.last_heard() == silent_since

    play(1, story)


def test_who_is_cut_off_for_a_while_goes_on_and_looks_again() -> None:
    async def story(ensemble: Ensemble) -> None:
        events, words = SessionEvents(), list[str]()
        events.lost = lambda: words.append("lost")
        events.reconnected = lambda: words.append("reconnected")
        session, other = ensemble.session("", events), ensemble.session()
        await session.create("/mine", b"", ephemeral=True)
        heard: list[str] = []
        session.watch("/w", heard.append)
        asking = asyncio.ensure_future(session.set("/mine", b"late"))
        await asyncio.sleep(0)
        ensemble.cut_off(session)
        cut_since = session.last_heard()
        with pytest.raises(SessionLost):
            await asking
        with pytest.raises(SessionLost):
            await session.get("/mine")
        await other.create("/w", b"")
        await asyncio.sleep(SESSION_SECONDS / 2)
        assert (words, heard) == (["lost"], [])
        assert session.last_heard() == cut_since
        ensemble.reach_again(session)
        assert (words, heard) == (["lost", "reconnected"], ["/w"])
        await asyncio.sleep(SESSION_SECONDS)
        assert (await session.get("/mine")).owner == session.session
        assert session.last_heard() > cut_since

    play(1, story)


def test_who_is_cut_off_for_too_long_comes_back_in_another_session() -> None:
    async def story(ensemble: Ensemble) -> None:
        events, words = SessionEvents(), list[str]()
        events.expired = lambda: words.append("expired")
        session, other = ensemble.session("", events), ensemble.session()
        await session.create("/mine", b"", ephemeral=True)
        former = session.session
        ensemble.cut_off(session)
        await asyncio.sleep(SESSION_SECONDS * 0.9)
        await other.get("/mine")
        await asyncio.sleep(SESSION_SECONDS * 0.2)
        with pytest.raises(NoNode):
            await other.get("/mine")
        assert (words, session.session) == ([], former)
        ensemble.reach_again(session)
        assert words == ["expired"]
        assert session.session != former
        await session.create("/mine", b"", ephemeral=True)
        assert (await other.get("/mine")).owner == session.session

    play(1, story)

"""The store on a real ZooKeeper: the contract of all stores, and what only a network can do."""

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.ports.store import NoNode, SessionEvents, Store
from headrace.posix.zookeeper.zookeeper_store import ZooKeeperSettings, ZooKeeperStore
from tests.support.queues.store_contract import StoreContract
from tests.support.zookeeper import ZooKeeper


class TestZooKeeperStore(StoreContract):
    @pytest.fixture(autouse=True)
    def take(self, zookeeper: ZooKeeper) -> None:
        self.connect = f"{zookeeper.hosts}/contract-{uuid4().hex}"

    def open(self, place: Path) -> Store:
        return ZooKeeperStore(ZooKeeperSettings(self.connect, 6.0), SessionEvents())


class TestOnAnEnsemble(StoreContract):
    @pytest.fixture(autouse=True)
    def take(self, ensemble: ZooKeeper) -> None:
        self.connect = f"{ensemble.hosts}/deep/contract-{uuid4().hex}"

    def open(self, place: Path) -> Store:
        return ZooKeeperStore(ZooKeeperSettings(self.connect, 6.0), SessionEvents())


def test_each_question_is_told_with_the_seconds_to_its_answer(zookeeper: ZooKeeper) -> None:
    async def story() -> list[float]:
        events, told = SessionEvents(), list[float]()
        events.answered = told.append
        connect = f"{zookeeper.hosts}/told-{uuid4().hex}"
        store = ZooKeeperStore(ZooKeeperSettings(connect, 6.0), events)
        await store.create("/here", b"")
        with pytest.raises(NoNode):
            await store.get("/not-here")
        await store.close()
        return told

    told = asyncio.run(story())
    assert len(told) == 2
    assert all(0 < seconds < 6 for seconds in told)

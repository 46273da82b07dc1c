"""The store on a real ZooKeeper: the contract of all stores, and what only a network can do."""

from pathlib import Path
from uuid import uuid4

import pytest

from headrace.ports.store import SessionEvents, Store
from headrace.posix.zookeeper.zookeeper_store import ZooKeeperSettings, ZooKeeperStore
from tests.support.store_contract import StoreContract
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

"""One ZooKeeper, and an ensemble of three, for all tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.support.zookeeper import ZooKeeper


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A server that no test pauses or ends; each test takes a chroot of its own."""
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as found:
        yield found


@pytest.fixture(scope="session")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """Three servers that no test pauses or ends."""
    with ZooKeeper(tmp_path_factory.mktemp("ensemble"), 3) as found:
        yield found

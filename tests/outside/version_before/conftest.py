"""The version before, as a checkout of its own; brokers of both versions on one ZooKeeper.

`make version-before BEFORE=<checkout>` names it: made by `git worktree add` and `make setup-dev`.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import cluster, sockets_that_clients_forget, zookeeper
from tests.outside.clients.clients.base import QUICK
from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.processes.process import HEADRACE
from tests.support.zookeeper import ZooKeeper

__all__ = ["cluster", "sockets_that_clients_forget", "zookeeper"]

VARIABLE = "HEADRACE_BEFORE"
MIXES = {"two-new-one-old": "NNO", "one-new-two-old": "NOO"}


@pytest.fixture(scope="session")
def before() -> Path:
    """The Python of the version before."""
    given = os.environ.get(VARIABLE)
    if not given:
        pytest.skip("make version-before BEFORE=<checkout of the version before>")
    python = Path(given).absolute() / ".venv" / "bin" / "python"
    assert python.exists(), f"{python} does not exist: make setup-dev there"
    return python


@pytest.fixture(scope="session")
def headrace_before(before: Path) -> Path:
    """The command of the version before."""
    return before.with_name("headrace")


@pytest.fixture(scope="module", params=MIXES)
def commands(request: pytest.FixtureRequest, headrace_before: Path) -> list[Path]:
    """The headrace of each broker: N the new one, O the version before."""
    named = {"N": HEADRACE, "O": headrace_before}
    return [named[letter] for letter in MIXES[request.param]]


@pytest.fixture(scope="module")
def three_brokers(
    tmp_path_factory: pytest.TempPathFactory,
    zookeeper: ZooKeeper,
    commands: list[Path],
) -> Iterator[BrokerCluster]:
    """Brokers of both versions; topics ask for two in-sync replicas."""
    settings = {"min_insync_replicas": 2, **QUICK}
    place = tmp_path_factory.mktemp("brokers")
    with BrokerCluster(place, zookeeper.hosts, commands=commands, **settings) as found:
        yield found

"""Every scenario of every stock Python client, on three brokers with three replicas of all."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.outside.clients.clients.base import QUICK
from tests.outside.clients.scenarios import SCENARIOS
from tests.outside.clients.test_matrix import CLIENTS
from tests.support.cluster.broker_cluster import CALM_SESSION_MS, BrokerCluster
from tests.support.zookeeper import ZooKeeper


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeper) -> Iterator[str]:
    place = tmp_path_factory.mktemp("clients")
    calm: dict[str, Any] = {"zookeeper_session_timeout_ms": CALM_SESSION_MS}
    replicated: dict[str, Any] = {"default_replication_factor": 3, "min_insync_replicas": 2}
    with BrokerCluster(place, zookeeper.hosts, **calm, **replicated, **QUICK) as found:
        yield found.bootstrap


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.filterwarnings("default")
def test_a_stock_client_does_on_three_brokers(client: str, scenario: str, bootstrap: str) -> None:
    library = CLIENTS[client](bootstrap, replicas=3)
    if scenario in library.unsupported():
        pytest.skip(f"{client} has no such feature")
    SCENARIOS[scenario](library, f"t-{uuid.uuid4()}")

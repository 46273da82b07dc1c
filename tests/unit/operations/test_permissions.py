"""Operations: their permissions, by table."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.metadata_image import BrokerInfo, Endpoint
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId
from headrace.operations.describe_cluster import BrokerDescription, describe_cluster
from headrace.operations.permissions import PERMISSIONS, AdminOperation, Caller, Surface
from headrace.security.authorizer import AllowsAll, Operation, Resource, ResourceType
from headrace.security.identity import Identity

SOMEBODY = Identity("10.0.0.1", "metrics.listener")
INSIDE = Endpoint("INSIDE", "a", 1)
OUTSIDE = Endpoint("OUTSIDE", "b", 2)


class Refusing(AllowsAll):
    """Refuses everything."""

    allows_all = False

    def allows(self, identity: Identity, operation: Operation, resource: Resource) -> bool:
        """Refuse it."""
        return False


class Stage:
    """A broker's parts that operations ask."""

    def __init__(self, authorizer: AllowsAll) -> None:
        self.refused: list[Any] = []
        brokers = [
            BrokerInfo(BrokerId(1), (INSIDE, OUTSIDE), "r"),
            BrokerInfo(BrokerId(2), (INSIDE,)),
        ]
        image = SimpleNamespace(
            cluster_id="c", controller_id=BrokerId(2), brokers={b.broker_id: b for b in brokers},
            endpoint=lambda broker, listener: broker.endpoint(listener),
        )  # fmt: skip
        audit = SimpleNamespace(refused=lambda *refusal: self.refused.append(refusal))
        self.broker: Any = SimpleNamespace(image=image, authorizer=authorizer, audit=audit)


def test_every_operation_has_its_permission() -> None:
    assert set(PERMISSIONS) == set(AdminOperation)


def test_the_cluster_is_described_with_all_addresses_or_those_of_a_listener() -> None:
    broker = Stage(AllowsAll()).broker
    found = describe_cluster(broker, Caller(SOMEBODY, Surface.HTTP))
    assert (found.cluster_id, found.controller_id) == ("c", 2)
    assert found.brokers == (
        BrokerDescription(BrokerId(1), "r", (INSIDE, OUTSIDE)),
        BrokerDescription(BrokerId(2), None, (INSIDE,)),
    )
    found = describe_cluster(broker, Caller(SOMEBODY, Surface.HTTP), listener="OUTSIDE")
    assert found.brokers == (BrokerDescription(BrokerId(1), "r", (OUTSIDE,)),)


def test_a_refusal_is_audited_once_and_raised() -> None:
    stage = Stage(Refusing())
    with pytest.raises(ApiError) as refused:
        describe_cluster(stage.broker, Caller(SOMEBODY, Surface.HTTP))
    assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    cluster = Resource(ResourceType.CLUSTER, "kafka-cluster")
    assert stage.refused == [(SOMEBODY, Operation.DESCRIBE, cluster)]


def test_kafkas_clients_find_brokers_without_permission() -> None:
    stage = Stage(Refusing())
    assert len(describe_cluster(stage.broker, Caller(SOMEBODY, Surface.KAFKA)).brokers) == 2
    assert stage.refused == []

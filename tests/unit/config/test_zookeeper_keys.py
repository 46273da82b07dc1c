"""The keys of ZooKeeper, and what they mean together."""

import pytest

from headrace.config.broker import load
from headrace.model.errors import ConfigError

CONNECT = {"zookeeper.connect": "h:2181/kafka"}


def test_the_defaults_are_kafkas() -> None:
    config, warnings = load(flags=CONNECT)
    assert not warnings
    assert config.zookeeper_connect == "h:2181/kafka"
    assert config.zookeeper_session_timeout_ms == 18_000
    assert config.zookeeper_connection_timeout_ms is None
    assert config.zookeeper_max_in_flight_requests == 10
    assert not config.zookeeper_set_acl


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"zookeeper.set.acl": "true"}, "zookeeper.digest.credentials"),
        ({"broker.id": "1001"}, "reserved.broker.max.id=1000"),
        ({"node.id": "1001"}, "reserved.broker.max.id=1000"),
        ({"broker.id.generation.enable": "false"}, "broker.id=-1"),
    ],
)
def test_what_does_not_go_together_is_refused_with_zookeeper_only(
    given: dict[str, str], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        load(flags={**CONNECT, **given})
    load(flags=given)


@pytest.mark.parametrize(
    "given",
    [
        {"zookeeper.set.acl": "true", "zookeeper.digest.credentials": "us:secret"},
        {"broker.id": "1000"},
        {"broker.id": "1001", "broker.id.generation.enable": "false"},
        {"broker.id": "1001", "reserved.broker.max.id": "2000"},
    ],
)
def test_what_goes_together_is_taken(given: dict[str, str]) -> None:
    load(flags={**CONNECT, **given})


def test_several_replicas_are_doubtful_only_where_there_can_be_one_broker() -> None:
    wanted = {"default.replication.factor": "3"}
    assert load(flags=wanted)[1]
    assert not load(flags={**CONNECT, **wanted})[1]

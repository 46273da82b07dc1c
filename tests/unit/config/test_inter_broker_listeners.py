"""Which listeners brokers reach each other by."""

import pytest

from headrace.config.broker import BrokerConfig, load
from headrace.model.errors import ConfigError

TWO = {
    "listeners": "CLIENTS://127.0.0.1:1,BROKERS://127.0.0.1:2",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
}


def configured(**flags: str) -> BrokerConfig:
    return load(flags={**TWO, **{name.replace("_", "."): text for name, text in flags.items()}})[0]


def test_brokers_reach_each_other_by_the_listener_that_is_named_for_it() -> None:
    config = configured(inter_broker_listener_name="brokers")
    assert config.inter_broker_listener_name == "BROKERS"
    assert config.control_plane_listener_name is None


def test_unnamed_it_is_the_one_named_as_the_protocol_else_the_first_that_speaks_it() -> None:
    plain, _ = load(flags={"listeners": "PLAINTEXT://127.0.0.1:1"})
    assert plain.inter_broker_listener_name == "PLAINTEXT"
    assert configured().inter_broker_listener_name == "CLIENTS"
    both = {**TWO, "listeners": f"{TWO['listeners']},PLAINTEXT://127.0.0.1:3"}
    both["listener.security.protocol.map"] += ",PLAINTEXT:PLAINTEXT"
    assert load(flags=both)[0].inter_broker_listener_name == "PLAINTEXT"


def test_the_controller_may_have_a_listener_of_its_own_to_tell_by() -> None:
    config = configured(inter_broker_listener_name="CLIENTS", control_plane_listener_name="brokers")
    assert config.control_plane_listener_name == "BROKERS"


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ({"inter_broker_listener_name": "X"},
         "inter.broker.listener.name=X: there is no listener of that name"),
        ({"security_inter_broker_protocol": "SSL"},
         "security.inter.broker.protocol=SSL: no listener speaks it"),
        ({"security_inter_broker_protocol": "PLAINTEXT", "inter_broker_listener_name": "BROKERS"},
         "security.inter.broker.protocol=PLAINTEXT: inter.broker.listener.name is set"),
        ({"control_plane_listener_name": "X"},
         "control.plane.listener.name=X: there is no listener of that name"),
        ({"inter_broker_listener_name": "BROKERS", "control_plane_listener_name": "BROKERS"},
         "control.plane.listener.name=BROKERS: brokers reach each other by it"),
    ],
)  # fmt: skip
def test_a_listener_that_is_not_there_or_is_taken_stops_the_start(
    flags: dict[str, str], problem: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        configured(**flags)
    assert str(refused.value).startswith(problem)

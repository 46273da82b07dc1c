"""Listeners of AMQP among `listeners`: their ports, their names, and who is told of them."""

import pytest

from headrace.config.broker import BrokerConfig, load
from headrace.model.errors import ConfigError

KAFKA = "PLAINTEXT://127.0.0.1:9092"


def config(listeners: str, **more: str) -> BrokerConfig:
    """A configuration with these listeners."""
    named = {name.replace("_", "."): text for name, text in more.items()}
    return load(flags={"listeners": listeners, **named})[0]


@pytest.mark.parametrize(
    ("listener", "port"),
    [("AMQP://127.0.0.1", 5672), ("amqp://[::1]", 5672), ("AMQP://127.0.0.1:0", 0)],
)
def test_a_listener_of_amqp_stands_beside_kafkas_on_rabbitmqs_port(
    listener: str, port: int
) -> None:
    found = config(f"{KAFKA},{listener}").listeners
    assert [(each.name, each.port, each.protocol, each.kafka) for each in found] == [
        ("PLAINTEXT", 9092, "PLAINTEXT", True),
        ("AMQP", port, "AMQP", False),
    ]


def test_kafkas_listeners_need_a_port_still() -> None:
    with pytest.raises(ConfigError, match="is not NAME://host:port"):
        config("PLAINTEXT://127.0.0.1")


def test_a_listener_of_another_name_is_mapped_to_amqp_and_both_names_need_no_map() -> None:
    found = config(
        "INSIDE://127.0.0.1:1,APPS://127.0.0.1,AMQP://127.0.0.1:3",
        listener_security_protocol_map="INSIDE:PLAINTEXT,APPS:AMQP",
    ).listeners
    assert [(each.protocol, each.port) for each in found] == [
        ("PLAINTEXT", 1),
        ("AMQP", 5672),
        ("AMQP", 3),
    ]


def test_neither_clients_nor_brokers_of_kafka_are_told_of_it() -> None:
    made = config(f"AMQP://127.0.0.1,{KAFKA}")
    assert [str(each) for each in made.advertised_listeners] == [KAFKA]
    assert made.inter_broker_listener_name == "PLAINTEXT"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"inter_broker_listener_name": "AMQP"}, "there is no listener of that name"),
        ({"advertised_listeners": "AMQP://mine:5672"}, "are told no addresses; leave it out"),
    ],
)
def test_who_tells_them_of_it_is_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config(f"{KAFKA},AMQP://127.0.0.1", **settings)


def test_a_broker_without_a_listener_of_kafkas_is_refused() -> None:
    with pytest.raises(ConfigError, match="none of them speaks Kafka's protocol"):
        config("AMQP://127.0.0.1")


def test_it_is_not_opened_to_other_machines_unencrypted_unless_that_is_said() -> None:
    with pytest.raises(ConfigError, match="read passwords; let it speak AMQPS"):
        config(f"{KAFKA},AMQP://0.0.0.0")
    assert config(f"{KAFKA},AMQP://0.0.0.0", insecure_listeners="true").listeners[1].everywhere


def test_amqps_needs_a_certificate_and_its_clients_are_strangers_at_first() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.keystore"):
        config(f"{KAFKA},AMQPS://0.0.0.0")
    found = config(f"{KAFKA},AMQPS://0.0.0.0", ssl_keystore_location="/keys.pem")
    assert found.listeners[1].port == 5671
    assert found.connection_limits.begin_unknown == {"AMQPS"}

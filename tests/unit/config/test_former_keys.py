"""Keys of Kafka 2.0's server.properties: taken, and warned of with what to write now."""

import pytest

from headrace.config.broker import load
from headrace.config.former_keys import FORMER, WITHOUT_EFFECT


def test_host_and_port_become_listeners() -> None:
    config, warnings = load("host.name=127.0.0.1\nport=9093\n")
    assert [str(listener) for listener in config.listeners] == ["PLAINTEXT://127.0.0.1:9093"]
    assert "host.name and port: removed in Kafka 3; read as" in warnings[0]
    assert "listeners=PLAINTEXT://127.0.0.1:9093: write that instead" in warnings[0]


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("host.name=127.0.0.1", "PLAINTEXT://127.0.0.1:9092"),
        ("host.name=::1\nport=1", "PLAINTEXT://[::1]:1"),
        ("port=9093\ninsecure.listeners=true", "PLAINTEXT://:9093"),
    ],
)
def test_host_name_or_port_alone_sets_listeners(text: str, listener: str) -> None:
    config, _ = load(text)
    assert [str(each) for each in config.listeners] == [listener]


def test_advertised_host_and_port_become_advertised_listeners() -> None:
    config, warnings = load("host.name=127.0.0.1\nport=9093\nadvertised.host.name=kafka.example\n")
    assert [str(each) for each in config.advertised_listeners] == ["PLAINTEXT://kafka.example:9093"]
    assert any("advertised.listeners=PLAINTEXT://kafka.example:9093" in each for each in warnings)
    config, _ = load("host.name=127.0.0.1\nadvertised.host.name=h\nadvertised.port=1\n")
    assert [str(each) for each in config.advertised_listeners] == ["PLAINTEXT://h:1"]


def test_listeners_outweigh_host_and_port() -> None:
    config, warnings = load("listeners=PLAINTEXT://127.0.0.1:1\nport=9093\nhost.name=h\n")
    assert [listener.port for listener in config.listeners] == [1]
    assert warnings[0] == "host.name and port: removed in Kafka 3; ignored, as listeners is set"


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_keys_without_a_successor_are_warned_of(name: str) -> None:
    _, warnings = load(f"{name}=1\n")
    (warning,) = [each for each in warnings if each.startswith(f"{name}: ")]
    assert WITHOUT_EFFECT[name] in warning


def test_a_file_of_kafka_2_starts() -> None:
    assert len(FORMER) == 8
    load("".join(f"{name}=1\n" for name in sorted(FORMER)) + "insecure.listeners=true\n")

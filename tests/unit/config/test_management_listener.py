"""Listeners of the management API: by name, by their own key, and what they need."""

import pytest

from headrace.config.broker import load
from headrace.config.connection_limits import connection_limits
from headrace.model.errors import ConfigError

KAFKA, AMQP = "PLAINTEXT://127.0.0.1:9092", "AMQP://127.0.0.1"
NEEDS = "needs a listener of AMQP at the same broker: add AMQP://127.0.0.1:5672"


def listeners(*given: str, **flags: str) -> list[str]:
    """Return the listeners of a configuration."""
    by_key = {name.replace("_", "."): text for name, text in flags.items()}
    config, _ = load(flags={"listeners": ",".join((KAFKA, *given)), **by_key})
    return [str(listener) for listener in config.listeners]


def refusal(*given: str, **flags: str) -> str:
    with pytest.raises(ConfigError) as error:
        listeners(*given, **flags)
    return str(error.value)


@pytest.mark.parametrize(
    ("address", "bound"),
    [("127.0.0.1:15672", "127.0.0.1:15672"), (":0", "127.0.0.1:0"), ("[::1]:8", "[::1]:8")],
)
def test_the_key_adds_a_listener(address: str, bound: str) -> None:
    found = listeners(AMQP, management_listener=address)
    assert found == [KAFKA, f"{AMQP}:5672", f"MANAGEMENT://{bound}"]
    assert listeners(AMQP, f"MANAGEMENT://{bound}") == found


def test_default_ports_are_those_of_rabbitmq() -> None:
    secure = {
        "listener.name.management_ssl.ssl.keystore.location": "keys.pem",
        "listeners": f"{KAFKA},{AMQP},MANAGEMENT://127.0.0.1,MANAGEMENT_SSL://127.0.0.1",
    }
    config, _ = load(flags=secure)
    assert [listener.port for listener in config.listeners] == [9092, 5672, 15672, 15671]
    limits = connection_limits(config.listeners, config.values, frozenset())
    assert limits.apart == {"MANAGEMENT": 64, "MANAGEMENT_SSL": 64}


def test_a_start_without_an_amqp_listener_is_refused() -> None:
    assert refusal("MANAGEMENT://127.0.0.1:1") == f"listeners=MANAGEMENT://127.0.0.1:1: {NEEDS}"
    assert NEEDS in refusal(management_listener="127.0.0.1:1")


def test_a_plain_listener_is_refused_beyond_loopback() -> None:
    assert refusal(AMQP, management_listener="0.0.0.0:15672") == (
        "listeners=MANAGEMENT://0.0.0.0:15672: open to other machines without encryption: who"
        " listens on the way can read passwords; let it speak MANAGEMENT_SSL; to allow that, start"
        " with --insecure or set insecure.listeners=true"
    )


def test_an_address_of_another_form_and_a_second_listener_are_refused() -> None:
    assert refusal(AMQP, management_listener="15672") == (
        "management.listener=15672: '15672' is not host:port"
    )
    assert "two listeners have the name MANAGEMENT" in refusal(
        AMQP, "MANAGEMENT://127.0.0.1", management_listener="127.0.0.1:1"
    )

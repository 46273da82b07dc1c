"""Which listeners need leave to be opened: each protocol, on this machine and to others."""

import itertools

import pytest

from headrace.config.broker import BrokerConfig, load
from headrace.model.errors import ConfigError

HERE = ("127.0.0.1", "127.9.9.9", "[::1]", "[::ffff:127.0.0.1]", "localhost", "LOCALHOST")
TO_OTHERS = ("", "0.0.0.0", "[::]", "192.0.2.1", "[2001:db8::1]", "[::ffff:192.0.2.1]", "0",
             "broker.example", "localhost.example", "127.0.0.1.example", "127.1")  # fmt: skip
STORES = "ssl.keystore.location=b.pem\nssl.truststore.location=a.pem\n"
LOCKED = frozenset(
    {("SSL", "required"), *itertools.product(["SASL_SSL"], ["none", "requested", "required"])}
)
"""Protocol and `ssl.client.auth` that encrypt and authenticate."""
COMBINATIONS = list(
    itertools.product(
        ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), ("none", "requested", "required")
    )
)


def opened(protocol: str, auth: str, host: str, *, more: str = "") -> BrokerConfig:
    text = (
        f"listeners=DOOR://{host}:9094\nlistener.security.protocol.map=DOOR:{protocol}\n{STORES}"
        f"ssl.client.auth={auth}\n{more}"
    )
    return load(text)[0]


@pytest.mark.parametrize(("protocol", "auth"), COMBINATIONS)
@pytest.mark.parametrize("host", TO_OTHERS)
def test_a_listener_that_others_reach_encrypts_and_authenticates_or_has_leave(
    protocol: str, auth: str, host: str
) -> None:
    if (protocol, auth) in LOCKED:
        assert opened(protocol, auth, host).listeners
    else:
        with pytest.raises(ConfigError) as refused:
            opened(protocol, auth, host)
        (line,) = str(refused.value).splitlines()
        assert line.startswith(f"listeners=DOOR://{host}:9094: open to other machines without ")
        assert "headrace serve --secure" in line
        assert "start with --insecure or set insecure.listeners=true" in line
        assert ("ssl.client.auth=required" in line) is (protocol == "SSL")
    assert opened(protocol, auth, host, more="insecure.listeners=true\n").listeners


@pytest.mark.parametrize(("protocol", "auth"), COMBINATIONS)
@pytest.mark.parametrize("host", HERE)
def test_what_only_this_machine_reaches_needs_no_leave(protocol: str, auth: str, host: str) -> None:
    assert opened(protocol, auth, host).listeners


def test_one_open_listener_among_locked_ones_is_refused_by_itself() -> None:
    text = f"listeners=SASL_SSL://0.0.0.0:9093,PLAINTEXT://0.0.0.0:9092\n{STORES}"
    with pytest.raises(ConfigError, match=r"^listeners=PLAINTEXT://0\.0\.0\.0:9092: ") as refused:
        load(text)
    assert len(str(refused.value).splitlines()) == 1


def test_a_listeners_own_setting_counts_not_that_of_all() -> None:
    own = "listener.name.door.ssl.client.auth={}\n"
    assert opened("SSL", "none", "0.0.0.0", more=own.format("required")).listeners
    with pytest.raises(ConfigError, match="without authentication"):
        opened("SSL", "required", "0.0.0.0", more=own.format("requested"))


def test_a_listener_is_not_opened_wider_while_it_runs() -> None:
    config = opened("SSL", "required", "0.0.0.0")
    with pytest.raises(ConfigError, match="without authentication"):
        config.updated({"ssl.client.auth": "none"})


@pytest.mark.parametrize("leave", ["HEADRACE_INSECURE_LISTENERS"])
def test_the_environment_gives_leave_by_its_name_alone(leave: str) -> None:
    text = "listeners=PLAINTEXT://0.0.0.0:9092"
    assert load(text, {leave: "true"})[0].insecure_listeners
    with pytest.raises(ConfigError):
        load(text, {leave: "false"})


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "192.0.2.1", "broker.example"])
def test_metrics_are_for_this_machine_unless_there_is_leave(host: str) -> None:
    with pytest.raises(ConfigError, match="start with --insecure") as refused:
        load(f"metrics.listener={host}:9464")
    assert "--secure" not in str(refused.value)
    assert load(f"metrics.listener={host}:9464\ninsecure.listeners=true")[0].metrics_address

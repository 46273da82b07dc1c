"""TLS of RocketMQ listeners: the three modes, their certificates, and other machines."""

import pytest

from headrace.config.broker import BrokerConfig, load
from headrace.config.tls_settings import settings_by_listener
from headrace.model.errors import ConfigError

STORE, TRUST = "ssl.keystore.location=b.pem\n", "ssl.truststore.location=a.pem\n"
MODES = ("disabled", "permissive", "enforcing")


def loaded(mode: str = "", more: str = "", host: str = "127.0.0.1") -> BrokerConfig:
    """A configuration with a RocketMQ listener."""
    chosen = f"rocketmq.tls.server.mode={mode}\n" if mode else ""
    text = f"listeners=PLAINTEXT://127.0.0.1:9092,ROCKETMQ://{host}:9876\n{chosen}{more}"
    return load(text)[0]


def plain_too(config: BrokerConfig) -> bool | None:
    """Return whether the listener serves plain clients next to TLS; None: it has no TLS."""
    settings = settings_by_listener(config.values, config.listeners).get("ROCKETMQ")
    return None if settings is None else settings.plain_too


def test_a_certificate_adds_tls_to_a_listener_and_plain_clients_stay() -> None:
    assert plain_too(loaded()) is None
    assert plain_too(loaded(more=STORE)) is True
    assert plain_too(loaded(more=f"listener.name.rocketmq.{STORE}")) is True
    assert plain_too(loaded(more="ssl.keystore.key=k\nssl.keystore.certificate.chain=c\n")) is True


def test_enforcing_serves_tls_alone_and_disabled_plain_text_alone() -> None:
    assert plain_too(loaded("enforcing", STORE)) is False
    assert plain_too(loaded("disabled", STORE)) is None
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location.*ROCKETMQ speaks TLS"):
        loaded("enforcing")
    with pytest.raises(ConfigError, match="one of disabled, permissive, enforcing"):
        loaded("permisive", STORE)


def test_the_mode_concerns_no_other_listener() -> None:
    text = f"listeners=SSL://127.0.0.1:1,ROCKETMQ://127.0.0.1:2\n{STORE}"
    for mode in MODES:
        config = load(f"{text}rocketmq.tls.server.mode={mode}\n")[0]
        of_kafka = settings_by_listener(config.values, config.listeners)["SSL"]
        assert of_kafka.plain_too is False


@pytest.mark.parametrize("auth", ["none", "requested", "required"])
@pytest.mark.parametrize("mode", MODES)
def test_other_machines_need_enforced_tls_and_certificates_or_leave(mode: str, auth: str) -> None:
    more = f"{STORE}{TRUST}ssl.client.auth={auth}\n"
    if (mode, auth) == ("enforcing", "required"):
        assert loaded(mode, more, "0.0.0.0").listeners
    else:
        with pytest.raises(ConfigError) as refused:
            loaded(mode, more, "0.0.0.0")
        (line,) = str(refused.value).splitlines()
        assert "set rocketmq.tls.server.mode=enforcing and ssl.client.auth=required" in line
        assert "start with --insecure or set insecure.listeners=true" in line
    assert loaded(mode, f"{more}insecure.listeners=true\n", "0.0.0.0").listeners
    assert loaded(mode, more).listeners


def test_certificates_required_of_all_listeners_do_not_open_a_listener_without_tls() -> None:
    own = f"{TRUST}listener.name.rocketmq.ssl.client.auth=required\n"
    for mode in ("disabled", "permissive"):
        with pytest.raises(ConfigError, match="open to other machines"):
            loaded(mode, own, "0.0.0.0")


def test_its_clients_are_strangers_at_first() -> None:
    assert loaded(more=STORE).connection_limits.begin_unknown == {"ROCKETMQ"}


def test_its_tls_settings_have_an_effect_and_are_not_warned_of() -> None:
    text = f"listeners=PLAINTEXT://:1,ROCKETMQ://127.0.0.1:2\nlistener.name.rocketmq.{STORE}"
    assert load(text.replace("//:", "//127.0.0.1:"))[1] == []

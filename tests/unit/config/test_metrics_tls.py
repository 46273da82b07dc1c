"""When `metrics.listener` speaks TLS, and which settings hold there."""

import pytest

from headrace.config.broker import BrokerConfig, load
from headrace.config.listeners import METRICS_LISTENER
from headrace.config.tls_settings import TlsSettings, metrics_tls
from headrace.model.errors import ConfigError

KEYSTORE = "listener.name.metrics.ssl.keystore.location=/m.pem"
METRICS = "metrics.listener=127.0.0.1:9404"


def config_of(*lines: str) -> tuple[BrokerConfig, list[str]]:
    """Return what the lines of a file give, and the warnings."""
    return load("\n".join(lines))


def tls_of(*lines: str) -> TlsSettings | None:
    """Return the TLS settings of the HTTP listener."""
    config, _ = config_of(*lines)
    return metrics_tls(config.values, config.listeners)


def test_certificates_of_its_own_make_it_speak_tls() -> None:
    found = tls_of(METRICS, KEYSTORE, "ssl.client.auth=none", "ssl.truststore.location=/a.pem")
    assert found is not None
    assert (found.name, found.keystore.location) == (METRICS_LISTENER, "/m.pem")
    assert found.truststore.location == "/a.pem", "others' settings hold where it has none"
    assert config_of(METRICS, KEYSTORE)[1] == []


def test_certificates_of_all_listeners_leave_it_plain() -> None:
    assert tls_of(METRICS, "ssl.keystore.location=/all.pem") is None
    assert tls_of(KEYSTORE) is None, "there is no HTTP listener"


def test_a_listener_named_metrics_keeps_its_keys() -> None:
    listeners = "listeners=METRICS://127.0.0.1:9093,PLAINTEXT://127.0.0.1:9092"
    protocols = "listener.security.protocol.map=METRICS:SSL,PLAINTEXT:PLAINTEXT"
    assert tls_of(METRICS, KEYSTORE, listeners, protocols) is None


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ([METRICS, KEYSTORE, "listener.name.metrics.ssl.client.auth=required"], "truststore"),
        (["metrics.listener=0.0.0.0:9404", KEYSTORE], "metrics.ssl.client.auth=required"),
    ],
)
def test_settings_that_cannot_hold_stop_the_start(lines: list[str], wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        config_of(*lines)


def test_other_machines_may_reach_it_with_certificates() -> None:
    lines = [
        "metrics.listener=0.0.0.0:9404", KEYSTORE, "ssl.truststore.location=/a.pem",
        "listener.name.metrics.ssl.client.auth=required",
    ]  # fmt: skip
    assert tls_of(*lines) is not None

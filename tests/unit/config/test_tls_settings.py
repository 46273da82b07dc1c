"""TLS by Kafka's names: a listener's own keys over those of all, and what does not go together."""

import pytest

from headrace.config.broker import BrokerConfig, load
from headrace.config.descriptions import DynamicConfig, check_broker_config
from headrace.config.tls_settings import TlsSettings, tls_settings
from headrace.model.errors import ApiError, ConfigError

TWO = "listeners=SSL://127.0.0.1:0,OUTER://127.0.0.1:0\n"
MAP = "listener.security.protocol.map=SSL:SSL,OUTER:SSL\n"
STORE = "ssl.keystore.location=all.pem\n"
OWN = "listener.name.outer.ssl.keystore.location"


def loaded(text: str) -> BrokerConfig:
    """Return a configuration nobody warns of."""
    config, warnings = load(text)
    assert warnings == []
    return config


def of(config: BrokerConfig) -> list[TlsSettings]:
    """Return the settings of all listeners."""
    return [tls_settings(config.values, listener) for listener in config.listeners]


def refused(text: str) -> list[str]:
    """Return why a configuration is refused, line by line."""
    with pytest.raises(ConfigError) as error:
        load(text)
    return str(error.value).splitlines()


def test_a_listeners_own_keys_win_over_those_of_all() -> None:
    outer = "listener.name.outer."
    inner, own = of(loaded(
        f"{TWO}{MAP}{STORE}{OWN}=outer.pem\n{outer}ssl.client.auth=required\n"
        f"{outer}ssl.truststore.location=authorities.pem\n"
        f"{outer}ssl.enabled.protocols=TLSv1.3\n{outer}ssl.principal.mapping.rules=RULE:a/b/\n"
    ))  # fmt: skip
    assert inner.keystore.location == "all.pem"
    assert (inner.client_auth, inner.versions) == ("none", ("TLSv1.2", "TLSv1.3"))
    assert inner.mapping_rules == "DEFAULT"
    assert own.keystore.location == "outer.pem"
    assert own.truststore.location == "authorities.pem"
    assert (own.client_auth, own.versions) == ("required", ("TLSv1.3",))
    assert own.mapping_rules == "RULE:a/b/"


@pytest.mark.parametrize(
    ("lines", "key", "reason"),
    [
        ("", "ssl.keystore.location", "needs its key and certificate"),
        (STORE + "ssl.keystore.type=JKS", "ssl.keystore.type", "keytool -importkeystore"),
        (STORE + "ssl.keystore.type=BKS", "ssl.keystore.type", "one of PEM, PKCS12, JKS"),
        (
            STORE + "ssl.keystore.type=PEM\nssl.keystore.password=planted",
            "ssl.keystore.password",
            "no password of its own",
        ),
        (STORE + "ssl.client.auth=required", "ssl.client.auth", "ssl.truststore.location"),
        (STORE + "ssl.enabled.protocols=TLSv1.1", "ssl.enabled.protocols", "not one of TLSv1.2"),
        (
            STORE + "ssl.keystore.certificate.chain=planted\nssl.keystore.key=planted",
            "ssl.keystore.location",
            "one of the two",
        ),
        ("ssl.keystore.key=planted", "ssl.keystore.certificate.chain", "give both"),
    ],
)
def test_what_does_not_go_together_is_refused_without_showing_secrets(
    lines: str, key: str, reason: str
) -> None:
    said = refused(f"listeners=SSL://127.0.0.1:0\n{lines}")
    assert any(line.startswith(f"{key}=") and reason in line for line in said), said
    assert "planted" not in "".join(said)


def test_other_machines_need_a_certificate_or_leave() -> None:
    everywhere = f"listeners=SSL://0.0.0.0:0\n{STORE}"
    (said,) = refused(everywhere)
    assert "ssl.client.auth=required" in said
    assert "--insecure" in said
    assert loaded(everywhere + "insecure.listeners=true").listeners
    trust = "ssl.truststore.location=authorities.pem\n"
    assert loaded(f"{everywhere}{trust}ssl.client.auth=required").listeners
    assert refused(f"{everywhere}{trust}ssl.client.auth=requested")


def test_brokers_of_a_cluster_may_speak_tls_to_each_other_and_check_hosts() -> None:
    listeners = "listeners=SSL://127.0.0.1:0\nzookeeper.connect=127.0.0.1:2181\n"
    config = loaded(listeners + STORE + "broker.id=1\n")
    assert config.inter_broker_listener_name == "SSL"
    assert of(config)[0].checks_hosts
    key = "ssl.endpoint.identification.algorithm"
    for text, checks in (("https", True), ("HTTPS", True), ("", False)):
        assert of(loaded(f"{TWO}{MAP}{STORE}{key}={text}\n"))[0].checks_hosts is checks
        own = f"listener.name.outer.{key}={text}\n"
        inner, outer = of(loaded(f"{TWO}{MAP}{STORE}{own}"))
        assert (inner.checks_hosts, outer.checks_hosts) == (True, checks)
    (said,) = refused(f"{TWO}{MAP}{STORE}{key}=none\n")
    assert "must be https, or empty" in said


def test_a_listeners_keystore_is_altered_at_run_time_and_others_are_not() -> None:
    static = loaded(TWO + MAP + STORE)
    check_broker_config({OWN: "new.pem"}, static, shared=False)
    changed = DynamicConfig(static, own={OWN: "new.pem"}).effective()
    assert [settings.keystore.location for settings in of(changed)] == ["all.pem", "new.pem"]
    for wrong in ({"ssl.keystore.location": "new.pem"}, {OWN.replace("location", "type"): "JKS"}):
        with pytest.raises(ApiError):
            check_broker_config(wrong, static, shared=False)
    with pytest.raises(ApiError, match="all brokers"):
        check_broker_config({OWN: "new.pem"}, static, shared=True)


def test_a_secret_altered_at_run_time_is_not_told() -> None:
    own = {"listener.name.outer.ssl.keystore.password": "planted", OWN: "new.pem"}
    entries = DynamicConfig(loaded(TWO + MAP + STORE), own=own).describe_broker()
    found = {entry.name: entry.value for entry in entries}
    assert found[OWN] == "new.pem"
    assert found["listener.name.outer.ssl.keystore.password"] is None
    assert "planted" not in repr(entries)

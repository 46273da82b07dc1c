"""What a listener needs that takes tokens of OAUTHBEARER, and what it may not say."""

import pytest

from headrace.config.authentication.jaas import OAUTHBEARER_MODULE
from headrace.config.authentication.oauthbearer import HANDLERS
from headrace.config.broker import BrokerConfig, load
from headrace.model.errors import ConfigError

URL = "https://issuer.example/keys"
ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
GOOD = {
    "listeners": "SASL_SSL://127.0.0.1:0",
    "ssl.keystore.location": "here.pem",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "file:///etc/keys.json",
    "sasl.oauthbearer.expected.issuer": "https://issuer.example",
    "sasl.oauthbearer.expected.audience": "broker, other",
}


def read(**changed: str | None) -> BrokerConfig:
    given = {**GOOD, **{name.replace("_", "."): text for name, text in changed.items()}}
    text = "\n".join(f"{name}={value}" for name, value in given.items() if value is not None)
    return load(text)[0]


def wrong(**changed: str | None) -> str:
    with pytest.raises(ConfigError) as refused:
        read(**changed)
    return str(refused.value)


def test_the_settings_of_all_listeners_and_a_listeners_own() -> None:
    settings = read().sasl["SASL_SSL"].oauthbearer
    assert settings is not None
    assert (settings.jwks_file, settings.audiences) == ("/etc/keys.json", ("broker", "other"))
    assert (settings.sub_claim, settings.scope_claim, settings.clock_skew_seconds) == (
        "sub", "scope", 30,
    )  # fmt: skip
    own = "listener.name.sasl_ssl.sasl.oauthbearer."
    found = load(
        "\n".join(f"{name}={value}" for name, value in GOOD.items())
        + f"\n{own}sub.claim.name=azp\n{own}clock.skew.seconds=0\n{own}expected.issuer=me"
    )[0].sasl["SASL_SSL"]
    assert found.oauthbearer is not None
    assert (found.oauthbearer.sub_claim, found.oauthbearer.clock_skew_seconds) == ("azp", 0)
    assert found.oauthbearer.issuer == "me"
    assert read(sasl_enabled_mechanisms="SCRAM-SHA-256").sasl["SASL_SSL"].oauthbearer is None


@pytest.mark.parametrize("url", ["file:/keys.json", "file:///a%20b", "file://localhost/keys"])
def test_keys_may_be_in_a_file(url: str) -> None:
    settings = read(sasl_oauthbearer_jwks_endpoint_url=url).sasl["SASL_SSL"].oauthbearer
    assert settings is not None
    assert settings.jwks_file in {"/keys.json", "/a b", "/keys"}


def test_keys_are_fetched_only_from_urls_that_are_allowed() -> None:
    refused = wrong(sasl_oauthbearer_jwks_endpoint_url=URL)
    assert f"is not among the URLs that {ALLOWED} allows" in refused
    allowed = {"sasl_oauthbearer_jwks_endpoint_url": URL, ALLOWED.replace(".", "_"): f"x,{URL}"}
    settings = read(**allowed).sasl["SASL_SSL"].oauthbearer
    assert settings is not None
    assert (settings.jwks_url, settings.jwks_file) == (URL, None)
    for other in (URL + "/", URL + "?a=planted", URL.upper()):
        said = wrong(**{**allowed, "sasl_oauthbearer_jwks_endpoint_url": other})
        assert "is not among the URLs" in said
        assert "planted" not in said


@pytest.mark.parametrize(
    "url",
    ["http://issuer.example/keys", "ftp://h/keys", "/etc/keys.json", "", "file:keys.json",
     "file://host/keys", "file:/keys?a", "https:///keys", "https://u:planted@h/keys",
     "https://h/keys#f", "https://h:0/", "https://h:x/", "https://[::1/", "data:,x"],
)  # fmt: skip
def test_other_urls_are_refused_even_where_they_are_allowed(url: str) -> None:
    given = {"sasl_oauthbearer_jwks_endpoint_url": url, ALLOWED.replace(".", "_"): url}
    assert "sasl.oauthbearer.jwks.endpoint.url=" in wrong(**given)


@pytest.mark.parametrize("key", ["expected.issuer", "expected.audience", "jwks.endpoint.url"])
def test_a_token_must_be_of_somebody_and_for_us(key: str) -> None:
    name = f"sasl.oauthbearer.{key}"
    for text in (None, "", " "):
        assert f"{name}=" in wrong(**{name.replace(".", "_"): text})


def test_kafkas_words_for_checked_tokens_are_taken_and_those_for_unchecked_are_not() -> None:
    prefix = "listener.name.sasl_ssl.oauthbearer."
    jaas, handler = f"{prefix}sasl.jaas.config", f"{prefix}sasl.server.callback.handler.class"
    text = "\n".join(f"{name}={value}" for name, value in GOOD.items())
    for word in HANDLERS:
        load(f"{text}\n{jaas}={OAUTHBEARER_MODULE} required;\n{handler}={word}")
    for line, why in (
        (
            f'{jaas}={OAUTHBEARER_MODULE} required unsecuredLoginStringClaim_sub="planted";',
            "options",
        ),
        (f"{handler}=org.apache.kafka.OAuthBearerUnsecuredValidatorCallbackHandler", "never taken"),
        (
            f'{jaas}=com.sun.security.auth.module.JndiLoginModule required a="planted";',
            "must be one of",
        ),
    ):
        with pytest.raises(ConfigError, match=why) as refused:
            load(f"{text}\n{line}")
        assert "planted" not in str(refused.value)


def test_a_listeners_own_value_that_is_wrong_is_named() -> None:
    name = "listener.name.sasl_ssl.sasl.oauthbearer.clock.skew.seconds"
    text = "\n".join(f"{key}={value}" for key, value in GOOD.items())
    for value in ("-1", "3601", "x"):
        with pytest.raises(ConfigError, match=f"{name}={value}"):
            load(f"{text}\n{name}={value}")

"""Keys of SASL OAUTHBEARER: trusted issuers, and the required claims of tokens (KIP-768)."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Definition, Kind

ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""In Kafka a Java system property, here a key."""


class OAuthBearerKeys(Keys):
    """The checks of a token; each key but the first is also a key of `listener.name.NAME.`."""

    org_apache_kafka_sasl_oauthbearer_allowed_urls: tuple[str, ...] = key(
        Kind.LIST,
        (),
        "The https URLs that sasl.oauthbearer.jwks.endpoint.url may use, exactly as written"
        " there. In Kafka this is a Java system property.",
        ours=True,
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = key(
        Kind.STRING,
        None,
        "Where the public keys of OAUTHBEARER tokens (JWKS) are: file:/PATH, read again when the"
        f" file changes, or an https URL that is listed in {ALLOWED_URLS}. Redirects are not"
        " followed.",
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = key(
        Kind.LIST, (), "A token must name one of these as its audience (aud)."
    )
    sasl_oauthbearer_expected_issuer: str | None = key(
        Kind.STRING, None, "A token must name exactly this as its issuer (iss)."
    )
    sasl_oauthbearer_sub_claim_name: str = key(
        Kind.STRING, "sub", "The claim of a token that names its principal: User:<claim>."
    )
    sasl_oauthbearer_scope_claim_name: str = key(
        Kind.STRING,
        "scope",
        "The claim of a token with its scopes, a string or a list of strings; scopes grant no"
        " permissions.",
    )
    sasl_oauthbearer_clock_skew_seconds: int = key(
        Kind.INT,
        30,
        "The largest accepted difference between the clocks of the token issuer and the broker.",
        between=(0, 3600),
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = key(
        Kind.LONG,
        3_600_000,
        "How often the keys at an https URL are fetched.",
        between=(1000, 7 * 86_400_000),
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = key(
        Kind.LONG,
        100,
        "The wait after the first failed attempt to fetch the keys; it doubles after each"
        " further one.",
        between=(1, 3_600_000),
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = key(
        Kind.LONG,
        10_000,
        "The longest wait between attempts to fetch the keys. A token with an unknown key"
        " triggers a fetch at once, but not more often than this.",
        between=(1, 3_600_000),
    )


OF_LISTENERS = frozenset(OAuthBearerKeys.KEYS) - {ALLOWED_URLS}
"""The keys that can be set for one listener."""
HANDLER = Definition(
    "sasl.server.callback.handler.class",
    Kind.STRING,
    None,
    "Kafka's class that checks signatures of tokens, which is what is done: none is ever loaded.",
)
"""Valid only as `listener.name.NAME.oauthbearer.<key>`."""

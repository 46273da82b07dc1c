"""Keys of SASL OAUTHBEARER: whose tokens are believed, and what they must say (KIP-768)."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Definition, Kind

ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""A system property of Java's at Kafka, a key here."""


class OAuthBearerKeys(Keys):
    """What a token is checked against; all also as `listener.name.NAME.<key>`, but the first."""

    org_apache_kafka_sasl_oauthbearer_allowed_urls: tuple[str, ...] = key(
        Kind.LIST,
        (),
        "The https URLs that sasl.oauthbearer.jwks.endpoint.url may name, written as there."
        " A system property of Java's at Kafka.",
        ours=True,
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = key(
        Kind.STRING,
        None,
        "Where the public keys are that tokens of OAUTHBEARER are signed with (JWKS): file:/PATH,"
        " read again when the file has changed, or an https URL that"
        f" {ALLOWED_URLS} names, which is never redirected.",
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = key(
        Kind.LIST, (), "A token must name one of these as its audience (aud)."
    )
    sasl_oauthbearer_expected_issuer: str | None = key(
        Kind.STRING, None, "A token must name exactly this as its issuer (iss)."
    )
    sasl_oauthbearer_sub_claim_name: str = key(
        Kind.STRING, "sub", "The claim of a token that says who its bearer is: User:<that>."
    )
    sasl_oauthbearer_scope_claim_name: str = key(
        Kind.STRING,
        "scope",
        "The claim of a token with its scopes, a text or a list of them; they permit nothing here.",
    )
    sasl_oauthbearer_clock_skew_seconds: int = key(
        Kind.INT,
        30,
        "How far the clocks of who signs tokens and of the broker may differ.",
        between=(0, 3600),
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = key(
        Kind.LONG,
        3_600_000,
        "How often the keys at an https URL are fetched anew.",
        between=(1000, 7 * 86_400_000),
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = key(
        Kind.LONG,
        100,
        "How long to wait after the first attempt to fetch the keys that failed; twice as long"
        " after each further one.",
        between=(1, 3_600_000),
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = key(
        Kind.LONG,
        10_000,
        "The longest wait between attempts to fetch the keys. A token whose key is not known has"
        " them fetched at once, but not more often than this.",
        between=(1, 3_600_000),
    )


OF_LISTENERS = frozenset(OAuthBearerKeys.KEYS) - {ALLOWED_URLS}
"""The keys that a listener may have of its own."""
HANDLER = Definition(
    "sasl.server.callback.handler.class",
    Kind.STRING,
    None,
    "Kafka's class that checks signatures of tokens, which is what is done: none is ever loaded.",
)
"""There with a listener's name and oauthbearer before it only."""

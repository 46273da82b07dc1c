"""Keys of SASL: enabled mechanisms, and limits on connections that are not authenticated yet."""

from headrace.config.keys.oauthbearer import OF_LISTENERS
from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Definition, Kind

FIRST_FRAME_BYTES_MAX = 512 << 10
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
"""The mechanisms that Headrace implements."""


class SaslKeys(Keys):
    """How clients authenticate on SASL_PLAINTEXT and SASL_SSL listeners."""

    sasl_enabled_mechanisms: tuple[str, ...] = key(
        Kind.LIST,
        ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        "SASL mechanisms of the listeners: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER."
        " PLAIN and OAUTHBEARER must be enabled explicitly."
        " listener.name.NAME.sasl.enabled.mechanisms sets it for one listener; its PLAIN users"
        " are in listener.name.NAME.plain.sasl.jaas.config.",
    )
    sasl_mechanism_inter_broker_protocol = key(
        Kind.STRING,
        "GSSAPI",
        "The mechanism with which brokers authenticate to each other on SASL listeners: PLAIN,"
        " SCRAM-SHA-256 or SCRAM-SHA-512, which the listener must enable. Kafka's default"
        " (GSSAPI) is not supported. The broker's username and password are in"
        " listener.name.NAME.MECHANISM.sasl.jaas.config, with NAME and MECHANISM in lower case.",
    )
    connections_max_reauth_ms: int = key(
        Kind.LONG,
        0,
        "Sessions of SASL clients end after this long unless they reauthenticate (KIP-368); 0:"
        " never. Can be set by listener as listener.name.NAME.connections.max.reauth.ms, or by"
        " listener and mechanism (in lower case).",
        at_least=0,
    )
    connection_failed_authentication_delay_ms: int = key(
        Kind.INT,
        100,
        "How long the response to a failed authentication, and the close of its connection, are"
        " delayed: this long after the first failure of an address, twice as long after each"
        " further one, plus up to a random fifth.",
        between=(0, 10_000),
    )
    connection_failed_authentication_delay_max_ms: int = key(
        Kind.INT,
        5_000,
        "The longest delay of connection.failed.authentication.delay.ms. It is reset for an"
        " address without a failure for ten minutes. Clients that wait 10 s for a response, as"
        " franz-go does, do not show the reason of a refusal that arrives later.",
        between=(0, 60_000),
        ours=True,
    )
    sasl_server_max_receive_size: int = key(
        Kind.INT,
        FIRST_FRAME_BYTES_MAX,
        "The largest message of a SASL mechanism from a client, in bytes.",
        between=(1, FIRST_FRAME_BYTES_MAX),
    )


JAAS = Definition(
    "sasl.jaas.config",
    Kind.PASSWORD,
    None,
    "A line of JAAS: PLAIN's users, and who a broker is for other brokers.",
)
"""Valid only as `listener.name.NAME.MECHANISM.<key>`."""
OF_A_LISTENER = frozenset({"sasl.enabled.mechanisms", "connections.max.reauth.ms", *OF_LISTENERS})
"""Keys that can be set for one listener."""
OF_A_MECHANISM = frozenset({JAAS.name, "connections.max.reauth.ms"})
"""Keys that can be set for one mechanism of a listener."""

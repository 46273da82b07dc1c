"""Keys of SASL: by which mechanisms clients authenticate, and what bounds them until they have."""

from headrace.config.keys.oauthbearer import OF_LISTENERS
from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Definition, Kind

FIRST_FRAME_BYTES_MAX = 512 << 10
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
"""Those that are served."""


class SaslKeys(Keys):
    """How clients say who they are on SASL_PLAINTEXT and SASL_SSL listeners."""

    sasl_enabled_mechanisms: tuple[str, ...] = key(
        Kind.LIST,
        ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        "By which mechanisms clients may authenticate on SASL listeners: PLAIN, SCRAM-SHA-256,"
        " SCRAM-SHA-512, OAUTHBEARER. PLAIN and OAUTHBEARER must be named."
        " listener.name.NAME.sasl.enabled.mechanisms says it for one listener; its PLAIN users are"
        " in listener.name.NAME.plain.sasl.jaas.config.",
    )
    sasl_mechanism_inter_broker_protocol = key(
        Kind.STRING,
        "GSSAPI",
        "By which mechanism brokers authenticate to each other, on SASL listeners: PLAIN,"
        " SCRAM-SHA-256 or SCRAM-SHA-512, one that the listener takes; Kafka's default is not"
        " there. Who a broker is stands in listener.name.NAME.MECHANISM.sasl.jaas.config, NAME and"
        " MECHANISM in lower case: username and password.",
    )
    connections_max_reauth_ms: int = key(
        Kind.LONG,
        0,
        "Sessions of SASL clients end after this long unless they authenticate again (KIP-368);"
        " 0: never. Also as listener.name.NAME.connections.max.reauth.ms, and with a mechanism in"
        " lower case behind the listener's name.",
        at_least=0,
    )
    connection_failed_authentication_delay_ms: int = key(
        Kind.INT,
        100,
        "How long a client that failed to authenticate waits for the answer that says so, and the"
        " end of its connection: after the first failure of its address, twice as long after each"
        " further one, and up to a fifth longer by chance.",
        between=(0, 10_000),
    )
    connection_failed_authentication_delay_max_ms: int = key(
        Kind.INT,
        5_000,
        "How long that delay grows. An address that has not failed for ten minutes begins anew."
        " Clients that wait 10 s for an answer, as franz-go does, tell their user nothing of a"
        " refusal that comes later.",
        between=(0, 60_000),
        ours=True,
    )
    sasl_server_max_receive_size: int = key(
        Kind.INT,
        FIRST_FRAME_BYTES_MAX,
        "The most bytes that a mechanism's message from a client may have.",
        between=(1, FIRST_FRAME_BYTES_MAX),
    )


JAAS = Definition(
    "sasl.jaas.config",
    Kind.PASSWORD,
    None,
    "A line of JAAS: PLAIN's users, and who a broker is for other brokers.",
)
"""There with a listener's and a mechanism's name before it only."""
OF_A_LISTENER = frozenset({"sasl.enabled.mechanisms", "connections.max.reauth.ms", *OF_LISTENERS})
"""Keys that a listener may have of its own."""
OF_A_MECHANISM = frozenset({JAAS.name, "connections.max.reauth.ms"})
"""Keys that a mechanism of a listener may have of its own."""

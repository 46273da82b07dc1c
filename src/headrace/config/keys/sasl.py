"""Keys of SASL: by which mechanisms clients authenticate, and what bounds them until they have."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Kind

FIRST_FRAME_BYTES_MAX = 512 << 10


class SaslKeys(Keys):
    """How clients say who they are on SASL_PLAINTEXT and SASL_SSL listeners."""

    sasl_enabled_mechanisms: tuple[str, ...] = key(
        Kind.LIST,
        ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        "By which mechanisms clients may authenticate on SASL listeners: PLAIN, SCRAM-SHA-256,"
        " SCRAM-SHA-512. PLAIN must be named. listener.name.NAME.sasl.enabled.mechanisms says it"
        " for one listener; its PLAIN users are in listener.name.NAME.plain.sasl.jaas.config.",
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
        10_000,
        "How long that delay grows. An address that has not failed for ten minutes begins anew.",
        between=(0, 60_000),
        ours=True,
    )
    sasl_server_max_receive_size: int = key(
        Kind.INT,
        FIRST_FRAME_BYTES_MAX,
        "The most bytes that a mechanism's message from a client may have.",
        between=(1, FIRST_FRAME_BYTES_MAX),
    )

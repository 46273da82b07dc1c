"""Keys of followers: how they fetch from their leaders."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Kind


class FollowerKeys(Keys):
    """One conversation with each broker that leads something which is followed here."""

    replica_fetch_max_bytes = key(
        Kind.INT,
        1 << 20,
        "Bytes of one partition that a follower asks for at once; a larger batch comes whole.",
        at_least=0,
    )
    replica_fetch_min_bytes = key(
        Kind.INT, 1, "Bytes that a leader waits for before it answers a follower.", at_least=1
    )
    replica_fetch_wait_max_ms = key(
        Kind.INT, 500, "How long a leader waits for them; below replica.lag.time.max.ms."
    )
    replica_fetch_response_max_bytes = key(
        Kind.INT, 10 << 20, "Bytes of one answer to a follower, of all partitions.", at_least=0
    )
    replica_fetch_backoff_ms = key(
        Kind.INT, 1000, "How long a follower waits after an error, at most.", at_least=0
    )
    replica_socket_timeout_ms = key(
        Kind.INT,
        30_000,
        "How long a follower waits for an answer before it gives the connection up.",
        at_least=1,
    )

"""Keys of replicas: how followers fetch from their leaders, and which ones are in sync."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import LONG_MAX, Kind, Mode


class FollowerKeys(Keys):
    """Fetches of followers from their leaders: one connection per leading broker."""

    replica_lag_time_max_ms = key(
        Kind.LONG,
        30_000,
        "How long a follower may lag behind its leader before it leaves the ISR.",
    )
    replica_selector_class: str | None = key(
        Kind.STRING,
        None,
        "The replica that consumers read from. Kafka's RackAwareReplicaSelector: an in-sync"
        " replica in the consumer's rack (client.rack). Unset, or Kafka's LeaderSelector: the"
        " leader.",
        words=(
            "org.apache.kafka.common.replica.LeaderSelector",
            "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        ),
    )

    num_replica_fetchers = key(
        Kind.INT,
        2,
        "The most connections to a leader for partitions that catch up: one receives a response"
        " while another's is written. In-sync partitions share one.",
        at_least=1,
        mode=Mode.CLUSTER_WIDE,
    )
    replica_fetch_max_bytes = key(
        Kind.INT,
        1 << 20,
        "The most bytes of one partition that a follower requests at once; a larger batch is"
        " returned whole.",
        at_least=0,
    )
    replica_fetch_min_bytes = key(
        Kind.INT,
        1,
        "The least bytes for which a leader waits before it responds to a follower.",
        at_least=1,
    )
    replica_fetch_wait_max_ms = key(
        Kind.INT,
        500,
        "How long a leader waits for replica.fetch.min.bytes; must be below"
        " replica.lag.time.max.ms.",
    )
    replica_fetch_response_max_bytes = key(
        Kind.INT,
        10 << 20,
        "The most bytes in a response to a follower, over all partitions.",
        at_least=0,
    )
    replica_fetch_backoff_ms = key(
        Kind.INT, 1000, "The longest wait of a follower after an error.", at_least=0
    )
    replica_socket_timeout_ms = key(
        Kind.INT,
        30_000,
        "How long a follower waits for a response before it closes the connection.",
        at_least=1,
    )


class ThrottleKeys(Keys):
    """Rate limits of replicas that are being moved (KIP-73)."""

    leader_replication_throttled_rate = key(
        Kind.LONG,
        LONG_MAX,
        "The most bytes per second that a broker sends to followers out of sync, for the"
        " replicas that topics list in leader.replication.throttled.replicas. Bytes to in-sync"
        " followers count, but are not delayed.",
        at_least=0,
        mode=Mode.CLUSTER_WIDE,
        altered_only=True,
    )
    follower_replication_throttled_rate = key(
        Kind.LONG,
        LONG_MAX,
        "The most bytes per second that a broker fetches for its out-of-sync replicas that"
        " topics list in follower.replication.throttled.replicas.",
        at_least=0,
        mode=Mode.CLUSTER_WIDE,
        altered_only=True,
    )
    replication_quota_window_num = key(
        Kind.INT, 11, "Number of windows over which those rates are measured.", at_least=1
    )
    replication_quota_window_size_seconds = key(
        Kind.INT, 1, "Length of each of those windows, in seconds.", at_least=1
    )
    replica_alter_log_dirs_io_max_bytes_per_second = key(
        Kind.LONG,
        LONG_MAX,
        "The most bytes per second that a broker copies between its log directories when"
        " replicas move.",
        at_least=0,
        mode=Mode.CLUSTER_WIDE,
        altered_only=True,
    )
    alter_log_dirs_replication_quota_window_num = key(
        Kind.INT, 11, "Number of windows over which that rate is measured.", at_least=1
    )
    alter_log_dirs_replication_quota_window_size_seconds = key(
        Kind.INT, 1, "Length of each of those windows, in seconds.", at_least=1
    )

"""Keys of replicas: how followers fetch from their leaders, and which ones are in sync."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import LONG_MAX, Kind, Mode


class FollowerKeys(Keys):
    """One conversation with each broker that leads something which is followed here."""

    replica_lag_time_max_ms = key(
        Kind.LONG,
        30_000,
        "How long a follower may lag behind its leader before it leaves the in-sync replicas.",
    )
    replica_selector_class: str | None = key(
        Kind.STRING,
        None,
        "From which replica consumers read. Kafka's RackAwareReplicaSelector: from one in their own"
        " rack (client.rack), if it is in sync. Unset, or Kafka's LeaderSelector: the leader.",
        words=(
            "org.apache.kafka.common.replica.LeaderSelector",
            "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        ),
    )

    num_replica_fetchers = key(
        Kind.INT,
        2,
        "Conversations at most that a broker has with a leader of partitions that catch up: while"
        " one's answer is written, another's arrives. Those in sync share one.",
        at_least=1,
        mode=Mode.CLUSTER_WIDE,
    )
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


class ThrottleKeys(Keys):
    """How fast replicas that are being moved are copied (KIP-73)."""

    leader_replication_throttled_rate = key(
        Kind.LONG,
        LONG_MAX,
        "Bytes a second that a broker gives to followers out of sync, of the replicas that topics"
        " name in leader.replication.throttled.replicas. What followers in sync take counts, and is"
        " given.",
        at_least=0,
        mode=Mode.CLUSTER_WIDE,
        altered_only=True,
    )
    follower_replication_throttled_rate = key(
        Kind.LONG,
        LONG_MAX,
        "Bytes a second that a broker fetches of the replicas that topics name in"
        " follower.replication.throttled.replicas, as long as those are out of sync.",
        at_least=0,
        mode=Mode.CLUSTER_WIDE,
        altered_only=True,
    )
    replication_quota_window_num = key(
        Kind.INT, 11, "Over how many windows those rates are taken.", at_least=1
    )
    replication_quota_window_size_seconds = key(
        Kind.INT, 1, "Seconds of each of those windows.", at_least=1
    )
    replica_alter_log_dirs_io_max_bytes_per_second = key(
        Kind.LONG,
        LONG_MAX,
        "Bytes a second that a broker copies of replicas that move between its log directories.",
        at_least=0,
        mode=Mode.CLUSTER_WIDE,
        altered_only=True,
    )
    alter_log_dirs_replication_quota_window_num = key(
        Kind.INT, 11, "Over how many windows that rate is taken.", at_least=1
    )
    alter_log_dirs_replication_quota_window_size_seconds = key(
        Kind.INT, 1, "Seconds of each of those windows.", at_least=1
    )

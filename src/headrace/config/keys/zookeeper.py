"""Keys of the ZooKeeper ensemble that a cluster's brokers share."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Kind


class ZooKeeperKeys(Keys):
    """Keys of ZooKeeper's addresses and of this broker's session with it."""

    zookeeper_connect: str | None = key(
        Kind.STRING,
        None,
        "The ZooKeeper of the cluster, as host:port,host:port/chroot. A missing chroot is"
        " created. Unset: a cluster of one broker, with its metadata in its first log directory.",
    )
    accept_cluster_id: str | None = key(
        Kind.STRING,
        None,
        "The id of the cluster to start in although the log directories (meta.properties) and"
        " ZooKeeper disagree. Without it such a start is refused. ZooKeeper's id: the log"
        " directories join that cluster. The log directories' id: a chroot without a cluster"
        " gets it, and starts without topics. For one start only; see docs/cluster.md.",
        ours=True,
    )
    zookeeper_session_timeout_ms = key(
        Kind.INT,
        18_000,
        "ZooKeeper session timeout: a broker that ZooKeeper does not hear from for this long is"
        " considered failed. ZooKeeper's own limits apply.",
        at_least=1,
    )
    zookeeper_connection_timeout_ms: int | None = key(
        Kind.INT,
        None,
        "How long a start waits for ZooKeeper. Unset: zookeeper.session.timeout.ms.",
        at_least=1,
    )
    zookeeper_max_in_flight_requests = key(
        Kind.INT,
        10,
        "The most requests that may wait for ZooKeeper's response at once.",
        at_least=1,
    )
    zookeeper_set_acl = key(
        Kind.BOOLEAN,
        False,
        "Whether only this cluster's brokers may change its znodes and read those that contain"
        " passwords. Requires zookeeper.digest.credentials.",
    )
    zookeeper_digest_credentials: str | None = key(
        Kind.PASSWORD,
        None,
        "user:password with which the brokers authenticate to ZooKeeper (scheme digest)."
        " ZooKeeper's traffic is not encrypted.",
        ours=True,
    )
    zookeeper_consumers_mirror_enable = key(
        Kind.BOOLEAN,
        False,
        "Whether members, owners and offsets of groups are written below /consumers, as"
        " consumers before Kafka 0.9 did, for tools that read them. Nothing is read from there,"
        " and it is up to zookeeper.consumers.mirror.interval.ms old.",
        ours=True,
    )
    zookeeper_consumers_mirror_interval_ms = key(
        Kind.INT,
        5000,
        "How often /consumers is updated.",
        at_least=100,
        ours=True,
    )
    zookeeper_consumers_mirror_writes_per_second_max = key(
        Kind.INT,
        100,
        "The most znodes below /consumers that a broker changes per second.",
        at_least=1,
        ours=True,
    )
    broker_id_generation_enable = key(
        Kind.BOOLEAN,
        True,
        "Whether ZooKeeper assigns an id above reserved.broker.max.id to a broker without one."
        " Without ZooKeeper the id is 0.",
    )
    reserved_broker_max_id = key(
        Kind.INT,
        1000,
        "The largest broker.id that may be configured; ZooKeeper assigns ids above it.",
        at_least=0,
    )

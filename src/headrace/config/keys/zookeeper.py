"""Keys of the ZooKeeper that brokers of one cluster agree through."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Kind


class ZooKeeperKeys(Keys):
    """Where ZooKeeper is, and this broker's session there."""

    zookeeper_connect: str | None = key(
        Kind.STRING,
        None,
        "The ZooKeeper that the brokers of a cluster agree through, as host:port,host:port/chroot."
        " A chroot that is missing is made. Unset: a cluster of one broker, whose metadata lie in"
        " its first log directory.",
    )
    accept_cluster_id: str | None = key(
        Kind.STRING,
        None,
        "The id of the cluster to start in although the log directories (meta.properties) and"
        " ZooKeeper disagree. Without it such a start is refused. ZooKeeper's id: the log"
        " directories join that cluster. The log directories' id: a chroot without a cluster gets"
        " it, and starts without topics. For one start; see docs/cluster.md.",
        ours=True,
    )
    zookeeper_session_timeout_ms = key(
        Kind.INT,
        18_000,
        "After how long a broker that ZooKeeper does not hear of is taken for dead. ZooKeeper's"
        " own bounds apply.",
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
        "How many questions may wait for ZooKeeper's answer before the next is asked.",
        at_least=1,
    )
    zookeeper_set_acl = key(
        Kind.BOOLEAN,
        False,
        "Whether only this cluster's brokers may change its znodes, and only they read those that"
        " hold passwords. Needs zookeeper.digest.credentials.",
    )
    zookeeper_digest_credentials: str | None = key(
        Kind.PASSWORD,
        None,
        "user:password that the brokers show to ZooKeeper, by its scheme digest. In clear on the"
        " network.",
        ours=True,
    )
    zookeeper_consumers_mirror_enable = key(
        Kind.BOOLEAN,
        False,
        "Whether groups' members, owners and offsets are shown below /consumers, as consumers of"
        " Kafka before 0.9 kept them there. For tools that read them: what is written there is not"
        " read, and is as old as zookeeper.consumers.mirror.interval.ms.",
        ours=True,
    )
    zookeeper_consumers_mirror_interval_ms = key(
        Kind.INT,
        5000,
        "How often /consumers is brought up to date.",
        at_least=100,
        ours=True,
    )
    zookeeper_consumers_mirror_writes_per_second_max = key(
        Kind.INT,
        100,
        "How many znodes below /consumers a broker changes in a second at most.",
        at_least=1,
        ours=True,
    )
    broker_id_generation_enable = key(
        Kind.BOOLEAN,
        True,
        "Whether a broker without an id is given one by ZooKeeper, above reserved.broker.max.id."
        " Without ZooKeeper it is 0.",
    )
    reserved_broker_max_id = key(
        Kind.INT,
        1000,
        "The greatest broker.id that may be configured beside ids that ZooKeeper gives.",
        at_least=0,
    )

"""Keys of a broker in a cluster: inter-broker listeners, controlled shutdown, leader balance."""

from headrace.config.keys.row import Keys, combined, key
from headrace.config.value_types import Kind, Mode


class ClusterKeys(Keys):
    """Listeners for brokers, controlled shutdown, the balance of leaders."""

    inter_broker_listener_name: str = combined(
        Kind.STRING,
        None,
        "The listener over which brokers of a cluster connect to each other. Unset: the one"
        " named as security.inter.broker.protocol, else the first that uses it, else the first"
        " of all.",
    )
    security_inter_broker_protocol = key(
        Kind.STRING,
        "PLAINTEXT",
        "The security protocol between brokers if inter.broker.listener.name is not set.",
        words=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
    control_plane_listener_name: str | None = combined(
        Kind.STRING,
        None,
        "A separate listener for requests of the controller to brokers, so that they do not"
        " wait behind other requests. Unset: the inter-broker listener.",
    )
    controlled_shutdown_enable = key(
        Kind.BOOLEAN,
        True,
        "Whether a broker of a cluster moves its leaderships to other brokers before it stops.",
    )
    controlled_shutdown_max_retries = key(
        Kind.INT,
        3,
        "How often a stopping broker asks the controller for that, at most.",
        at_least=0,
    )
    controlled_shutdown_retry_backoff_ms = key(
        Kind.LONG, 5000, "The wait between two of those attempts.", at_least=0
    )
    controller_socket_timeout_ms = key(
        Kind.INT,
        30_000,
        "How long a broker and the controller wait for each other's response before they"
        " reconnect.",
        at_least=1,
    )
    broker_drained = key(
        Kind.BOOLEAN,
        False,
        "Whether the broker is drained for maintenance: it leads a partition only if no other"
        " in-sync replica can, and listeners of protocols whose queues any broker serves close"
        " their connections and accept none. Set by the commands drain and revive; restarts keep"
        " it.",
        mode=Mode.PER_BROKER,
        altered_only=True,
    )
    early_leader_election_enable = key(
        Kind.BOOLEAN,
        True,
        "Whether other in-sync replicas lead the partitions of a broker that ends its connections"
        " and refuses new ones, before its ZooKeeper session ends. Set false if a network refuses"
        " connections to brokers that live.",
    )
    auto_leader_rebalance_enable = key(
        Kind.BOOLEAN,
        True,
        "Whether leadership returns to the preferred replicas automatically.",
    )
    leader_imbalance_check_interval_seconds = key(
        Kind.LONG, 300, "How often the controller checks leader imbalance.", at_least=1
    )
    leader_imbalance_per_broker_percentage = key(
        Kind.INT,
        10,
        "The percentage of the partitions that prefer a broker which other brokers may lead;"
        " above it leadership returns to the preferred replicas.",
        at_least=0,
    )

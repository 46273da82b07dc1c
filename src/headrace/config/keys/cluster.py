"""Keys of a broker among others: what they reach each other by, and who leads after a stop."""

from headrace.config.keys.row import Keys, combined, key
from headrace.config.value_types import Kind


class ClusterKeys(Keys):
    """Listeners for brokers, controlled shutdown, the balance of leaders."""

    inter_broker_listener_name: str = combined(
        Kind.STRING,
        None,
        "The listener by which brokers of a cluster reach each other. Unset: the one named as"
        " security.inter.broker.protocol, else the first that speaks it, else the first of all.",
    )
    security_inter_broker_protocol = key(
        Kind.STRING,
        "PLAINTEXT",
        "What brokers speak to each other where inter.broker.listener.name is not set.",
        words=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
    control_plane_listener_name: str | None = combined(
        Kind.STRING,
        None,
        "A listener for what the controller tells brokers, which then does not wait behind other"
        " requests. Unset: the one for brokers.",
    )
    controlled_shutdown_enable = key(
        Kind.BOOLEAN,
        True,
        "Whether a broker of a cluster hands over what it leads before it stops.",
    )
    controlled_shutdown_max_retries = key(
        Kind.INT, 3, "How often the controller is asked for that, at most.", at_least=0
    )
    controlled_shutdown_retry_backoff_ms = key(
        Kind.LONG, 5000, "How long is waited between two of those times.", at_least=0
    )
    controller_socket_timeout_ms = key(
        Kind.INT,
        30_000,
        "How long a broker and the controller wait for each other's answer before they connect"
        " anew.",
        at_least=1,
    )
    auto_leader_rebalance_enable = key(
        Kind.BOOLEAN,
        True,
        "Whether leadership goes back to the preferred replicas by itself.",
    )
    leader_imbalance_check_interval_seconds = key(
        Kind.LONG, 300, "How often the controller looks for that.", at_least=1
    )
    leader_imbalance_per_broker_percentage = key(
        Kind.INT,
        10,
        "Of the partitions that name a broker first, how many hundredths others may lead until it"
        " is given them back.",
        at_least=0,
    )

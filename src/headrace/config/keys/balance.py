"""Keys of the balance of leaders among the brokers of a cluster."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Kind


class BalanceKeys(Keys):
    """When preferred replicas lead again."""

    auto_leader_rebalance_enable = key(
        Kind.BOOLEAN,
        True,
        "Whether the controller has preferred replicas lead again by itself.",
    )
    leader_imbalance_check_interval_seconds = key(Kind.LONG, 300, "How often it looks.", at_least=1)
    leader_imbalance_per_broker_percentage = key(
        Kind.INT,
        10,
        "How many of the partitions that a broker is preferred for others may lead, in percent.",
        at_least=0,
    )

"""Topic keys that are not settings of a log (those are in `config.log_config`)."""

from headrace.config.value_types import Definition, Kind

FOLLOWERS_THROTTLED = "follower.replication.throttled.replicas"
LEADERS_THROTTLED = "leader.replication.throttled.replicas"
_REPLICAS = (r"\*|(\d+:\d+)?(\s*,\s*(\d+:\d+)?)*", "* or a list of PARTITION:BROKER")
"""The form of throttled replicas, as Kafka checks it (ThrottledReplicaListValidator)."""

OF_REPLICAS: tuple[Definition, ...] = (
    Definition(
        FOLLOWERS_THROTTLED,
        Kind.LIST,
        (),
        "Replicas that are limited to follower.replication.throttled.rate when they fetch.",
        form=_REPLICAS,
    ),
    Definition(
        LEADERS_THROTTLED,
        Kind.LIST,
        (),
        "Replicas that are limited to leader.replication.throttled.rate when they send to"
        " followers out of sync.",
        form=_REPLICAS,
    ),
)
"""Which replicas are copied at a bounded rate (KIP-73)."""

WITHOUT_EFFECT: tuple[Definition, ...] = (
    Definition(
        "local.retention.bytes",
        Kind.LONG,
        -2,
        "Size kept locally with tiered storage, which Headrace does not have.",
        at_least=-2,
        synonym="log.local.retention.bytes",
        in_use=False,
    ),
    Definition(
        "local.retention.ms",
        Kind.LONG,
        -2,
        "Time kept locally with tiered storage, which Headrace does not have.",
        at_least=-2,
        synonym="log.local.retention.ms",
        in_use=False,
    ),
    Definition(
        "preallocate",
        Kind.BOOLEAN,
        False,
        "Reserves a new segment's full size on disk; has no effect here.",
        synonym="log.preallocate",
        in_use=False,
    ),
    Definition(
        "remote.log.copy.disable",
        Kind.BOOLEAN,
        False,
        "Stops copying to tiered storage, which Headrace does not have.",
        in_use=False,
    ),
    Definition(
        "remote.log.delete.on.disable",
        Kind.BOOLEAN,
        False,
        "Deletes what tiered storage holds, which Headrace does not have.",
        in_use=False,
    ),
    Definition(
        "remote.storage.enable",
        Kind.BOOLEAN,
        False,
        "Turns on tiered storage; only false can be asked for here.",
        words=("false",),
        in_use=False,
    ),
)

"""A topic's keys that are accepted and have no effect; those that have are `config.log_config`."""

from headrace.config.value_types import Definition, Kind

WITHOUT_EFFECT: tuple[Definition, ...] = (
    Definition(
        "follower.replication.throttled.replicas",
        Kind.LIST,
        (),
        "Replicas whose fetching is slowed on the followers' side.",
        in_use=False,
    ),
    Definition(
        "leader.replication.throttled.replicas",
        Kind.LIST,
        (),
        "Replicas whose fetching is slowed on the leader's side.",
        in_use=False,
    ),
    Definition(
        "local.retention.bytes",
        Kind.LONG,
        -2,
        "Size kept locally with tiered storage, which there is none of here.",
        at_least=-2,
        in_use=False,
    ),
    Definition(
        "local.retention.ms",
        Kind.LONG,
        -2,
        "Time kept locally with tiered storage, which there is none of here.",
        at_least=-2,
        in_use=False,
    ),
    Definition(
        "remote.log.copy.disable",
        Kind.BOOLEAN,
        False,
        "Stops copying to tiered storage, which there is none of here.",
        in_use=False,
    ),
    Definition(
        "remote.log.delete.on.disable",
        Kind.BOOLEAN,
        False,
        "Deletes what tiered storage holds, which there is none of here.",
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

"""Keys of groups and of client metrics subscriptions.

Names, defaults and bounds are Kafka 4.3's (GroupConfig, ClientMetricsConfigs). A group key is the
broker key `group.NAME` for one group; if the broker has that key, its value is the default.
"""

import re

from headrace.config.durations import check_offset_reset
from headrace.config.keys.groups import GroupKeys
from headrace.config.keys.share import ShareKeys
from headrace.config.value_types import Definition, Kind, Value

GROUP_PREFIX = "group."
GROUPS_OWN = frozenset(
    {"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"}
)
"""Group keys whose default is no broker key."""

_SESSION = "A member that sends no heartbeat for this long is removed from the group"
_HEARTBEAT = "The heartbeat interval of members"
_OFFLOAD = "Whether a large group's assignor runs on a thread"
_ASSIGNMENT = "The least time between two assignments"


def _of_broker(name: str, doc: str) -> Definition:
    """Define a group key by the broker key: its type, default and least value."""
    row = {**GroupKeys.KEYS, **ShareKeys.KEYS}[GROUP_PREFIX + name]
    least = row.at_least if row.between is None else row.between[0]
    return Definition(name, row.kind, row.default, doc, at_least=least)


_GROUP_KEYS: tuple[Definition, ...] = (
    _of_broker("consumer.session.timeout.ms", f"{_SESSION}."),
    _of_broker("consumer.heartbeat.interval.ms", f"{_HEARTBEAT}."),
    _of_broker("consumer.assignment.interval.ms", f"{_ASSIGNMENT}."),
    _of_broker("consumer.assignor.offload.enable", f"{_OFFLOAD}."),
    _of_broker("share.session.timeout.ms", f"{_SESSION} (share groups)."),
    _of_broker("share.heartbeat.interval.ms", f"{_HEARTBEAT} (share groups)."),
    _of_broker("share.assignment.interval.ms", f"{_ASSIGNMENT} (share groups)."),
    _of_broker("share.assignor.offload.enable", f"{_OFFLOAD} (share groups)."),
    _of_broker("share.record.lock.duration.ms", "How long a member may hold an acquired record."),
    _of_broker(
        "share.delivery.count.limit", "How often a record is delivered before it is archived."
    ),
    _of_broker(
        "share.partition.max.record.locks", "Records of one partition that may be acquired at once."
    ),
    Definition(
        "share.auto.offset.reset",
        Kind.STRING,
        "latest",
        "Where a share group starts in a partition: latest, earliest, or by_duration:PnDTnHnMn.nS.",
        check=check_offset_reset,
    ),
    Definition(
        "share.isolation.level",
        Kind.STRING,
        "read_uncommitted",
        "Whether records of aborted transactions are delivered.",
        words=("read_committed", "read_uncommitted"),
    ),
    Definition(
        "share.renew.acknowledge.enable",
        Kind.BOOLEAN,
        True,
        "Whether a member may extend the lock of a record by renewing it.",
    ),
    # Bounds are Kafka's: the broker's keys for them have no effect here.
    Definition(
        "streams.session.timeout.ms",
        Kind.INT,
        45_000,
        f"{_SESSION} (streams groups).",
        between=(45_000, 60_000),
    ),
    Definition(
        "streams.heartbeat.interval.ms",
        Kind.INT,
        5000,
        f"{_HEARTBEAT} (streams groups).",
        between=(5000, 15_000),
    ),
    Definition(
        "streams.assignment.interval.ms",
        Kind.INT,
        1000,
        f"{_ASSIGNMENT} (streams groups).",
        between=(0, 15_000),
    ),
    Definition(
        "streams.assignor.offload.enable", Kind.BOOLEAN, True, f"{_OFFLOAD} (streams groups)."
    ),
    Definition(
        "streams.num.standby.replicas",
        Kind.INT,
        0,
        "Standby replicas of each task.",
        between=(0, 2),
    ),
    Definition(
        "streams.initial.rebalance.delay.ms",
        Kind.INT,
        3000,
        "How long an empty streams group waits for more members after the first.",
        at_least=0,
    ),
)

GROUP: dict[str, Definition] = {
    definition.name: definition
    for definition in sorted(_GROUP_KEYS, key=lambda definition: definition.name)
}
"""A group's keys by name, in the order of their names."""

MATCHED = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""Attributes of a client that a subscription's `match` can test (KIP-714)."""

CLIENT_METRICS: dict[str, Definition] = {
    definition.name: definition
    for definition in (
        Definition(
            "interval.ms",
            Kind.INT,
            300_000,
            "How often a client pushes its metrics.",
            between=(100, 3_600_000),
        ),
        Definition(
            "match",
            Kind.LIST,
            (),
            "Which clients, as name=regular expression, each of"
            f" {', '.join(MATCHED)}; empty: all clients.",
        ),
        Definition(
            "metrics",
            Kind.LIST,
            (),
            "Which metrics, by prefixes of their names; *: all metrics.",
        ),
    )
}
"""A client metrics subscription's keys by name, in the order of their names."""


def bounds_of_group_key(name: str) -> tuple[str, str]:
    """Return the broker keys for least and greatest value of a group key; they may not exist."""
    kind, _, rest = name.partition(".")
    if name == "streams.num.standby.replicas":
        rest = "standby.replicas"
    return f"{GROUP_PREFIX}{kind}.min.{rest}", f"{GROUP_PREFIX}{kind}.max.{rest}"


def match_patterns(value: Value) -> dict[str, "re.Pattern[str]"]:
    """Return the patterns of a subscription's `match`, by client attribute. Raises ValueError.

    They are compiled as Python patterns: for what such patterns contain, Java's syntax is the same.
    """
    patterns: dict[str, re.Pattern[str]] = {}
    for word in value if isinstance(value, tuple) else ():
        name, equals, pattern = (part.strip() for part in word.partition("="))
        if not equals or name not in MATCHED or "=" in pattern:
            raise ValueError(f"Illegal client matching pattern: {word}")
        try:
            patterns[name] = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"Illegal client matching pattern: {word}") from error
    return patterns

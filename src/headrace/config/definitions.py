"""Every key, by name.

`BROKER` and `TOPIC` are what DescribeConfigs answers from, what values are checked against and what
docs/configuration.md is generated from.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.config.keys.authorization import AuthorizationKeys
from headrace.config.keys.cluster import ClusterKeys
from headrace.config.keys.groups import GroupKeys
from headrace.config.keys.log import LogKeys
from headrace.config.keys.network import NetworkKeys
from headrace.config.keys.oauthbearer import HANDLER, OAuthBearerKeys
from headrace.config.keys.replication import FollowerKeys, ThrottleKeys
from headrace.config.keys.sasl import JAAS, SaslKeys
from headrace.config.keys.share import ShareKeys
from headrace.config.keys.tls import TlsKeys
from headrace.config.keys.tokens import DelegationTokenKeys
from headrace.config.keys.topic import OF_REPLICAS, WITHOUT_EFFECT
from headrace.config.keys.transactions import TransactionKeys
from headrace.config.keys.unused import unused_definition
from headrace.config.keys.zookeeper import ZooKeeperKeys
from headrace.config.listener_keys import parse_listener_key
from headrace.config.log_config import IN_USE
from headrace.config.value_types import Definition
from headrace.model.protocols import ROWS, loaded


class BrokerKeys(
    NetworkKeys,
    TlsKeys,
    ZooKeeperKeys,
    ClusterKeys,
    LogKeys,
    FollowerKeys,
    ThrottleKeys,
    TransactionKeys,
    GroupKeys,
    ShareKeys,
    AuthorizationKeys,
    SaslKeys,
    OAuthBearerKeys,
    DelegationTokenKeys,
):
    """Every key of the broker as an attribute, but for those of `protocol_keys`."""


def _by_name(definitions: Iterable[Definition]) -> Mapping[str, Definition]:
    return {row.name: row for row in sorted(definitions, key=lambda row: row.name)}


def protocol_keys() -> Iterable[Definition]:
    """Yield the keys of protocols' own settings, which their rooms have (`model.protocols`)."""
    for row in ROWS:
        if row.settings:
            yield from loaded(row.settings).KEYS.values()


BROKER: Mapping[str, Definition] = _by_name((*BrokerKeys.KEYS.values(), *protocol_keys()))
"""The broker's keys by name, in the order of their names."""

TOPIC: Mapping[str, Definition] = _by_name((*IN_USE, *OF_REPLICAS, *WITHOUT_EFFECT))
"""A topic's keys by name, in the order of their names."""

BROKER_KEY_OF_TOPIC_KEY: Mapping[str, str] = {
    name: definition.synonym for name, definition in TOPIC.items() if definition.synonym
}
"""`retention.ms` → `log.retention.ms`: where a topic's default comes from."""

TOPIC_KEY_OF_BROKER_KEY: Mapping[str, str] = {
    broker: topic for topic, broker in BROKER_KEY_OF_TOPIC_KEY.items()
}

COARSER: Mapping[str, tuple[str, ...]] = {
    name: tuple(coarser for coarser, _ in definition.coarser)
    for name, definition in BROKER.items()
    if definition.coarser
}
"""Keys that, unset, take the value of others, the nearer one first."""


_OF_MECHANISMS_ONLY = {definition.name: definition for definition in (JAAS, HANDLER)}


def known_but_unused(name: str) -> bool:
    """Tell whether Kafka knows the broker's key `name` and Headrace makes no use of it."""
    return listener_definition(name) is None and unused_definition(name) is not None


def listener_definition(name: str) -> Definition | None:
    """Return what a key with a listener's name before it holds, where a listener may have it."""
    own = parse_listener_key(name)
    known = unused_definition(name)
    if own is None or known is None:
        return None
    if own.key in _OF_MECHANISMS_ONLY:
        # Not while the broker runs, as Kafka's: a password would lie in the store to be read.
        return replace(_OF_MECHANISMS_ONLY[own.key], name=name)
    return replace(BROKER[own.key], name=name, default=None, mode=known.mode)


def used_definition(name: str) -> Definition | None:
    """Return the broker's key `name`, or a listener's own, where it has an effect here."""
    return BROKER.get(name) or listener_definition(name)


def broker_definition(name: str) -> Definition | None:
    """Return what clients may do with the broker's key `name`, used here or only known to Kafka."""
    return used_definition(name) or unused_definition(name)


def nearest_broker_key(name: str) -> str | None:
    """Return the used key most like `name`, for whoever mistyped it; None where none is like it."""
    return _nearest(name, BROKER, 0.75)


def nearest_topic_key(name: str) -> str | None:
    """Return the topic key most like `name`, the broker's name of a topic key being the likest."""
    if name in TOPIC_KEY_OF_BROKER_KEY:
        return TOPIC_KEY_OF_BROKER_KEY[name]
    return _nearest(name, TOPIC, 0.7)


def _nearest(name: str, known: Iterable[str], cutoff: float) -> str | None:
    from difflib import get_close_matches  # not where no name was wrong

    near = get_close_matches(name, known, n=1, cutoff=cutoff)
    return near[0] if near else None

"""All keys by name: `BROKER` and `TOPIC`.

DescribeConfigs answers from them, values are checked by them, and docs/configuration.md is
generated from them.
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
    """Every broker key as an attribute, without those of `protocol_keys`."""


def _by_name(definitions: Iterable[Definition]) -> Mapping[str, Definition]:
    return {row.name: row for row in sorted(definitions, key=lambda row: row.name)}


def protocol_keys() -> Iterable[Definition]:
    """Yield the keys of other protocols, which are defined in their rooms (`model.protocols`)."""
    for row in ROWS:
        if row.settings:
            yield from loaded(row.settings).KEYS.values()


BROKER: Mapping[str, Definition] = _by_name((*BrokerKeys.KEYS.values(), *protocol_keys()))
"""The broker's keys by name, sorted by name."""

TOPIC: Mapping[str, Definition] = _by_name((*IN_USE, *OF_REPLICAS, *WITHOUT_EFFECT))
"""A topic's keys by name, sorted by name."""

BROKER_KEY_OF_TOPIC_KEY: Mapping[str, str] = {
    name: definition.synonym for name, definition in TOPIC.items() if definition.synonym
}
"""By topic key: the broker key that gives its default (`retention.ms` → `log.retention.ms`)."""

TOPIC_KEY_OF_BROKER_KEY: Mapping[str, str] = {
    broker: topic for topic, broker in BROKER_KEY_OF_TOPIC_KEY.items()
}

COARSER: Mapping[str, tuple[str, ...]] = {
    name: tuple(coarser for coarser, _ in definition.coarser)
    for name, definition in BROKER.items()
    if definition.coarser
}
"""By key: the keys whose values are used while it is unset, nearest first."""


_OF_MECHANISMS_ONLY = {definition.name: definition for definition in (JAAS, HANDLER)}


def known_but_unused(name: str) -> bool:
    """Return whether Kafka has a broker key `name` that has no effect in Headrace."""
    return listener_definition(name) is None and unused_definition(name) is not None


def listener_definition(name: str) -> Definition | None:
    """Return the definition of a `listener.name.…` key, or None if listeners have no such key."""
    own = parse_listener_key(name)
    known = unused_definition(name)
    if own is None or known is None:
        return None
    if own.key in _OF_MECHANISMS_ONLY:
        # Read-only, unlike in Kafka: a password altered at run time would be readable in the store.
        return replace(_OF_MECHANISMS_ONLY[own.key], name=name)
    return replace(BROKER[own.key], name=name, default=None, mode=known.mode)


def used_definition(name: str) -> Definition | None:
    """Return the definition of broker or listener key `name` if it has an effect here, or None."""
    return BROKER.get(name) or listener_definition(name)


def broker_definition(name: str) -> Definition | None:
    """Return the definition of broker key `name`, used here or only known to Kafka, or None."""
    return used_definition(name) or unused_definition(name)


def nearest_broker_key(name: str) -> str | None:
    """Return the broker key most similar to a mistyped `name`, or None."""
    return _nearest(name, BROKER, 0.75)


def nearest_topic_key(name: str) -> str | None:
    """Return the topic key most similar to a mistyped `name`, or None.

    For the broker's name of a topic setting it is that topic key.
    """
    if name in TOPIC_KEY_OF_BROKER_KEY:
        return TOPIC_KEY_OF_BROKER_KEY[name]
    return _nearest(name, TOPIC, 0.7)


def _nearest(name: str, known: Iterable[str], cutoff: float) -> str | None:
    from difflib import get_close_matches  # imported only for a wrong name: start-up time

    near = get_close_matches(name, known, n=1, cutoff=cutoff)
    return near[0] if near else None

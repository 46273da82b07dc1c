"""Keys that Kafka had until 2.x: mapped to those that took their place, or without effect.

A server.properties of Kafka 2.0 shall start Headrace as it is. Each key that is met is warned of,
with the key to write now.
"""

from collections.abc import Mapping, MutableMapping
from typing import TypeVar

from headrace.config.listeners import ADVERTISED, LISTENERS

S = TypeVar("S")

ADDRESSES: Mapping[str, tuple[str, str]] = {
    LISTENERS: ("host.name", "port"),
    ADVERTISED: ("advertised.host.name", "advertised.port"),
}
"""By the key that took their place: the former keys of host and port."""
WITHOUT_EFFECT: Mapping[str, str] = {
    "quota.producer.default": "headrace quota set producer_byte_rate=N --default client-id",
    "quota.consumer.default": "headrace quota set consumer_byte_rate=N --default client-id",
    "replica.lag.max.messages": "replica.lag.time.max.ms is what counts",
    "zookeeper.sync.time.ms": "zookeeper.session.timeout.ms bounds how long a broker lags",
}
"""Those that have no successor in the file, with what does the same now."""
FORMER = frozenset(WITHOUT_EFFECT).union(*ADDRESSES.values())
_PORT = "9092"


def translate(given: MutableMapping[str, tuple[str, S]], warnings: list[str]) -> None:
    """Replace former keys by those that took their place; add a warning for each."""
    listened_port = given.get(ADDRESSES[LISTENERS][1])
    for successor, (host, port) in ADDRESSES.items():
        found = {name: given.pop(name) for name in (host, port) if name in given}
        if not found:
            continue
        names = " and ".join(found)
        if successor in given:
            warnings.append(f"{names}: until Kafka 2.x; without effect beside {successor}")
            continue
        at = found.get(port, listened_port)
        at_port = _PORT if at is None else at[0].strip()
        address = found[host][0].strip() if host in found else ""
        if ":" in address:
            address = f"[{address}]"
        text = f"PLAINTEXT://{address}:{at_port}"
        given[successor] = (text, next(iter(found.values()))[1])
        warnings.append(f"{names}: until Kafka 2.x, taken as {successor}={text}: write that now")
    for name, instead in WITHOUT_EFFECT.items():
        if given.pop(name, None) is not None:
            warnings.append(f"{name}: until Kafka 2.x; without effect: {instead}")

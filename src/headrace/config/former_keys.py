"""Keys that Kafka had until 2.x: mapped to their successors, or ignored.

Headrace starts with an unchanged server.properties of Kafka 2.0. Each such key is reported by a
warning with the key to write now.
"""

from collections.abc import Mapping, MutableMapping
from typing import TypeVar

from headrace.config.listeners import ADVERTISED, LISTENERS

S = TypeVar("S")
"""The type of a value's source."""

ADDRESSES: Mapping[str, tuple[str, str]] = {
    LISTENERS: ("host.name", "port"),
    ADVERTISED: ("advertised.host.name", "advertised.port"),
}
"""The former keys of host and port, by the key that replaces them."""
WITHOUT_EFFECT: Mapping[str, str] = {
    "quota.producer.default": "headrace quota set producer_byte_rate=N --default client-id",
    "quota.consumer.default": "headrace quota set consumer_byte_rate=N --default client-id",
    "replica.lag.max.messages": "replica.lag.time.max.ms decides instead",
    "zookeeper.sync.time.ms": "zookeeper.session.timeout.ms bounds how long a broker lags",
}
"""Former keys without a successor in the file, each with its replacement."""
FORMER = frozenset(WITHOUT_EFFECT).union(*ADDRESSES.values())
_PORT = "9092"


def translate(given: MutableMapping[str, tuple[str, S]], warnings: list[str]) -> None:
    """Replace former keys by their successors in `given`; add a warning for each."""
    listened_port = given.get(ADDRESSES[LISTENERS][1])
    for successor, (host, port) in ADDRESSES.items():
        found = {name: given.pop(name) for name in (host, port) if name in given}
        if not found:
            continue
        names = " and ".join(found)
        if successor in given:
            warnings.append(f"{names}: removed in Kafka 3; ignored, as {successor} is set")
            continue
        at = found.get(port, listened_port)
        at_port = _PORT if at is None else at[0].strip()
        address = found[host][0].strip() if host in found else ""
        if ":" in address:
            address = f"[{address}]"
        text = f"PLAINTEXT://{address}:{at_port}"
        given[successor] = (text, next(iter(found.values()))[1])
        warnings.append(
            f"{names}: removed in Kafka 3; read as {successor}={text}: write that instead"
        )
    for name, instead in WITHOUT_EFFECT.items():
        if given.pop(name, None) is not None:
            warnings.append(f"{name}: removed in Kafka 3; ignored, see: {instead}")

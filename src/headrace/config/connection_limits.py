"""Limits on connections per address and per listener, from several keys."""

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from types import MappingProxyType
from typing import NamedTuple

from headrace.config.listener_keys import ListenerValues
from headrace.config.listeners import LISTENER_PROTOCOLS, Listener
from headrace.config.value_types import Value

_UNKNOWN_AT_FIRST = LISTENER_PROTOCOLS.keys() - {"PLAINTEXT"}
"""Protocols whose connections authenticate first."""
_MAX, _RATE = "max.connections", "max.connection.creation.rate"


class ConnectionLimits(NamedTuple):
    """Limits on connections, per address and per listener."""

    of_addresses: Mapping[str, int] = MappingProxyType({})
    """Connections at the same time, by IP address in canonical form."""
    of_listeners: Mapping[str, int] = MappingProxyType({})
    """Connections at the same time, by the listener's name."""
    rates: Mapping[str, int] = MappingProxyType({})
    """New connections per second, by the listener's name."""
    begin_unknown: frozenset[str] = frozenset()
    """Listeners whose connections start unauthenticated (all but PLAINTEXT)."""
    for_brokers: frozenset[str] = frozenset()
    """Inter-broker listeners: exempt from max.connections and its rate."""
    apart: Mapping[str, int] = MappingProxyType({})
    """Places of listeners that have their own, by the listener's name."""


def connection_limits(
    listeners: Sequence[Listener], values: Mapping[str, Value], for_brokers: frozenset[str]
) -> ConnectionLimits:
    """Return the limits per address and per listener. Raises ValueError.

    `for_brokers`: the inter-broker listeners; exempt only if there are other listeners.
    """
    own = ListenerValues(values)
    return ConnectionLimits(
        parse_addresses(str(values["max.connections.per.ip.overrides"])),
        _of_listeners(listeners, own, _MAX),
        _of_listeners(listeners, own, _RATE),
        frozenset(
            listener.name for listener in listeners if listener.protocol in _UNKNOWN_AT_FIRST
        ),
        for_brokers if len(listeners) > 1 else frozenset(),
        {each.name: each.spoken.places_apart for each in listeners if each.spoken.places_apart},
    )


def parse_addresses(text: str) -> dict[str, int]:
    """Parse `ADDRESS:NUMBER,ADDRESS:NUMBER`; ValueError names the wrong entry and the reason."""
    found: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, _, number = entry.rpartition(":")
        try:
            address = str(ip_address(host.strip().removeprefix("[").removesuffix("]")))
        except ValueError:
            raise ValueError(f"{entry!r} is not ADDRESS:NUMBER; names are not looked up") from None
        if not (number.strip().isascii() and number.strip().isdigit()):
            raise ValueError(f"{entry!r} has no whole number behind its address")
        if address in found:
            raise ValueError(f"{address} appears more than once")
        found[address] = int(number)
    return found


def _of_listeners(
    listeners: Sequence[Listener], values: ListenerValues, key: str
) -> dict[str, int]:
    own = {listener.name: values.own(listener.name, key) for listener in listeners}
    return {name: value for name, value in own.items() if isinstance(value, int)}

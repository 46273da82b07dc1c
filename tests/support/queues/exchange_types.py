"""Exchanges of hashing and random types: their queues, and the messages that each gets."""

from collections import Counter
from collections.abc import Iterable, Mapping

from headrace.queues.model.virtual_host import VirtualHost
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.queues.virtual_hosts import bind, exchange, queue, to_queue, virtual_host


def host_with(
    type_name: str,
    keys: Mapping[str, str],
    arguments: Mapping[str, object] | None = None,
) -> VirtualHost:
    """Return a vhost whose exchange `e` has queues, by name, with their binding keys."""
    host = virtual_host()
    exchange(host, "e", type_name, arguments)
    for name, key in keys.items():
        add(host, name, key)
    return host


def add(host: VirtualHost, name: str, key: str = "1") -> None:
    """Declare a queue and bind it."""
    queue(host, name)
    bind(host, to_queue("e", name, key))


def routed(host: VirtualHost, count: int) -> dict[str, str]:
    """Return the only queue of each of the routing keys `k0` to `k{count}`."""
    return {key: only(host.router.route("e", key)) for key in keys(count)}


def keys(count: int) -> list[str]:
    """Return the first routing keys."""
    return [f"k{number}" for number in range(count)]


def only(route: Iterable[str]) -> str:
    """Return the only queue of a route."""
    (found,) = route
    return found


def by_properties(host: VirtualHost, messages: Iterable[Properties]) -> Counter[str]:
    """Return how many messages each queue gets; all have one routing key."""
    return Counter(
        only(host.router.route("e", "k", content_header=make_header(0, each))) for each in messages
    )


def assert_shares(found: Mapping[str, int], weights: Mapping[str, float]) -> None:
    """Compare counts with weights: each is within 4.5 standard deviations of its share."""
    count, weight = sum(found.values()), sum(weights.values())
    for name, own in weights.items():
        share = own / weight
        deviation = (count * share * (1 - share)) ** 0.5
        assert abs(found.get(name, 0) - count * share) <= 4.5 * deviation, (name, found)

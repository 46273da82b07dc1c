"""The four exchange types of AMQP."""

from collections.abc import Collection, Hashable, Sequence

from headrace.queue_stores.queue_settings import QueueType
from headrace.queues.model.exchanges import (
    Binding,
    Destination,
    ExchangeArguments,
    ExchangeType,
    RoutingContext,
)
from headrace.queues.model.headers_matching import (
    HeadersPattern,
    check_match_argument,
    comparable_headers,
    headers_pattern,
)
from headrace.queues.model.published_properties import decoded_headers
from headrace.queues.model.topic_trie import TopicTrie


class DirectTable:
    """Bindings of a direct exchange, by routing key. Implements `BindingTable`."""

    by_key = cached = True

    def __init__(self, _: ExchangeArguments) -> None:
        self._bound: dict[str, dict[Destination, int]] = {}

    def add(self, binding: Binding) -> None:
        """Count one more binding of the destination by the binding's routing key."""
        bound = self._bound.setdefault(binding.routing_key, {})
        bound[binding.destination] = bound.get(binding.destination, 0) + 1

    def remove(self, binding: Binding) -> None:
        """Count one binding less; the last one removes the destination."""
        bound = self._bound[binding.routing_key]
        _count_less(bound, binding.destination)
        if not bound:
            del self._bound[binding.routing_key]

    def match(
        self,
        routing_keys: Sequence[str],
        headers: bytes | None,
        content_header: bytes,
        context: RoutingContext,
    ) -> Collection[Destination]:
        """Return the destinations bound by one of the routing keys."""
        if len(routing_keys) == 1:
            return self._bound.get(routing_keys[0], {})
        return {bound for key in routing_keys for bound in self._bound.get(key, ())}


class FanoutTable:
    """Bindings of a fanout exchange, whose keys have no meaning. Implements `BindingTable`."""

    by_key, cached = False, True

    def __init__(self, _: ExchangeArguments) -> None:
        self._bound: dict[Destination, int] = {}

    def add(self, binding: Binding) -> None:
        """Add a binding: count one more of its destination."""
        self._bound[binding.destination] = self._bound.get(binding.destination, 0) + 1

    def remove(self, binding: Binding) -> None:
        """Count one binding less; the last one removes the destination."""
        _count_less(self._bound, binding.destination)

    def match(
        self,
        routing_keys: Sequence[str],
        headers: bytes | None,
        content_header: bytes,
        context: RoutingContext,
    ) -> Collection[Destination]:
        """Return all bound destinations."""
        return self._bound


class TopicTable:
    """Bindings of a topic exchange, by patterns of words. Implements `BindingTable`."""

    by_key = cached = True

    def __init__(self, _: ExchangeArguments) -> None:
        self._trie: TopicTrie[Destination] = TopicTrie()

    def add(self, binding: Binding) -> None:
        """Add a topic binding's pattern to the trie."""
        self._trie.add(binding.routing_key, binding.destination)

    def remove(self, binding: Binding) -> None:
        """Remove a topic binding's pattern from the trie."""
        self._trie.remove(binding.routing_key, binding.destination)

    def match(
        self,
        routing_keys: Sequence[str],
        headers: bytes | None,
        content_header: bytes,
        context: RoutingContext,
    ) -> Collection[Destination]:
        """Return the destinations bound by a pattern that one of the keys matches."""
        found = self._trie.match(routing_keys[0])
        for key in routing_keys[1:]:
            found |= self._trie.match(key)
        return found


class HeadersTable:
    """Bindings of a headers exchange; each is compared with a message.

    Implements `BindingTable`.
    """

    by_key = cached = False

    def __init__(self, _: ExchangeArguments) -> None:
        self._patterns: dict[Hashable, tuple[HeadersPattern, Destination]] = {}

    def add(self, binding: Binding) -> None:
        """Add the header pattern of a binding's arguments."""
        pattern = headers_pattern(binding.arguments)
        self._patterns[binding.identity] = pattern, binding.destination

    def remove(self, binding: Binding) -> None:
        """Remove the header pattern of a binding."""
        del self._patterns[binding.identity]

    def match(
        self,
        routing_keys: Sequence[str],
        headers: bytes | None,
        content_header: bytes,
        context: RoutingContext,
    ) -> Collection[Destination]:
        """Return the destinations bound by a pattern that the headers match."""
        if not self._patterns:
            return ()
        values = comparable_headers(decoded_headers(headers))
        return {
            destination
            for pattern, destination in self._patterns.values()
            if pattern.matches(values)
        }


def _count_less(bound: dict[Destination, int], destination: Destination) -> None:
    if bound[destination] == 1:
        del bound[destination]
    else:
        bound[destination] -= 1


def _check_match(_: ExchangeArguments, binding: Binding, __: QueueType | None) -> None:
    check_match_argument(binding.arguments)


DIRECT = ExchangeType(
    "direct", "AMQP direct exchange, as per the AMQP specification", table=DirectTable
)
FANOUT = ExchangeType(
    "fanout", "AMQP fanout exchange, as per the AMQP specification", table=FanoutTable
)
TOPIC = ExchangeType(
    "topic", "AMQP topic exchange, as per the AMQP specification", table=TopicTable
)
HEADERS = ExchangeType(
    "headers",
    "AMQP headers exchange, as per the AMQP specification",
    table=HeadersTable,
    check_binding=_check_match,
)

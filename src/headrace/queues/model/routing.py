"""Routes: from an exchange and a routing key to the queues and topics that get the message.

A route follows bindings from exchanges to exchanges, each once, and the alternate exchange of each
that has no binding for the message.
"""

from collections.abc import Collection, Container, Mapping, Sequence

from headrace.queue_stores.queue_settings import ExchangeTopic
from headrace.queues.model.exchange_topic import is_target, target_name
from headrace.queues.model.exchanges import (
    DEFAULT_EXCHANGE,
    CannotRoute,
    Destination,
    Exchange,
    RoutingContext,
)
from headrace.queues.refusals import EXCHANGE, QUEUE, not_found, resource_text
from headrace.wire.amqp.properties import PROPERTIES_AT

ROUTES_KEPT_MAX = 65_536
QUEUES_KEPT_MAX = 1_048_576
"""Queue names in all cached routes together, at most."""

NO_PROPERTIES = bytes(PROPERTIES_AT)
"""The content header of a message without properties."""
Route = tuple[str, ...]
"""Names of queues, sorted and unique; with names of topics if it is a `StoredRoute`."""


class StoredRoute(tuple[str, ...]):
    """A route that includes Kafka topics; its class is the mark, so other routes cost nothing."""

    __slots__ = ()

    @property
    def topics(self) -> list[str]:
        """The names in the route that are topics' (`exchange_topic.topic_of_target`)."""
        return [name for name in self if is_target(name)]


class NackedRoute(tuple[str, ...]):
    """The empty route of a message that came to an exchange whose type this broker lacks."""

    __slots__ = ()


_NACKED = NackedRoute()


class Router:
    """The router of one vhost: routes from exchange and key to queues, cached."""

    def __init__(
        self, vhost: str, exchanges: Mapping[str, Exchange], queues: Container[str]
    ) -> None:
        """Create the router of a vhost.

        `exchanges` and `queues` are the vhost's own, which change.
        """
        self._vhost = vhost
        self._exchanges = exchanges
        self._queues = queues
        self.read_topics: dict[str, ExchangeTopic] = {}
        """Topics that streams read, by stream name; in routes the topic replaces the stream."""
        self.context = RoutingContext()
        self.has_topics = False
        """Whether an exchange ever stored messages in a topic, or a stream ever read one."""
        self._kept: dict[tuple[str, str], Route] = {}
        """Routes by exchange and routing key; routes by several keys are not cached."""
        self._kept_of_any_key: dict[str, Route] = {}
        """Routes by exchange, where the key has no influence on them."""
        self._queues_kept = 0

    def route(
        self,
        exchange: str,
        routing_key: str,
        headers: bytes | None = None,
        more_keys: Sequence[str] = (),
        content_header: bytes = NO_PROPERTIES,
    ) -> Route:
        """Return the route of a message; raise Refused NOT_FOUND if the exchange does not exist.

        `headers` are the entries of the headers table, and `more_keys` the keys of the headers CC
        and BCC. Internal exchanges are routed, too: publishers are refused by
        `VirtualHost.check_publish`.
        """
        if more_keys:
            return self._found(exchange, (routing_key, *more_keys), headers, content_header)
        if exchange == DEFAULT_EXCHANGE:
            if routing_key in self.read_topics:
                return self._found(exchange, (routing_key,), headers, content_header)
            return (routing_key,) if routing_key in self._queues else ()
        kept = self._kept.get((exchange, routing_key))
        if kept is None and (kept := self._kept_of_any_key.get(exchange)) is None:
            return self._found(exchange, (routing_key,), headers, content_header)
        return kept

    def topics_behind(self, destination: Destination) -> Collection[str]:
        """Return all topics in which messages may be stored that come to a queue or an exchange.

        Follows bindings with any key, and alternate exchanges.
        """
        topics: dict[str, None] = {}
        seen = {destination}
        ahead = [destination] if self.has_topics else []
        while ahead:
            kind, name = ahead.pop()
            if kind == QUEUE:
                stored, following = self.read_topics.get(name), set[Destination]()
            elif (exchange := self._exchanges.get(name)) is None:
                continue
            else:
                stored = exchange.stored
                following = {binding.destination for binding in exchange.bindings.values()}
                if exchange.alternate is not None:
                    following.add(Destination(EXCHANGE, exchange.alternate))
            if stored is not None:
                topics[stored.topic] = None
            ahead += following - seen
            seen |= following
        return topics

    def forget(self) -> None:
        """Drop the cached routes: an exchange or a binding was added or removed."""
        self._kept.clear()
        self._kept_of_any_key.clear()
        self._queues_kept = 0

    def _found(
        self, name: str, keys: tuple[str, ...], headers: bytes | None, content_header: bytes
    ) -> Route:
        if name == DEFAULT_EXCHANGE:
            return self._route({key for key in keys if key in self._queues}, {})
        exchange = self._exchanges.get(name)
        if exchange is None:
            raise not_found(EXCHANGE, resource_text(EXCHANGE, name, self._vhost))
        seen = {name}
        ahead = [exchange]
        queues: set[str] = set()
        stored: dict[str, ExchangeTopic] = {}
        by_key, cached = False, len(keys) == 1
        context = self.context
        while ahead:
            exchange = ahead.pop()
            table = exchange.table
            by_key |= table.by_key
            cached &= table.cached
            if exchange.stored is not None:
                stored[target_name(exchange.stored)] = exchange.stored
            try:
                found = table.match(keys, headers, content_header, context)
            except CannotRoute:
                return _NACKED
            if not found and exchange.alternate is not None and exchange.stored is None:
                found = (Destination(EXCHANGE, exchange.alternate),)
            for kind, destination in found:
                if kind == QUEUE:
                    queues.add(destination)
                elif destination not in seen:
                    seen.add(destination)
                    # An alternate exchange may not exist.
                    if (following := self._exchanges.get(destination)) is not None:
                        ahead.append(following)
        route = self._route(queues, stored)
        if cached:
            self._keep(name, keys[0], route, by_key=by_key)
        return route

    def _route(self, queues: set[str], stored: dict[str, ExchangeTopic]) -> Route:
        """Return the route to queues and topics; a topic replaces the streams that read it."""
        if self.read_topics:
            has_it = {topic for topic, _ in stored.values()}
            for name in sorted(queues.intersection(self.read_topics)):
                queues.remove(name)
                read = self.read_topics[name]
                if read.topic not in has_it:
                    has_it.add(read.topic)
                    stored[target_name(read)] = read
        return StoredRoute(sorted(stored.keys() | queues)) if stored else tuple(sorted(queues))

    def _keep(self, exchange: str, key: str, route: Route, *, by_key: bool) -> None:
        kept = len(self._kept) + len(self._kept_of_any_key)
        if kept >= ROUTES_KEPT_MAX or self._queues_kept + len(route) > QUEUES_KEPT_MAX:
            self.forget()
        self._queues_kept += len(route)
        if by_key:
            self._kept[exchange, key] = route
        else:
            self._kept_of_any_key[exchange] = route

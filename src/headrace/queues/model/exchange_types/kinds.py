"""Exchange types that are classes of the contract `headrace.exchanges`."""

from collections.abc import Collection, Hashable, Sequence

from headrace import exchanges as contract
from headrace.model.errors import Malformed
from headrace.queue_stores.queue_settings import QueueType
from headrace.queues.model.exchanges import (
    Binding,
    Destination,
    ExchangeArguments,
    ExchangeType,
    RoutingContext,
)
from headrace.queues.model.published_properties import decoded_headers
from headrace.queues.refusals import malformed_message, precondition_failed
from headrace.wire.amqp.properties import property_of


class _KindTable:
    """The bindings of an exchange whose type is a class. Implements `BindingTable`."""

    by_key = True

    def __init__(self, kind: contract.ExchangeKind) -> None:
        self._kind = kind
        self._reads = kind.reads
        self.cached = not any(self._reads)
        self._bindings: dict[Hashable, Binding] = {}
        self._view: tuple[contract.Binding, ...] | None = None
        """The bindings as the class gets them; None: they have changed."""

    def add(self, binding: Binding) -> None:
        """Add a new binding."""
        self._bindings[binding.identity] = binding
        self._view = None

    def remove(self, binding: Binding) -> None:
        """Remove an existing binding."""
        del self._bindings[binding.identity]
        self._view = None

    def match(
        self,
        routing_keys: Sequence[str],
        headers: bytes | None,
        content_header: bytes,
        context: RoutingContext,
    ) -> Collection[Destination]:
        """Return the destinations that the class chooses."""
        view = self._view
        if view is None:
            view = self._view = tuple(_as_contract(each) for each in self._sorted())
        message = contract.Message(
            tuple(routing_keys),
            _wanted_headers(headers, self._reads.headers),
            _wanted_properties(content_header, self._reads.properties),
        )
        return [Destination(*each) for each in self._kind.route(view, message)]

    def _sorted(self) -> list[Binding]:
        return sorted(
            self._bindings.values(),
            key=lambda each: (each.destination, each.routing_key, ascii(each.identity)),
        )


def type_of(kind: type[contract.ExchangeKind], feature: str) -> ExchangeType:
    """Return the exchange type of a class; `feature`: that of brokers which have it."""

    def check_arguments(arguments: ExchangeArguments) -> None:
        try:
            kind.check_arguments(arguments)
        except contract.Refused as refused:
            raise precondition_failed(str(refused)) from None

    def check_binding(arguments: ExchangeArguments, binding: Binding, _: QueueType | None) -> None:
        try:
            kind.check_binding(arguments, _as_contract(binding))
        except contract.Refused as refused:
            raise precondition_failed(str(refused)) from None

    return ExchangeType(
        kind.name,
        kind.description,
        lambda arguments: _KindTable(kind(arguments)),
        check_arguments,
        check_binding,
        feature,
    )


def _as_contract(binding: Binding) -> contract.Binding:
    return contract.Binding(binding.destination, binding.routing_key, binding.arguments)


def _wanted_headers(headers: bytes | None, names: Sequence[str]) -> dict[str, object]:
    if not names or headers is None:
        return {}
    found = decoded_headers(headers)
    return {name: found[name] for name in names if name in found}


def _wanted_properties(content_header: bytes, names: Sequence[str]) -> dict[str, object]:
    try:
        found = {name: property_of(content_header, name) for name in names}
    except Malformed as malformed:
        raise malformed_message(malformed) from None
    return {name: value for name, value in found.items() if value is not None}

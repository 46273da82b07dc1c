"""`x-random` and `x-local-random`: each message goes to the destination of a random binding."""

from collections.abc import Collection, Hashable, Sequence

from headrace.queue_stores.queue_settings import QueueType
from headrace.queues.model.exchanges import (
    Binding,
    Destination,
    ExchangeArguments,
    RoutingContext,
)
from headrace.queues.refusals import precondition_failed

_TRIES = 8
"""Random bindings that are looked at for one to a queue of this broker, before all are."""


class RandomTable:
    """Bindings whose keys have no meaning. Implements `BindingTable`."""

    by_key = cached = False

    def __init__(self, _: ExchangeArguments) -> None:
        self._bound: list[Destination] = []
        self._identities: list[Hashable] = []
        """The identities of the bindings, in the order of `_bound`."""
        self._at: dict[Hashable, int] = {}
        """The bindings' positions in both lists, by identity."""

    def add(self, binding: Binding) -> None:
        """Append a new binding's destination."""
        identity = binding.identity
        self._at[identity] = len(self._bound)
        self._bound.append(binding.destination)
        self._identities.append(identity)

    def remove(self, binding: Binding) -> None:
        """Remove a binding; the last one gets its position."""
        at = self._at.pop(binding.identity)
        destination, identity = self._bound.pop(), self._identities.pop()
        if at < len(self._bound):
            self._bound[at], self._identities[at] = destination, identity
            self._at[identity] = at

    def match(
        self,
        routing_keys: Sequence[str],
        headers: bytes | None,
        content_header: bytes,
        context: RoutingContext,
    ) -> Collection[Destination]:
        """Return the destination of a random binding, or none if there is no binding."""
        return (_one_of(self._bound, context),) if self._bound else ()


class LocalRandomTable(RandomTable):
    """Bindings to queues, of which those that this broker leads get messages."""

    def match(
        self,
        routing_keys: Sequence[str],
        headers: bytes | None,
        content_header: bytes,
        context: RoutingContext,
    ) -> Collection[Destination]:
        """Return a random queue that this broker leads, or none if it leads none."""
        if not self._bound:
            return ()
        for _ in range(_TRIES):
            found = _one_of(self._bound, context)
            if context.is_led_here(found.name):
                return (found,)
        led = [each for each in self._bound if context.is_led_here(each.name)]
        return (_one_of(led, context),) if led else ()


def check_local_binding(_: ExchangeArguments, binding: Binding, to: QueueType | None) -> None:
    """Raise Refused for a binding with a key, or to anything but a classic queue."""
    if binding.routing_key:
        raise precondition_failed(f"Non empty binding '{binding.routing_key}' key not permitted")
    if to is None:
        raise precondition_failed("Destination not found")
    if to is not QueueType.CLASSIC:
        raise precondition_failed(f"Queue type {to.title} not valid for this exchange type")


def _one_of(bound: Sequence[Destination], context: RoutingContext) -> Destination:
    # The upper bound of a random float may be returned itself.
    return bound[min(int(context.uniform(0, len(bound))), len(bound) - 1)]

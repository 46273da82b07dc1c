"""The type of an exchange that a later version or a plugin has declared: this broker lacks it."""

from collections.abc import Collection, Sequence
from typing import NoReturn

from headrace.queue_stores.queue_settings import QueueType
from headrace.queues.model.exchanges import (
    Binding,
    CannotRoute,
    Destination,
    ExchangeArguments,
    ExchangeType,
    RoutingContext,
)
from headrace.queues.refusals import precondition_failed


class _Unrouted:
    """Bindings that are kept for a broker that has the type. Implements `BindingTable`."""

    by_key = cached = False

    def __init__(self, _: ExchangeArguments) -> None:
        """`Exchange.bindings` has the bindings."""

    def add(self, binding: Binding) -> None:
        """Ignore a new binding."""

    def remove(self, binding: Binding) -> None:
        """Ignore a removed binding."""

    def match(
        self,
        routing_keys: Sequence[str],
        headers: bytes | None,
        content_header: bytes,
        context: RoutingContext,
    ) -> Collection[Destination]:
        """Raise CannotRoute."""
        raise CannotRoute


def unknown_type(name: str) -> ExchangeType:
    """Return a type that routes nothing and accepts no new bindings."""

    def check_binding(_: ExchangeArguments, binding: Binding, __: QueueType | None) -> NoReturn:
        raise precondition_failed(
            f"exchange '{binding.source}' has the type '{name}', which this broker does not have"
        )

    return ExchangeType(name, "", _Unrouted, check_binding=check_binding)

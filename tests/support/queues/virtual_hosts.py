"""Virtual hosts for tests: one declares, binds and asks for routes in few words."""

from collections.abc import Mapping
from itertools import count

import pytest

from headrace.frontends.amqp.replies import reply_to
from headrace.queues.model.bindings import Removed
from headrace.queues.model.declarations import Declared, ExchangeFlags, QueueFlags
from headrace.queues.model.exchanges import Binding, Destination
from headrace.queues.model.virtual_host import VirtualHost
from headrace.queues.refusals import Refused

ME = "connection 1"
OTHER = "connection 2"


def virtual_host(name: str = "/", queues_max: int | None = None) -> VirtualHost:
    numbers = count()
    return VirtualHost(name, lambda: next(numbers).to_bytes(16, "big"), queues_max=queues_max)


def exchange(
    host: VirtualHost,
    name: str,
    type_name: str = "direct",
    arguments: Mapping[str, object] | None = None,
    **flags: bool,
) -> bool:
    return host.declare_exchange(name, type_name, ExchangeFlags(**flags), arguments or {})


def queue(
    host: VirtualHost,
    name: str,
    arguments: Mapping[str, object] | None = None,
    owner: str = ME,
    **flags: bool,
) -> Declared:
    return host.declare_queue(name, QueueFlags(**flags), arguments or {}, owner)


def to_queue(
    source: str, name: str, key: str = "", arguments: Mapping[str, object] | None = None
) -> Binding:
    return Binding(source, Destination("queue", name), key, arguments or {})


def to_exchange(
    source: str, name: str, key: str = "", arguments: Mapping[str, object] | None = None
) -> Binding:
    return Binding(source, Destination("exchange", name), key, arguments or {})


def bind(host: VirtualHost, *bindings: Binding, owner: str = ME) -> None:
    for binding in bindings:
        host.bind(binding, owner)


def unbind(host: VirtualHost, binding: Binding, owner: str = ME) -> Removed:
    return host.unbind(binding, owner)


def refusal(refused: pytest.ExceptionInfo[Refused]) -> str:
    """Return the text a client is told."""
    return str(reply_to(refused.value))

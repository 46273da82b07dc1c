"""Operations that show the objects of virtual hosts one by one, for lists that are made in slices.

A list of 100,000 objects is not one result: its keys are read in slices, and each object is
described when its row is sent. Typed calls alone are answered, as a view is no JSON value.
"""

import hashlib
import json
from base64 import urlsafe_b64encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from headrace.operations.arguments import Arguments
from headrace.operations.tags import Tag

K = TypeVar("K")
D_co = TypeVar("D_co", covariant=True)
_HASH_BYTES = 6
Named = tuple[str, str]
"""A virtual host, and the name of an object in it."""


class View(Protocol[K, D_co]):
    """The objects of one kind, by their keys. On the event loop."""

    async def keys(self, vhosts: Collection[str]) -> list[K]:
        """Return the keys of all objects of these virtual hosts, with pauses, in no order.

        Virtual hosts that do not exist are left out. ApiError: their objects are not loaded yet.
        """

    def describe(self, key: K) -> D_co | None:
        """Return an object as it is now; None: it does not exist. ApiError as for `keys`."""


class QueueCounts(NamedTuple):
    """A queue's messages and consumers now."""

    ready: int
    ready_bytes: int
    """Bytes of the bodies of ready messages."""
    unacknowledged: int
    consumers: int


class OwnerView(NamedTuple):
    """The connection that has an exclusive queue."""

    name: str
    peer_host: str
    peer_port: int


class AppliedView(NamedTuple):
    """The policies that apply to a queue, by their names; None: none does."""

    policy: str | None = None
    operator_policy: str | None = None
    definition: Mapping[str, object] = {}
    """The join of both definitions, without the queue's arguments."""


NONE_APPLIED = AppliedView()


class QueueView(NamedTuple):
    """A queue's declaration, brokers and counts."""

    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    exclusive: bool
    owner: OwnerView | None
    """The connection of an exclusive queue, if it is this broker's."""
    arguments: Mapping[str, object]
    delivery_limit: int | None
    """Of a quorum queue; None: unlimited."""
    leader: int | None
    """The broker that serves it; None: none can."""
    members: tuple[int, ...]
    """The brokers that have its messages, the preferred leader first."""
    online: tuple[int, ...]
    """Members whose brokers run."""
    state: str
    """`running`, `minority`, `down`, or `crashed`: this broker closed it after an error."""
    counts: QueueCounts | None
    """None: another broker leads it, and has them."""
    applied: AppliedView = NONE_APPLIED


class ExchangeView(NamedTuple):
    """An exchange as it was declared: type, durability, arguments."""

    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Mapping[str, object]
    policy: str | None = None
    """The name of the policy that applies to it."""


class PolicyView(NamedTuple):
    """A policy, or an operator policy."""

    vhost: str
    name: str
    value: Mapping[str, object]
    """Its other fields, as in RabbitMQ's API."""


class BindingKey(NamedTuple):
    """A binding, as it is sorted and named in paths."""

    vhost: str
    source: str
    destination: str
    destination_type: str
    """`queue` or `exchange`."""
    routing_key: str
    arguments_hash: str
    """Identifies the arguments of bindings that are otherwise equal; "" without arguments."""
    arguments: Mapping[str, object]
    """As they were sent, with AMQP's types."""


class BindingView(NamedTuple):
    """A binding; the default exchange has one to each queue."""

    key: BindingKey
    arguments: Mapping[str, object]
    """As JSON values."""


class BindingsView(View[BindingKey, BindingView], Protocol):
    """The bindings of virtual hosts."""

    async def keys_of(
        self,
        vhost: str,
        *,
        source: str | None = None,
        destination: tuple[str, str] | None = None,
    ) -> list[BindingKey]:
        """Return the keys of a virtual host's bindings from a source, to a destination, or both.

        `destination` is its type, `queue` or `exchange`, and its name.
        """


def arguments_hash(arguments: Mapping[str, object]) -> str:
    """Return a short hash of arguments, which are JSON values; "" without any."""
    if not arguments:
        return ""
    shown = json.dumps(arguments, sort_keys=True).encode()
    return urlsafe_b64encode(hashlib.sha256(shown).digest()[:_HASH_BYTES]).decode()


@dataclass(frozen=True)
class ViewQueues(Arguments[View[Named, QueueView]]):
    """Show queues."""

    OPERATION = "queue.view"
    MUTATES = False
    TAG = Tag.MANAGEMENT
    RETURNS_JSON = False


@dataclass(frozen=True)
class ViewExchanges(Arguments[View[Named, ExchangeView]]):
    """Show exchanges."""

    OPERATION = "exchange.view"
    MUTATES = False
    TAG = Tag.MANAGEMENT
    RETURNS_JSON = False


@dataclass(frozen=True)
class ViewBindings(Arguments[BindingsView]):
    """Show bindings."""

    OPERATION = "binding.view"
    MUTATES = False
    TAG = Tag.MANAGEMENT
    RETURNS_JSON = False


@dataclass(frozen=True)
class ViewPolicies(Arguments[View[Named, PolicyView]]):
    """Show policies, or operator policies."""

    OPERATION = "policy.view"
    MUTATES = False
    TAG = Tag.MANAGEMENT
    RETURNS_JSON = False
    operators: bool = False

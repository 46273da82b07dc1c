"""`x-consistent-hash`: a message goes to one destination, by weighted rendezvous hashing.

Each pair of a message and a destination has a number u below 1, from the hashes of both. The
destination with the largest log(u) / weight gets the message. So a destination's share is exactly
its weight's, it does not depend on the order of bindings, and a binding that is added or removed
moves only messages of its own destination.

The numbers of all destinations of one weight are computed by one multiplication: their hashes are
side by side in one integer, 128 bits for each.

    destinations     |  0 | hash 2    |  0 | hash 1    |  0 | hash 0    |
    times the key's  |  0 | product 2        |  product 1    | product 0 |   below 2^128 each
    u                         bits 64 to 95 of each product

Only the best one of each weight needs a logarithm.
"""

import re
from array import array
from collections.abc import Callable, Collection, Hashable, Sequence
from math import log
from typing import NamedTuple

from headrace.model.errors import Malformed
from headrace.queue_stores.queue_settings import QueueType
from headrace.queues.field_values import text
from headrace.queues.model.exchange_types.hashes import hash_of_keys, hash_of_value
from headrace.queues.model.exchanges import (
    Binding,
    Destination,
    ExchangeArguments,
    RoutingContext,
)
from headrace.queues.model.policies.erlang_terms import erlang_term
from headrace.queues.refusals import malformed_message, precondition_failed
from headrace.wire.amqp.properties import header_value, property_of

HASH_HEADER, HASH_PROPERTY = "hash-header", "hash-property"
PROPERTIES = frozenset({"message_id", "correlation_id", "timestamp"})
WEIGHT_MAX = 10_000
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_LANE_BYTES = 16
_WORD = "I"
_WORD_BITS = 32
_TOP_WORD, _WORDS_EACH = 2, 4
"""The word of a product that is u, and the words of each product."""


class _SameWeight(NamedTuple):
    """The destinations of one weight."""

    weight: int
    destinations: list[Destination]
    hashes: int
    """The hashes of the destinations, 128 bits for each, the first one lowest."""


class _Bound(NamedTuple):
    """A destination's bindings."""

    lane: bytes
    """The hash of the destination, of 128 bits."""
    weights: dict[Hashable, int]
    """The weights by the bindings' identities, at least one."""


class ConsistentHashTable:
    """The bindings of an exchange; their keys are weights. Implements `BindingTable`."""

    def __init__(self, arguments: ExchangeArguments) -> None:
        self._value = _reader(arguments)
        self.by_key = self.cached = self._value is None
        self._bound: dict[Destination, _Bound] = {}
        self._weights: list[_SameWeight] | None = None
        """None: bindings have changed."""

    def add(self, binding: Binding) -> None:
        """Add a new binding."""
        bound = self._bound.get(binding.destination)
        if bound is None:
            bound = self._bound[binding.destination] = _Bound(_lane(binding.destination), {})
        bound.weights[binding.identity] = _weight(binding.routing_key)
        self._weights = None

    def remove(self, binding: Binding) -> None:
        """Remove an existing binding."""
        weights = self._bound[binding.destination].weights
        del weights[binding.identity]
        if not weights:
            del self._bound[binding.destination]
        self._weights = None

    def match(
        self,
        routing_keys: Sequence[str],
        headers: bytes | None,
        content_header: bytes,
        context: RoutingContext,
    ) -> Collection[Destination]:
        """Return one destination, or none if there is no binding."""
        weights = self._weights
        if weights is None:
            weights = self._weights = _by_weight(self._bound)
        if not weights:
            return ()
        if self._value is None:
            hashed = hash_of_keys(routing_keys)
        else:
            try:
                hashed = hash_of_value(self._value(content_header))
            except Malformed as malformed:
                raise malformed_message(malformed) from None
        return (_best(weights, hashed | 1),)


def _reader(arguments: ExchangeArguments) -> Callable[[bytes], object] | None:
    """Return a function that reads the hashed value of a content header; None: keys are hashed."""
    header, name = arguments.get(HASH_HEADER), arguments.get(HASH_PROPERTY)
    if isinstance(header, str):
        return lambda content_header: header_value(content_header, header)
    if isinstance(name, str) and name in PROPERTIES:
        return lambda content_header: property_of(content_header, name)
    return None


def check_hash_arguments(arguments: ExchangeArguments) -> None:
    """Raise Refused for an unknown property, or for both a header and a property."""
    header, name = arguments.get(HASH_HEADER), arguments.get(HASH_PROPERTY)
    for argument, value in ((HASH_HEADER, header), (HASH_PROPERTY, name)):
        if argument in arguments and not isinstance(value, str):
            raise precondition_failed(f"Invalid argument '{argument}': it must be a string")
    if header is not None and name is not None:
        raise precondition_failed("hash-header and hash-property are mutually exclusive")
    if name is not None and name not in PROPERTIES:
        raise precondition_failed(f"Unsupported property: {text(name)}")


def check_weight(_: ExchangeArguments, binding: Binding, __: QueueType | None) -> None:
    """Raise Refused unless a binding's key is an integer from 1 to 10,000."""
    key = binding.routing_key
    if _INTEGER.fullmatch(key) is None:
        raise precondition_failed(f"The binding key must be an integer: {erlang_term(key)}")
    if int(key) < 1:
        raise precondition_failed("The binding key must be greater than 0")
    if int(key) > WEIGHT_MAX:
        raise precondition_failed(f"The binding key must not exceed {WEIGHT_MAX}")


def _weight(key: str) -> int:
    """Return the weight of a binding that may be unchecked: a stored one."""
    return min(max(int(key), 1), WEIGHT_MAX) if _INTEGER.fullmatch(key) else 1


def _by_weight(bound: dict[Destination, _Bound]) -> list[_SameWeight]:
    """Return the destinations by weight: the smallest of its bindings' weights for each."""
    by_weight: dict[int, list[Destination]] = {}
    for destination in sorted(bound):
        by_weight.setdefault(min(bound[destination].weights.values()), []).append(destination)
    found: list[_SameWeight] = []
    for weight, some in sorted(by_weight.items()):
        lanes = b"".join(bound[each].lane for each in some)
        found.append(_SameWeight(weight, some, int.from_bytes(lanes, "little")))
    return found


def _lane(destination: Destination) -> bytes:
    # One bit less than the hash has: a product with the key's hash is below 2^128.
    return (hash_of_keys(destination) >> 1).to_bytes(_LANE_BYTES, "little")


def _best(weights: list[_SameWeight], hashed: int) -> Destination:
    """Return the destination of a message with this odd hash."""
    best, best_score = weights[0].destinations[0], float("-inf")
    for weight, destinations, hashes in weights:
        words = array(_WORD, (hashes * hashed).to_bytes(len(destinations) * _LANE_BYTES, "little"))
        tops = words[_TOP_WORD::_WORDS_EACH]
        largest = max(tops)
        score = log((largest + 0.5) / (1 << _WORD_BITS)) / weight
        if score > best_score:
            best, best_score = destinations[tops.index(largest)], score
    return best

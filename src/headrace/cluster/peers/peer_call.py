"""A request among brokers, for a client to ask: fields out, fields in."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from headrace.client.transport.port import Buffer
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import request_head
from headrace.wire.kafka.peer_messages import PEER_MESSAGES, PEER_VERSIONS

T = TypeVar("T")
Fields = Mapping[str, Any]
"""A message, by the names of Kafka's message definitions."""


class PeerCall(Generic[T]):
    """A request to one broker. `client.calls.call.Call`."""

    def __init__(self, key: ApiKey, fields: Fields, parse: Callable[[Fields], T]) -> None:
        """`parse` reads the response's fields; ApiError where they say so."""
        self.key = key
        self.versions = PEER_VERSIONS[key]
        self._fields = fields
        self._parse = parse

    def encode(self, version: int, correlation_id: int, client_id: str) -> Sequence[Buffer]:
        """Encode the whole frame."""
        body = PEER_MESSAGES[self.key].request.encode(self._fields, version)
        return [request_head(self.key, version, correlation_id, client_id, len(body)), body]

    def decode(self, version: int, body: memoryview) -> T:
        """Decode a response by `parse`. Malformed."""
        return self._parse(PEER_MESSAGES[self.key].response.decode(body, version))

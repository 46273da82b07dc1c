"""`PeerCall`: an inter-broker request and its response, as mappings of field names to values."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from headrace.client.transport.port import Buffer
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import request_head
from headrace.wire.kafka.peer_messages import PEER_MESSAGES, PEER_VERSIONS

T = TypeVar("T")
Fields = Mapping[str, Any]
"""A message as field values by the names of Kafka's message definitions."""


class PeerCall(Generic[T]):
    """An inter-broker request and the parser of its response.

    Implements `client.calls.call.Call`.
    """

    def __init__(self, key: ApiKey, fields: Fields, parse: Callable[[Fields], T]) -> None:
        """Create a request of API `key`.

        `parse` converts the response's fields, and may raise ApiError.
        """
        self.key = key
        self.versions = PEER_VERSIONS[key]
        self._fields = fields
        self._parse = parse

    def encode(self, version: int, correlation_id: int, client_id: str) -> Sequence[Buffer]:
        """Return the request's frame: header and body."""
        body = PEER_MESSAGES[self.key].request.encode(self._fields, version)
        return [request_head(self.key, version, correlation_id, client_id, len(body)), body]

    def decode(self, version: int, body: memoryview) -> T:
        """Decode a response body and convert it with `parse`. Raises Malformed."""
        return self._parse(PEER_MESSAGES[self.key].response.decode(body, version))

"""The requests that a client sends: encoded in several API versions, the response decoded.

Hot APIs have hand-written codecs (`HotCall`); all others use kio's entities (`ColdCall`).
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Generic, Protocol, TypeVar

from headrace.client.transport.port import Buffer
from headrace.model.errors import ApiError, ErrorCode
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import VERSIONS, ApiKey
from headrace.wire.kafka.frame import request_head

R = TypeVar("R")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

RETRIABLE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)
"""Error codes that may pass: the client refetches metadata and retries the request."""


class Call(Protocol[T_co]):
    """A request that is not yet encoded in a particular API version."""

    @property
    def key(self) -> ApiKey: ...

    @property
    def versions(self) -> tuple[int, int]:
        """The oldest and the newest API version this request can be encoded in."""

    def encode(self, version: int, correlation_id: int, client_id: str) -> Sequence[Buffer]:
        """Encode the whole request frame, header included."""

    def decode(self, version: int, body: memoryview) -> T_co:
        """Decode the response's body."""


class Maker:
    """Builds kio's entities of one API version, leaving out fields which that version lacks."""

    def __init__(self, key: ApiKey, version: int) -> None:
        self.version = version
        self._request = kio_codec.request_type(key, version)
        self._module = kio_codec.entity_module(key, version).request

    def request(self, **values: Any) -> Any:  # noqa: ANN401 - kio's entity
        """Build the request entity of this API."""
        return _filled(self._request, values)

    def part(self, name: str, /, **values: Any) -> Any:  # noqa: ANN401 - kio's entity
        """Build a nested structure, by its name in Kafka's message definitions."""
        return _filled(getattr(self._module, name), values)


def _filled(entity: type[Any], values: dict[str, Any]) -> Any:  # noqa: ANN401
    known = {field.name for field in fields(entity) if field.init}
    return entity(**{name: value for name, value in values.items() if name in known})


class ColdCall(Generic[T]):
    """A request encoded by kio: `build` makes the request entity, `parse` reads the response
    entity."""

    def __init__(
        self,
        key: ApiKey,
        build: Callable[[Maker], Any],
        parse: Callable[[Any], T],
        *,
        versions: tuple[int, int] | None = None,
    ) -> None:
        self.key = key
        self.versions = VERSIONS[key] if versions is None else versions
        self._build = build
        self._parse = parse

    def encode(self, version: int, correlation_id: int, client_id: str) -> Sequence[Buffer]:
        """Encode the whole request frame, header included."""
        entity = self._build(Maker(self.key, version))
        return [kio_codec.encode_request(entity, correlation_id, client_id)]

    def decode(self, version: int, body: memoryview) -> T:
        """Decode the response with kio and convert it by `parse`."""
        return self._parse(kio_codec.decode_response(self.key, version, body))


class HotCall(Generic[R, T]):
    """A request encoded and decoded by a hand-written codec of `wire.kafka.hot`."""

    def __init__(
        self,
        key: ApiKey,
        encode: Callable[[int, R], bytes],
        decode: Callable[[int, memoryview], T],
        request: R,
        *,
        versions: tuple[int, int] | None = None,
    ) -> None:
        self.key = key
        self.versions = VERSIONS[key] if versions is None else versions
        self._encode = encode
        self._decode = decode
        self.request = request

    def encode(self, version: int, correlation_id: int, client_id: str) -> Sequence[Buffer]:
        """Encode the whole request frame, header included."""
        body = self._encode(version, self.request)
        return [request_head(self.key, version, correlation_id, client_id, len(body)), body]

    def decode(self, version: int, body: memoryview) -> T:
        """Decode the response's body with the hand-written codec."""
        return self._decode(version, body)


def check(code: int, message: str | None = None) -> None:
    """Raise ApiError with `message` unless `code` is 0."""
    if code:
        raise ApiError(error_code(code), message)


def error_code(code: int) -> ErrorCode:
    """Return the ErrorCode of a number; UNKNOWN_SERVER_ERROR for a number unknown to this
    client."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR

"""ApiVersions, InitProducerId and FindCoordinator: the requests that a client sends first.

The first two have codecs by hand, as importing kio takes longer than a short-lived producer runs.
"""

from collections.abc import Sequence
from typing import Any

from headrace.client.calls.call import ColdCall, Maker, check
from headrace.client.transport.port import Address, Buffer
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import request_head
from headrace.wire.kafka.reader import Reader, reader_of
from headrace.wire.kafka.writer import writer_of

_TRANSACTION_TIMEOUT_MS = 60_000
"""The required field's value; without a transactional id the broker ignores it."""


class VersionsCall:
    """ApiVersions v0: the request that every broker understands."""

    key = ApiKey.API_VERSIONS
    versions = (0, 0)

    def encode(self, version: int, correlation_id: int, client_id: str) -> Sequence[Buffer]:
        """Encode the request frame, which has no body."""
        return [request_head(self.key, version, correlation_id, client_id, 0)]

    def decode(self, version: int, body: memoryview) -> dict[int, tuple[int, int]]:
        """Decode the broker's lowest and highest version by API key."""
        reader = Reader(body)
        check(reader.int16())
        return {reader.int16(): (reader.int16(), reader.int16()) for _ in range(reader.count(6))}


class InitProducerCall:
    """InitProducerId v0-v4: get a new producer id and epoch, without transactions."""

    key = ApiKey.INIT_PRODUCER_ID
    versions = (0, 4)

    def encode(self, version: int, correlation_id: int, client_id: str) -> Sequence[Buffer]:
        """Encode the whole request frame, header included."""
        writer = writer_of(version >= 2)()
        writer.nullable_string(None)
        writer.int32(_TRANSACTION_TIMEOUT_MS)
        if version >= 3:
            writer.int64(-1)
            writer.int16(-1)
        writer.tags()
        head = request_head(self.key, version, correlation_id, client_id, len(writer.out))
        return [head, writer.out]

    def decode(self, version: int, body: memoryview) -> tuple[int, int]:
        """Decode the producer id and the producer epoch."""
        reader = reader_of(version >= 2)(body)
        reader.int32()
        check(reader.int16())
        return reader.int64(), reader.int16()


def find_coordinator_call(kind: int, key: str) -> ColdCall[Address]:
    """Build FindCoordinator for `key`: a group (`kind` 0) or a transactional id (1)."""

    def build(maker: Maker) -> Any:  # noqa: ANN401
        return maker.request(key=key, key_type=kind, coordinator_keys=(key,))

    def parse(response: Any) -> Address:  # noqa: ANN401
        found = response
        if hasattr(response, "coordinators"):
            found = response.coordinators[0]
        check(found.error_code, found.error_message)
        return Address(str(found.host), int(found.port))

    return ColdCall(ApiKey.FIND_COORDINATOR, build, parse)

"""What is asked before anything else: the broker's versions, who coordinates, a producer's id.

Two of them have codecs here: they are all that a producer needs beside the hot ones, and kio takes
longer to import than a short-lived process takes to do its work.
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
"""Must be said; means nothing without a transactional id."""


class VersionsCall:
    """ApiVersions v0: the one request every broker understands."""

    key = ApiKey.API_VERSIONS
    versions = (0, 0)

    def encode(self, version: int, correlation_id: int, client_id: str) -> Sequence[Buffer]:
        """Encode the whole frame: the request has no body."""
        return [request_head(self.key, version, correlation_id, client_id, 0)]

    def decode(self, version: int, body: memoryview) -> dict[int, tuple[int, int]]:
        """Decode the lowest and highest version by API key."""
        reader = Reader(body)
        check(reader.int16())
        return {reader.int16(): (reader.int16(), reader.int16()) for _ in range(reader.count(6))}


class InitProducerCall:
    """InitProducerId v0-v4: a new producer id and its epoch, outside of transactions."""

    key = ApiKey.INIT_PRODUCER_ID
    versions = (0, 4)

    def encode(self, version: int, correlation_id: int, client_id: str) -> Sequence[Buffer]:
        """Encode the whole frame."""
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
        """Decode producer id and epoch."""
        reader = reader_of(version >= 2)(body)
        reader.int32()
        check(reader.int16())
        return reader.int64(), reader.int16()


def find_coordinator_call(kind: int, key: str) -> ColdCall[Address]:
    """Make the call that finds the coordinator of group (`kind` 0) or transactional id `key`."""

    def build(maker: Maker) -> Any:  # noqa: ANN401
        return maker.request(key=key, key_type=kind, coordinator_keys=(key,))

    def parse(response: Any) -> Address:  # noqa: ANN401
        found = response
        if hasattr(response, "coordinators"):
            found = response.coordinators[0]
        check(found.error_code, found.error_message)
        return Address(str(found.host), int(found.port))

    return ColdCall(ApiKey.FIND_COORDINATOR, build, parse)

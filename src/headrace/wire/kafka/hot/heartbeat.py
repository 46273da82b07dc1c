"""Heartbeat (key 12, v0-v4) of a classic group's member.

v1 throttle time; v3 static members; v4 flexible.
"""

from typing import NamedTuple

from headrace.wire.kafka.reader import reader_of
from headrace.wire.kafka.writer import writer_of

FLEXIBLE_FROM = 4
INSTANCES_FROM = 3


class HeartbeatRequest(NamedTuple):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


class HeartbeatResponse(NamedTuple):
    error_code: int = 0
    throttle_ms: int = 0


def decode_request(version: int, body: memoryview) -> HeartbeatRequest:
    """Decode the body of a Heartbeat request. Raises Malformed."""
    reader = reader_of(version >= FLEXIBLE_FROM)(body)
    group_id, generation_id, member_id = reader.string(), reader.int32(), reader.string()
    instance = reader.nullable_string() if version >= INSTANCES_FROM else None
    reader.skip_tags()
    return HeartbeatRequest(group_id, generation_id, member_id, instance)


def encode_request(version: int, request: HeartbeatRequest) -> bytes:
    """Encode the body of a Heartbeat request."""
    writer = writer_of(version >= FLEXIBLE_FROM)()
    writer.string(request.group_id)
    writer.int32(request.generation_id)
    writer.string(request.member_id)
    if version >= INSTANCES_FROM:
        writer.nullable_string(request.group_instance_id)
    writer.tags()
    return bytes(writer.out)


def encode_response(version: int, response: HeartbeatResponse) -> bytes:
    """Encode the body of a Heartbeat response."""
    writer = writer_of(version >= FLEXIBLE_FROM)()
    if version >= 1:
        writer.int32(response.throttle_ms)
    writer.int16(response.error_code)
    writer.tags()
    return bytes(writer.out)


def decode_response(version: int, body: memoryview) -> HeartbeatResponse:
    """Decode the body of a Heartbeat response. Raises Malformed."""
    reader = reader_of(version >= FLEXIBLE_FROM)(body)
    throttle_ms = reader.int32() if version >= 1 else 0
    error_code = reader.int16()
    reader.skip_tags()
    return HeartbeatResponse(error_code, throttle_ms)

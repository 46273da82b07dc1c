"""ApiVersions (key 18, v0-v4): the supported API versions and the enabled features.

An unknown version is answered in v0 with UNSUPPORTED_VERSION (KIP-511). v1 throttle time; v3
flexible, client name, features; v4 features whose lowest version is 0.
"""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.model.errors import ErrorCode
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.reader import CompactReader, Reader, reader_of
from headrace.wire.kafka.writer import CompactWriter, writer_of

FLEXIBLE_FROM = 3
ZERO_FEATURES_FROM = 4
_RANGE_BYTES_MIN = 6


class ApiVersionsRequest(NamedTuple):
    client_software_name: str = ""
    client_software_version: str = ""


class ApiRange(NamedTuple):
    """An API's range of supported versions, inclusive."""

    api_key: int
    min_version: int
    max_version: int


class SupportedFeature(NamedTuple):
    name: str
    min_version: int
    max_version: int


class FinalizedFeature(NamedTuple):
    name: str
    max_version_level: int
    min_version_level: int


class ApiVersionsResponse(NamedTuple):
    """An ApiVersions response; `finalized_epoch` -1: unknown, so finalized features are
    meaningless."""

    error_code: int = 0
    api_keys: Sequence[ApiRange] = ()
    throttle_ms: int = 0
    supported: Sequence[SupportedFeature] = ()
    finalized_epoch: int = -1
    finalized: Sequence[FinalizedFeature] = ()
    zk_migration_ready: bool = False


def decode_request(version: int, body: memoryview) -> ApiVersionsRequest:
    """Decode the body of an ApiVersions request. Raises Malformed."""
    if version < FLEXIBLE_FROM:
        return ApiVersionsRequest()
    reader = CompactReader(body)
    request = ApiVersionsRequest(reader.string(), reader.string())
    reader.skip_tags()
    return request


def encode_request(version: int, request: ApiVersionsRequest) -> bytes:
    """Encode the body of an ApiVersions request."""
    if version < FLEXIBLE_FROM:
        return b""
    writer = CompactWriter()
    writer.string(request.client_software_name)
    writer.string(request.client_software_version)
    writer.tags()
    return bytes(writer.out)


def encode_unsupported(low: int = 0, high: int = 4) -> bytes:
    """Encode the v0 response to an unknown version of ApiVersions, with the range to retry in."""
    return encode_response(
        0,
        ApiVersionsResponse(
            ErrorCode.UNSUPPORTED_VERSION, [ApiRange(ApiKey.API_VERSIONS, low, high)]
        ),
    )


def encode_response(version: int, response: ApiVersionsResponse) -> bytes:
    """Encode the body of an ApiVersions response."""
    writer = writer_of(version >= FLEXIBLE_FROM)()
    writer.int16(response.error_code)
    writer.count(len(response.api_keys))
    for served in response.api_keys:
        writer.int16(served.api_key)
        writer.int16(served.min_version)
        writer.int16(served.max_version)
        writer.tags()
    if version >= 1:
        writer.int32(response.throttle_ms)
    if version >= FLEXIBLE_FROM:
        writer.tags(_feature_tags(version, response))
    return bytes(writer.out)


def _feature_tags(version: int, response: ApiVersionsResponse) -> list[tuple[int, bytes]]:
    fields: list[tuple[int, bytes]] = []
    # Java clients before 4.0 refuse a lowest version of 0 (KAFKA-17492).
    supported = [
        feature
        for feature in response.supported
        if version >= ZERO_FEATURES_FROM or feature.min_version > 0
    ]
    if supported:
        fields.append((0, _encode_features(supported)))
    if response.finalized_epoch != -1:
        writer = CompactWriter()
        writer.int64(response.finalized_epoch)
        fields.append((1, bytes(writer.out)))
    if response.finalized:
        fields.append((2, _encode_features(response.finalized)))
    if response.zk_migration_ready:
        fields.append((3, b"\x01"))
    return fields


def _encode_features(features: Sequence[SupportedFeature] | Sequence[FinalizedFeature]) -> bytes:
    writer = CompactWriter()
    writer.count(len(features))
    for name, first, second in features:
        writer.string(name)
        writer.int16(first)
        writer.int16(second)
        writer.tags()
    return bytes(writer.out)


def decode_response(version: int, body: memoryview) -> ApiVersionsResponse:
    """Decode the body of an ApiVersions response. Raises Malformed.

    A broker that does not know `version` answers in v0: check `error_code` first (35), then decode
    as v0.
    """
    reader = reader_of(version >= FLEXIBLE_FROM)(body)
    error_code = reader.int16()
    api_keys = []
    for _ in range(reader.count(_RANGE_BYTES_MIN)):
        api_keys.append(ApiRange(reader.int16(), reader.int16(), reader.int16()))
        reader.skip_tags()
    throttle_ms = reader.int32() if version >= 1 else 0
    supported: list[SupportedFeature] = []
    finalized: list[FinalizedFeature] = []
    epoch, migration = -1, False
    for tag, field in reader.tags():
        if tag == 0:
            supported = [SupportedFeature(*feature) for feature in _decode_features(field)]
        elif tag == 1:
            epoch = field.int64()
        elif tag == 2:
            finalized = [FinalizedFeature(*feature) for feature in _decode_features(field)]
        elif tag == 3:
            migration = field.boolean()
    return ApiVersionsResponse(
        error_code, api_keys, throttle_ms, supported, epoch, finalized, migration
    )


def _decode_features(reader: Reader) -> list[tuple[str, int, int]]:
    features = []
    for _ in range(reader.count(_RANGE_BYTES_MIN)):
        features.append((reader.string(), reader.int16(), reader.int16()))
        reader.skip_tags()
    return features

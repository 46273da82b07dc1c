"""A client's software is named within KIP-511's pattern, or its ApiVersions is refused."""

from pathlib import Path

import pytest

from headrace.frontends.kafka.connection import api_versions
from headrace.model.errors import ErrorCode
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import api_versions as wire
from tests.support.cluster.followed import dispatcher
from tests.support.processes.broker import Room, play, room

UNKNOWN = ("", "")


def told(here: Room, version: int, name: str, release: str) -> tuple[int, bool, tuple[str, ...]]:
    """The error code, whether APIs are named, and the software that is noted of the client."""
    context = here.context(ApiKey.API_VERSIONS, version)
    context.shared = dispatcher(here).shared
    request = wire.ApiVersionsRequest(name, release)
    answer = api_versions.handle(
        context, memoryview(bytearray(wire.encode_request(version, request)))
    )
    assert isinstance(answer, bytes)
    response = wire.decode_response(version, memoryview(answer))
    assert (response.finalized_epoch == -1) == (response.error_code != 0 or version < 3)
    return response.error_code, bool(response.api_keys), tuple(context.client_software)


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(
    ("name", "release"),
    [("librdkafka", "2.6.1-RC1"), ("a", "1"), ("client-1.x", "1.0.0"), ("a" * 300, "v1..2")],
)
def test_software_within_the_pattern_is_noted(
    tmp_path: Path, version: int, name: str, release: str
) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            assert told(here, version, name, release) == (0, True, (name, release))

    play(story())


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(
    "bad", ["", "-x", "x-", ".x", "x.", "bad name", "1.0!", "a_b", "a\nb", "a\n", "ü", "1+b", "٣"]
)
def test_software_outside_of_the_pattern_is_refused_without_apis(
    tmp_path: Path, version: int, bad: str
) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            refused = (ErrorCode.INVALID_REQUEST, False, UNKNOWN)
            assert told(here, version, bad, "1.0") == refused
            assert told(here, version, "client", bad) == refused

    play(story())


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_without_a_name_are_answered(tmp_path: Path, version: int) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            assert told(here, version, "", "") == (0, True, UNKNOWN)

    play(story())

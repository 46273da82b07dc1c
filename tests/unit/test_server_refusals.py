"""A cold request that meets a bug is answered with an error where its response can say one."""

import pytest

from headrace.frontends.kafka import refusals
from headrace.frontends.kafka.registry import APIS
from headrace.model.errors import ErrorCode
from headrace.wire.kafka import cold

COLD = [
    (api.key, version)
    for api in APIS
    if not api.hot
    for version in range(api.min_version, api.max_version + 1)
]


@pytest.mark.parametrize(("key", "version"), COLD)
def test_a_refusal_is_a_response_of_that_version_or_none(key: int, version: int) -> None:
    body = refusals.body(key, version, ErrorCode.UNKNOWN_SERVER_ERROR)
    if body is not None:
        answer = cold.decode_response(key, version, memoryview(body))
        assert int(answer.error_code) == ErrorCode.UNKNOWN_SERVER_ERROR

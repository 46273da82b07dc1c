"""A cold request that meets a bug is answered with an error where its response can say one."""

import pytest
from kafka.protocol.schemas.load_json import load_json

from headrace.frontends.kafka.connection import refusals
from headrace.frontends.kafka.connection.registry import APIS
from headrace.model.errors import ErrorCode
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey

COLD = [
    (api.key, version)
    for api in APIS
    if not api.hot
    for version in range(api.min_version, api.max_version + 1)
]
K = ApiKey
WITHOUT_SCHEMA = {
    K.GET_TELEMETRY_SUBSCRIPTIONS: True, K.PUSH_TELEMETRY: True,
    K.CONSUMER_GROUP_HEARTBEAT: True, K.CONSUMER_GROUP_DESCRIBE: False,
    K.SHARE_GROUP_HEARTBEAT: True, K.SHARE_GROUP_DESCRIBE: False,
    K.DESCRIBE_SHARE_GROUP_OFFSETS: False, K.ALTER_SHARE_GROUP_OFFSETS: True,
    K.DELETE_SHARE_GROUP_OFFSETS: True,
    K.CREATE_DELEGATION_TOKEN: True, K.RENEW_DELEGATION_TOKEN: True,
    K.EXPIRE_DELEGATION_TOKEN: True, K.DESCRIBE_DELEGATION_TOKEN: True,
}  # fmt: skip
"""APIs kafka-python does not bring Kafka's schema of: whether their response has an error code."""


def can_say_an_error(key: ApiKey, version: int) -> bool:
    """Whether Kafka's schema has an error code for the whole response in this version."""
    if key in WITHOUT_SCHEMA:
        return WITHOUT_SCHEMA[key]
    name = "".join(word.capitalize() for word in key.name.split("_"))
    fields = {field["name"]: field for field in load_json(f"{name}Response")["fields"]}
    if "ErrorCode" not in fields:
        return False
    first, _, last = fields["ErrorCode"]["versions"].rstrip("+").partition("-")
    return int(first) <= version <= int(last or (1 << 15))


@pytest.mark.parametrize(("key", "version"), COLD)
def test_a_refusal_says_the_error_in_every_version_that_can_and_is_none_else(
    key: ApiKey, version: int
) -> None:
    body = refusals.body(key, version, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert (body is not None) == can_say_an_error(key, version)
    if body is not None:
        answer = kio_codec.decode_response(key, version, memoryview(body))
        assert int(answer.error_code) == ErrorCode.UNKNOWN_SERVER_ERROR

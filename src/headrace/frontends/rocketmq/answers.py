"""Answers to remoting requests, and errors that become answers."""

from collections.abc import Mapping
from typing import NamedTuple

from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.wire.rocketmq.codes import ResponseCode

NOT_FOUND_TEXT = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
"""Clients' tools look for these words of RocketMQ's."""
NO_CODE_SET = "not set any response code"
QUEUE_EMPTY = "NO_MESSAGE_IN_QUEUE"
"""The remark of pulls from a queue that never had a message."""
"""The remark of some of RocketMQ's successful answers."""
FORBIDDEN = "forbiddenType"
GROUP_FORBIDDEN, TOPIC_FORBIDDEN = "2", "3"
"""The field that says what a pull was refused for, and its values."""


class RemotingAnswer(NamedTuple):
    """The answer to a request."""

    code: int = ResponseCode.SUCCESS
    """A ResponseCode, or what a client has answered to a relayed request."""
    fields: Mapping[str, str] | None = None
    body: bytes = b""
    remark: str | None = None


class RequestRefused(HeadraceError):
    """A request that is answered with an error."""

    def __init__(
        self, code: ResponseCode, remark: str, fields: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(remark)
        self.answer = RemotingAnswer(code, fields, b"", remark)


_CODES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ResponseCode.TOPIC_NOT_EXIST,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ResponseCode.NO_PERMISSION,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ResponseCode.NO_PERMISSION,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ResponseCode.NO_PERMISSION,
    ErrorCode.MESSAGE_TOO_LARGE: ResponseCode.MESSAGE_ILLEGAL,
    ErrorCode.RECORD_LIST_TOO_LARGE: ResponseCode.MESSAGE_ILLEGAL,
    ErrorCode.INVALID_RECORD: ResponseCode.MESSAGE_ILLEGAL,
    ErrorCode.POLICY_VIOLATION: ResponseCode.NO_PERMISSION,
    ErrorCode.INVALID_TOPIC_EXCEPTION: ResponseCode.INVALID_PARAMETER,
    ErrorCode.INVALID_PARTITIONS: ResponseCode.INVALID_PARAMETER,
}
"""Errors of requests that cannot succeed when they are repeated."""


def refusal_of(error: ApiError) -> RemotingAnswer:
    """Return the answer for a broker's error; one that may pass is SERVICE_NOT_AVAILABLE, 14."""
    code = _CODES.get(error.code, ResponseCode.SERVICE_NOT_AVAILABLE)
    return RemotingAnswer(code, None, b"", error.message or error.code.name)

"""API 20000, v0: Headrace's own API, operations of other protocols; sent by `headrace amqp`.

request   operation: string, question: bytes (a JSON object)
response  error_code: int16, error_message: nullable string, answer: bytes (a JSON value)
"""

import json
from typing import Any, NamedTuple

from headrace.model.errors import Malformed
from headrace.wire.kafka.reader import Reader
from headrace.wire.kafka.writer import Writer

VERSIONS = (0, 0)


class OperationRequest(NamedTuple):
    """A request: the operation's name and its arguments."""

    operation: str
    question: dict[str, Any]


class OperationResponse(NamedTuple):
    """A response: an error, or the operation's result."""

    error_code: int
    error_message: str | None
    answer: Any


def encode_request(version: int, request: OperationRequest) -> bytes:
    """Encode the body of a request."""
    writer = Writer()
    writer.string(request.operation)
    writer.bytes(json.dumps(request.question).encode())
    return bytes(writer.out)


def decode_request(body: memoryview) -> OperationRequest:
    """Decode the body of a request. Raises Malformed."""
    reader = Reader(body)
    operation = reader.string()
    text = bytes(reader.bytes())
    try:
        question = json.loads(text)
    except (ValueError, RecursionError):
        raise Malformed("the arguments of an operation are not JSON") from None
    if not isinstance(question, dict):
        raise Malformed("the arguments of an operation are not a JSON object")
    return OperationRequest(operation, question)


def encode_response(response: OperationResponse) -> bytes:
    """Encode the body of a response."""
    writer = Writer()
    writer.int16(response.error_code)
    writer.nullable_string(response.error_message)
    writer.bytes(json.dumps(response.answer).encode())
    return bytes(writer.out)


def decode_response(version: int, body: memoryview) -> OperationResponse:
    """Decode the body of a response. Raises Malformed."""
    reader = Reader(body)
    code, message = reader.int16(), reader.nullable_string()
    try:
        return OperationResponse(code, message, json.loads(bytes(reader.bytes())))
    except ValueError:
        raise Malformed("the result of an operation is not JSON") from None

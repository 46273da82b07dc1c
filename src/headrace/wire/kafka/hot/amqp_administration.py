"""AmqpAdministration (key 20000, v0): Headrace's own API, sent by `headrace amqp`.

request   operation: string, question: bytes (a JSON object)
response  error_code: int16, error_message: nullable string, answer: bytes (a JSON value)
"""

import json
from typing import Any, NamedTuple

from headrace.model.errors import Malformed
from headrace.wire.kafka.reader import Reader
from headrace.wire.kafka.writer import Writer

VERSIONS = (0, 0)


class AmqpQuestion(NamedTuple):
    """An AmqpAdministration request: the operation's name and its arguments."""

    operation: str
    question: dict[str, Any]


class AmqpAnswer(NamedTuple):
    """An AmqpAdministration response: an error, or the operation's result."""

    error_code: int
    error_message: str | None
    answer: Any


def encode_request(version: int, request: AmqpQuestion) -> bytes:
    """Encode the body of an AmqpAdministration request."""
    writer = Writer()
    writer.string(request.operation)
    writer.bytes(json.dumps(request.question).encode())
    return bytes(writer.out)


def decode_request(body: memoryview) -> AmqpQuestion:
    """Decode the body of an AmqpAdministration request; Malformed."""
    reader = Reader(body)
    operation = reader.string()
    text = bytes(reader.bytes())
    try:
        question = json.loads(text)
    except (ValueError, RecursionError):
        raise Malformed("the arguments of an AMQP operation are not JSON") from None
    if not isinstance(question, dict):
        raise Malformed("the arguments of an AMQP operation are not a JSON object")
    return AmqpQuestion(operation, question)


def encode_response(response: AmqpAnswer) -> bytes:
    """Encode the body of an AmqpAdministration response."""
    writer = Writer()
    writer.int16(response.error_code)
    writer.nullable_string(response.error_message)
    writer.bytes(json.dumps(response.answer).encode())
    return bytes(writer.out)


def decode_response(version: int, body: memoryview) -> AmqpAnswer:
    """Decode the body of an AmqpAdministration response; Malformed."""
    reader = Reader(body)
    code, message = reader.int16(), reader.nullable_string()
    try:
        return AmqpAnswer(code, message, json.loads(bytes(reader.bytes())))
    except ValueError:
        raise Malformed("the result of an AMQP operation is not JSON") from None

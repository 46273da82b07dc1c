"""What an administrator asks of a broker about AMQP: vhosts, users, permissions, queues."""

from typing import Any

from headrace.client.calls.call import HotCall, check
from headrace.client.client import Client
from headrace.model.errors import ApiError, ErrorCode
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot.amqp_administration import (
    VERSIONS,
    AmqpQuestion,
    decode_response,
    encode_request,
)

_NOT_SERVED = "this broker has no listener of AMQP: ask one that has"


async def ask_amqp(client: Client, operation: str, **question: Any) -> Any:  # noqa: ANN401 - JSON
    """Have an operation done, with what is not None of the question; its answer. ApiError."""
    given = {name: value for name, value in question.items() if value is not None}
    call = HotCall(
        ApiKey.AMQP_ADMINISTRATION,
        encode_request,
        decode_response,
        AmqpQuestion(operation, given),
        versions=VERSIONS,
    )
    try:
        response = await client.ask_any(call)
    except ApiError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            raise ApiError(error.code, _NOT_SERVED) from None
        raise
    check(response.error_code, response.error_message)
    return response.answer

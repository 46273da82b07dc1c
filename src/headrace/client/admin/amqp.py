"""AMQP administration over the Kafka protocol: vhosts, users, permissions, queues."""

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

_NOT_SERVED = "this broker has no AMQP listener: ask a broker that has one"


async def ask_amqp(client: Client, operation: str, **question: Any) -> Any:  # noqa: ANN401 - JSON
    """Run one AMQP admin operation on a broker and return its answer, decoded from JSON.

    Arguments of `question` that are None are left out. ApiError, UNSUPPORTED_VERSION if the broker
    serves no AMQP.
    """
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

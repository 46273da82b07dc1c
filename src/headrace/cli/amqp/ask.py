"""Requests of AMQP administration to a broker, over the Kafka protocol."""

from typing import Any

from headrace.client.admin.operations import call_operation
from headrace.client.client import Client
from headrace.model.errors import ApiError, ErrorCode

_NOT_SERVED = "this broker has no AMQP listener: ask a broker that has one"


async def ask_amqp(client: Client, operation: str, **question: Any) -> Any:  # noqa: ANN401 - JSON
    """Run one AMQP admin operation on a broker and return its answer, decoded from JSON.

    Arguments of `question` that are None are left out. ApiError, UNSUPPORTED_VERSION if the broker
    serves no AMQP.
    """
    given = {name: value for name, value in question.items() if value is not None}
    try:
        return await call_operation(client, operation, given)
    except ApiError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            raise ApiError(error.code, _NOT_SERVED) from None
        raise

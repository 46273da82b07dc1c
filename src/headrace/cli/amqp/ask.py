"""What an administrator asks of a broker about AMQP: vhosts, users, permissions, queues."""

from typing import Any

from headrace.client.admin.operations import call_operation
from headrace.client.client import Client
from headrace.model.errors import ApiError, ErrorCode

_NOT_SERVED = "this broker has no listener of AMQP: ask one that has"


async def ask_amqp(client: Client, operation: str, **question: Any) -> Any:  # noqa: ANN401 - JSON
    """Have an operation done, with what is not None of the question; its answer. ApiError."""
    given = {name: value for name, value in question.items() if value is not None}
    try:
        return await call_operation(client, operation, given)
    except ApiError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            raise ApiError(error.code, _NOT_SERVED) from None
        raise

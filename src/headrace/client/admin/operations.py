"""Operations of other protocols than Kafka's, called by an administrator (API 20000)."""

from collections.abc import Mapping
from typing import Any

from headrace.client.calls.call import HotCall, check
from headrace.client.client import Client
from headrace.model.errors import ApiError, ErrorCode
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot.administration import (
    VERSIONS,
    OperationRequest,
    OperationResponse,
    decode_response,
    encode_request,
)


async def call_operation(
    client: Client,
    operation: str,
    question: Mapping[str, Any],
    listener: str = "",
    *,
    wait_seconds: float = 0.0,
) -> Any:  # noqa: ANN401 - JSON
    """Return the result of an operation with these arguments, those that are None left out.

    Raises ApiError. `listener`: the listener that serves the operation, for the error's text.
    `wait_seconds`: how long the broker itself may wait, for other brokers, before it answers.
    """
    given = {name: value for name, value in question.items() if value is not None}
    call = HotCall(
        ApiKey.ADMINISTRATION,
        encode_request,
        decode_response,
        OperationRequest(operation, given),
        versions=VERSIONS,
    )

    async def attempt() -> OperationResponse:
        return await client.ask(await client.any_link(), call, wait_seconds=wait_seconds)

    try:
        response = await client.retrying(attempt)
        check(response.error_code, response.error_message)
    except ApiError as error:
        if listener and error.code is ErrorCode.UNSUPPORTED_VERSION:
            text = f"this broker has no {listener} listener: ask a broker that has one"
            raise ApiError(error.code, text) from None
        raise
    return response.answer

"""Operations of other protocols than Kafka's, called by an administrator (API 20000)."""

from collections.abc import Mapping
from typing import Any

from headrace.client.calls.call import HotCall, check
from headrace.client.client import Client
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot.administration import (
    VERSIONS,
    OperationRequest,
    decode_response,
    encode_request,
)


async def call_operation(client: Client, operation: str, question: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """Return the result of an operation with these arguments. Raises ApiError."""
    call = HotCall(
        ApiKey.ADMINISTRATION,
        encode_request,
        decode_response,
        OperationRequest(operation, dict(question)),
        versions=VERSIONS,
    )
    response = await client.ask_any(call)
    check(response.error_code, response.error_message)
    return response.answer

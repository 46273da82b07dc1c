"""Requests of AMQP administration to a broker, over the Kafka protocol."""

from typing import Any

from headrace.client.admin.operations import call_operation
from headrace.client.client import Client

COORDINATOR_SECONDS = 30.0
"""Seconds for which a broker waits for a vhost's coordinator before it answers with an error."""


async def ask_amqp(client: Client, operation: str, **question: Any) -> Any:  # noqa: ANN401 - JSON
    """Run one AMQP admin operation on a broker and return its answer, decoded from JSON.

    Arguments of `question` that are None are left out. ApiError, UNSUPPORTED_VERSION if the broker
    serves no AMQP.
    """
    wait_seconds = 0.0 if operation.endswith(".list") else COORDINATOR_SECONDS
    return await call_operation(client, operation, question, "AMQP", wait_seconds=wait_seconds)

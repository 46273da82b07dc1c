"""Requests of AMQP administration to a broker, over the Kafka protocol."""

from typing import Any

from headrace.client.admin.operations import call_operation
from headrace.client.client import Client


async def ask_amqp(client: Client, operation: str, **question: Any) -> Any:  # noqa: ANN401 - JSON
    """Run one AMQP admin operation on a broker and return its answer, decoded from JSON.

    Arguments of `question` that are None are left out. ApiError, UNSUPPORTED_VERSION if the broker
    serves no AMQP.
    """
    return await call_operation(client, operation, question, "AMQP")

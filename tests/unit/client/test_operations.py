"""Operations of administrators on a broker, which may wait for other brokers before it answers."""

from typing import TYPE_CHECKING, Any, cast

import pytest

from headrace.amqp_commands.amqp.ask import COORDINATOR_SECONDS, ask_amqp
from headrace.client.sync import run
from headrace.wire.kafka.hot.administration import OperationResponse

if TYPE_CHECKING:
    from headrace.client.client import Client


class _Asked:
    """A client that notes how long it would wait beyond its timeout."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def retrying(self, attempt: Any) -> Any:
        return await attempt()

    async def any_link(self) -> None:
        return None

    async def ask(self, link: None, call: object, *, wait_seconds: float) -> OperationResponse:
        self.waits.append(wait_seconds)
        return OperationResponse(0, None, {})


@pytest.mark.parametrize(
    ("operation", "seconds"),
    [
        ("queue.declare", COORDINATOR_SECONDS),
        ("queue.plan", COORDINATOR_SECONDS),
        ("binding.delete", COORDINATOR_SECONDS),
        ("queue.list", 0.0),
        ("queue-broker.list", 0.0),
    ],
)
def test_command_that_changes_waits_for_the_error_of_the_broker(
    operation: str, seconds: float
) -> None:
    client = _Asked()
    run(ask_amqp(cast("Client", client), operation, name="q"))
    assert client.waits == [seconds]
